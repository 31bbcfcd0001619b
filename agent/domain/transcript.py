"""The messages of a conversation as a client sees them, fed by the very events that leave.

A snapshot taken between two lines is therefore exactly the state after the first of them. The same
class is fed from the history at load, so that ids and order are the same after a restart. It knows
nothing of runs, files or models.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from agent.domain.events import (
    ActivitySnapshot,
    Event,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)
from agent.domain.messages import HIDDEN, INTERRUPTED, FunctionCall, Message, ToolCall


class Page(NamedTuple):
    """Some messages in a row, the place of the first, and how many there are in all."""

    messages: list[Message]
    first: int
    total: int


class Transcript:
    """Messages by id, in the order they first appeared. Growing ones keep their pieces apart."""

    def __init__(self) -> None:
        self._messages: dict[str, Message] = {}
        self._pieces: dict[str, list[str]] = {}  # message id -> text not joined yet
        self._calls: dict[str, str] = {}  # tool call id -> the message it is in
        self._arguments: dict[str, list[str]] = {}  # tool call id -> arguments not joined yet
        self._open: set[str] = set()

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._messages

    def __iter__(self) -> Iterator[Message]:
        """Every message, hidden ones too, with all that has arrived of it."""
        for message_id in self._messages:
            yield self.message(message_id)

    def visible(self) -> list[Message]:
        """What a snapshot shows."""
        return [message for message in self if not message.is_marked(HIDDEN)]

    def page(self, before: int | None, limit: int) -> "Page":
        """Up to `limit` of the visible messages before a place; None: the last ones.

        Only those are put together, so that the end of a long history is there at once.
        """
        ids = [m.id for m in self._messages.values() if not m.is_marked(HIDDEN)]
        end = len(ids) if before is None else max(0, min(before, len(ids)))
        first = max(0, end - limit)
        return Page([self.message(message_id) for message_id in ids[first:end]], first, len(ids))

    def message(self, message_id: str) -> Message:
        """The message as it is now. Raises KeyError for an unknown id."""
        message = self._messages[message_id]
        if pieces := self._pieces.pop(message_id, None):
            message = msgspec.structs.replace(message, content=message.text + "".join(pieces))
            self._messages[message_id] = message
        calls = message.tool_calls
        if calls and any(call.id in self._arguments for call in calls):
            message = msgspec.structs.replace(message, tool_calls=[self._joined(c) for c in calls])
            self._messages[message_id] = message
        return message

    def put(self, message: Message) -> None:
        """A whole message: new, or in place of what there was under its id."""
        self._messages[message.id] = message
        self._pieces.pop(message.id, None)
        self._open.discard(message.id)
        for call in message.tool_calls or ():
            self._calls[call.id] = message.id
            self._arguments.pop(call.id, None)
            self._open.discard(call.id)

    def put_calls(self, message_id: str, calls: Iterable[ToolCall]) -> None:
        """The whole calls of a message, in place of what was known of them.

        The line of the message itself may be one that could not be read: it is empty then.
        """
        new = {call.id: call for call in calls}
        if message_id not in self._messages:
            self._messages[message_id] = Message(id=message_id, role="assistant", content="")
        message = self.message(message_id)
        kept = [new.pop(call.id, call) for call in message.tool_calls or ()]
        self.put(msgspec.structs.replace(message, tool_calls=[*kept, *new.values()]))

    def apply(self, event: Event) -> None:
        """Take one event that is about to leave, or one that the history kept."""
        match event:
            case TextMessageStart(message_id=message_id):
                self._begin(Message(id=message_id, role="assistant", content=""))
            case ReasoningMessageStart(message_id=message_id):
                self._begin(Message(id=message_id, role="reasoning", content=""))
            case (
                TextMessageContent(message_id=message_id, delta=delta)
                | ReasoningMessageContent(message_id=message_id, delta=delta)
            ):
                self._pieces.setdefault(message_id, []).append(delta)
            case TextMessageEnd(message_id=ended) | ReasoningMessageEnd(message_id=ended):
                self._open.discard(ended)
            case ToolCallStart(tool_call_id=call_id, tool_call_name=name, parent_message_id=parent):
                self._begin_call(call_id, name, parent)
            case ToolCallArgs(tool_call_id=call_id, delta=delta):
                self._arguments.setdefault(call_id, []).append(delta)
            case ToolCallEnd(tool_call_id=call_id):
                self._open.discard(call_id)
            case ToolCallResult() as result if result.message_id not in self._messages:
                # What was recorded before it was told says more: also that it failed.
                self.put(tool_message(result))
            case ActivitySnapshot() as activity:
                self.put(activity_message(activity))
            case _:
                pass  # the other events say nothing about messages

    def mark_interrupted(self) -> list[Message]:
        """Close what is still open, marked as not all there. Returns those messages."""
        broken = {self._calls.get(open_id, open_id) for open_id in self._open}
        self._open.clear()
        marked = [
            self.message(message_id).marked(INTERRUPTED, True)
            for message_id in self._messages
            if message_id in broken
        ]
        for message in marked:
            self.put(message)
        return marked

    def _begin(self, message: Message) -> None:
        self._open.add(message.id)
        # Reopening is legal: what follows is appended.
        self._messages.setdefault(message.id, message)

    def _begin_call(self, call_id: str, name: str, parent: str) -> None:
        self._open.add(call_id)
        if call_id in self._calls:
            return
        self._calls[call_id] = parent
        if parent not in self._messages:
            self._messages[parent] = Message(id=parent, role="assistant", content="")
        message = self.message(parent)
        call = ToolCall(id=call_id, function=FunctionCall(name=name, arguments=""))
        calls = [*(message.tool_calls or ()), call]
        self._messages[parent] = msgspec.structs.replace(message, tool_calls=calls)

    def _joined(self, call: ToolCall) -> ToolCall:
        pieces = self._arguments.pop(call.id, None)
        if not pieces:
            return call
        function = FunctionCall(call.function.name, call.function.arguments + "".join(pieces))
        return ToolCall(id=call.id, function=function)


def tool_message(result: ToolCallResult) -> Message:
    """The message that a result adds to the conversation."""
    return Message(
        id=result.message_id,
        role="tool",
        content=result.content,
        tool_call_id=result.tool_call_id,
    )


def activity_message(activity: ActivitySnapshot) -> Message:
    """The message that an activity is."""
    return Message(
        id=activity.message_id,
        role="activity",
        activity_type=activity.activity_type,
        content=activity.content,
    )


def told_activity(message: Message) -> ActivitySnapshot:
    """The event that tells an activity message."""
    assert isinstance(message.content, dict)
    return ActivitySnapshot(
        message_id=message.id,
        activity_type=message.activity_type or "",
        content=message.content,
    )
