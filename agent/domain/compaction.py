"""What a model reads of a long conversation: a summary, and the last messages as they are.

It decides where the cut is and when one is due. Tokens are guessed where no model has counted
them: four characters each, which is on the safe side for most languages and code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from agent.domain.conversation import Conversation
from agent.domain.messages import Message, attachments_of

ACTIVITY = "roost.compaction"
# Where a window is this full, the next request may not fit: answers and results take room too.
FULL = 0.8
# How much of a window stays as it was said.
KEPT = 0.25
_CHARACTERS = 4
_IMAGE = 1_500
_MESSAGE = 8
_HEAD = (
    "[The conversation so far, in short. It was summarized to make room; what was done is done.]"
)


def read_by_model(conversation: Conversation) -> list[Message]:
    """The messages of the next request."""
    messages = list(conversation.transcript)
    compacted = conversation.compacted
    if compacted is None:
        return messages
    ids = [message.id for message in messages]
    summary_at = ids.index(compacted.message.id) if compacted.message.id in ids else -1
    start = summary_at + 1
    if compacted.kept_from in ids:
        start = ids.index(compacted.kept_from)
    asked = [m for m in messages if m.id == compacted.asked]
    text = f"{_HEAD}\n\n{summary_of(compacted.message)}"
    summary = Message(id=compacted.message.id, role="user", content=text)
    return [summary, *asked, *messages[start:]]


def summary_of(activity: Message) -> str:
    """The text of a summary that clients see as an activity."""
    content = activity.content if isinstance(activity.content, dict) else {}
    return str(content.get("text", ""))


def tokens_of(messages: Sequence[Message]) -> int:
    """About how many tokens a model reads these as."""
    return sum(_tokens(message) for message in messages)


def is_due(tokens: int, window: int | None) -> bool:
    """Should room be made before the next request?"""
    return window is not None and tokens >= window * FULL


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a conversation is shortened."""

    summarized: list[Message]
    kept_from: str | None = None
    asked: str | None = None
    """What the user said last, if it is among what is summarized: it stays as it is."""


def cut(conversation: Conversation, window: int | None, kept: int = 0) -> Cut | None:
    """Where to cut so that about `kept` tokens stay as they were said; None: there is no place.

    The last turn stays whole. If it alone fills too much of the window, its last steps stay.
    """
    messages = read_by_model(conversation)
    compacted = conversation.compacted
    summary_id = compacted.message.id if compacted else None
    behind = list(accumulate(reversed([_tokens(message) for message in messages])))[::-1]
    begins = [
        place
        for place, message in enumerate(messages)
        if place > 0 and _begins_turn(conversation, message)
    ]
    users = [p for p, m in enumerate(messages) if m.role == "user" and m.id != summary_id]
    last = users[-1] if users else 0
    limit = inf if window is None else window * KEPT
    asked = None
    if last in begins and behind[last] <= limit:
        start = next((place for place in begins if behind[place] <= kept), last)
        start = min(start, last)
    else:
        steps = [place for place in begins if place > last + 1]
        if not steps or limit == inf:
            return None
        start = next((place for place in steps if behind[place] <= limit), steps[-1])
        asked = messages[last].id if users else None
    if all(message.id in (summary_id, asked) for message in messages[:start]):
        return None
    return Cut(messages[:start], messages[start].id, asked)


def _begins_turn(conversation: Conversation, message: Message) -> bool:
    """Can a model's reading begin here? Not between a call and its result."""
    if message.role == "user":
        return True
    if message.role not in ("assistant", "reasoning"):
        return False
    response = conversation.responses.get(message.id)
    return response is None or response.message_ids[0] == message.id


def _tokens(message: Message) -> int:
    if message.role == "activity":
        return 0
    count = len(message.text)
    count += sum(
        len(call.function.name) + len(call.function.arguments) for call in message.tool_calls or ()
    )
    return count // _CHARACTERS + _MESSAGE + _IMAGE * len(attachments_of(message))
