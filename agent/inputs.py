"""A run input, checked and understood. Tolerant of what it need not know.

Attachments leave the message here: they are saved beside the conversations, and the message notes
where. One that is too large or is not base64 is left out, and the message says so.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, cast

import msgspec

from agent.domain.conversation import Answer
from agent.domain.messages import ATTACHMENTS, HIDDEN, Attachment, Message
from agent.domain.offer import NOTHING, AppContext, AppTool, Offer, props_of
from agent.domain.vocabulary import STATE_KEYS

LANE = "roost.lane"
FOLLOW_UP = "follow_up"
OWN_RUN = "roost.own_run"
_OUR_KEYS = frozenset(key.name for key in STATE_KEYS)
MAX_ATTACHMENT = 10 * 1024 * 1024
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_CONTINUE = "Continue where you stopped."

SaveAttachment = Callable[[str, bytes], Awaitable[str]]
"""Save a file under a name of this kind; returns its path."""


class BadInput(ValueError):
    """The frame is not what it says it is. The message is for its sender."""


class _Source(msgspec.Struct):
    value: str = ""
    type: str = "data"
    mimeType: str = ""


class _Part(msgspec.Struct):
    type: str
    text: str | None = None
    source: _Source | None = None
    data: str | None = None
    mimeType: str | None = None
    filename: str | None = None


class _InputMessage(msgspec.Struct, rename="camel"):
    role: str
    id: str | None = None
    content: str | list[_Part] | None = None
    tool_call_id: str | None = None
    error: str | None = None


class _Resume(msgspec.Struct, rename="camel"):
    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: object = None


class _RunInput(msgspec.Struct, rename="camel"):
    run_id: str | None = None
    messages: list[_InputMessage] = []
    resume: list[_Resume] | None = None
    tools: list[AppTool] | None = None
    context: list[AppContext] | None = None
    state: object = None
    forwarded_props: object = None


@dataclass(frozen=True, slots=True)
class RunInput:
    """A run input, understood."""

    run_id: str | None
    messages: tuple[Message, ...]
    answers: tuple[Answer, ...]
    is_empty: bool
    """Neither messages nor answers: go on where the agent stopped."""
    is_follow_up: bool = False
    """The messages begin a run of their own, and join none."""
    has_own_run: bool = False
    """Its sender waits for a run of this input: it has one, also when nothing in it is new."""
    results: tuple[Message, ...] = ()
    """What the application's tools came to."""
    offer: Offer | None = None


async def read_run_input(
    value: object,
    new_id: Callable[[], str],
    save: SaveAttachment,
    is_known: Callable[[str], bool],
) -> RunInput:
    """Check a run input, without the messages that are known. Raises BadInput."""
    try:
        found = msgspec.convert(value, _RunInput)
    except msgspec.ValidationError as exc:
        raise BadInput(f"The run input is malformed: {exc}.") from exc
    messages: list[Message] = []
    results: list[Message] = []
    seen: set[str] = set()
    for message in found.messages:
        if message.role == "tool" and message.tool_call_id:
            results.append(_result(message, new_id))
        if message.role != "user" or (message.id and (is_known(message.id) or message.id in seen)):
            continue
        if message.id:
            # The first of an id counts, as it does when the second comes in a later input.
            seen.add(message.id)
        read = await _message(message, new_id, save)
        if read is not None:
            messages.append(read)
    answers = tuple(_answer(entry) for entry in found.resume or ())
    is_empty = not found.messages and not answers
    props = json_object(found.forwarded_props) or {}
    has_own_run = props.get(OWN_RUN) is True
    return RunInput(
        found.run_id,
        tuple(messages),
        answers,
        is_empty,
        is_follow_up=has_own_run or props.get(LANE) == FOLLOW_UP,
        has_own_run=has_own_run,
        results=tuple(results),
        offer=_offer(found, props),
    )


def json_object(value: object) -> dict[str, object] | None:
    """The value if it is a JSON object."""
    return cast(dict[str, object], value) if isinstance(value, dict) else None


def continue_message(new_id: Callable[[], str]) -> Message:
    """What the model reads when a client asks it to go on; snapshots do not show it."""
    return Message(id=new_id(), role="user", content=_CONTINUE, metadata={HIDDEN: True})


def _offer(found: _RunInput, props: dict[str, object]) -> Offer | None:
    """What the application brings; None when it brings nothing. Our own state comes back in it."""
    state = json_object(found.state) or {}
    offer = Offer(
        tools=found.tools or [],
        context=found.context or [],
        state={key: value for key, value in state.items() if key not in _OUR_KEYS},
        props=props_of(props),
    )
    return offer if offer != NOTHING else None


def _result(message: _InputMessage, new_id: Callable[[], str]) -> Message:
    content = message.content or ""
    if not isinstance(content, str):
        content = "\n".join(part.text for part in content if part.text)
    return Message(
        id=message.id or new_id(),
        role="tool",
        content=content,
        tool_call_id=message.tool_call_id,
        error=message.error,
    )


def _answer(entry: _Resume) -> Answer:
    """Only what is plainly a yes approves."""
    approved = entry.status == "resolved"
    reason: str | None = None
    if (payload := json_object(entry.payload)) is not None:
        approved = approved and payload.get("approved", True) is True
        told = payload.get("reason")
        reason = told if isinstance(told, str) else None
    return Answer(entry.interrupt_id, approved, reason, entry.payload)


async def _message(
    message: _InputMessage, new_id: Callable[[], str], save: SaveAttachment
) -> Message | None:
    texts: list[str] = []
    saved: list[Attachment] = []
    content = message.content or ""
    for part in [_Part("text", text=content)] if isinstance(content, str) else content:
        if part.text is not None:
            texts.append(part.text)
        elif part.data is not None or part.source is not None:
            kept = await _attachment(part, save)
            if isinstance(kept, str):
                texts.append(kept)
            else:
                saved.append(kept)
                if not kept.is_image:
                    texts.append(f"[Attached file {kept.name}, saved at {kept.path}]")
    text = "\n".join(text for text in texts if text)
    if not text and not saved:
        return None
    metadata: dict[str, object] | None = None
    if saved:
        metadata = {ATTACHMENTS: msgspec.to_builtins(saved)}
    return Message(id=message.id or new_id(), role="user", content=text, metadata=metadata)


async def _attachment(part: _Part, save: SaveAttachment) -> Attachment | str:
    """The saved attachment, or the sentence that says why it is not there."""
    source = part.source or _Source(part.data or "", "data", part.mimeType or "")
    mime_type = source.mimeType or part.mimeType or "application/octet-stream"
    name = part.filename or f"{part.type}.{mime_type.rpartition('/')[2]}"
    if source.type != "data":
        return f"[Attachment {name} is at {source.value}]"
    # Base64 is four characters for three bytes: too long is seen before it is decoded.
    if len(source.value) * 3 // 4 > MAX_ATTACHMENT + 2:
        return f"[Attachment {name} was left out: it is larger than 10 MiB]"
    try:
        data = base64.b64decode(source.value, validate=True)
    except (binascii.Error, ValueError):
        return f"[Attachment {name} was left out: its content is not base64]"
    if len(data) > MAX_ATTACHMENT:
        return f"[Attachment {name} was left out: it is larger than 10 MiB]"
    try:
        path = await save(name, data)
    except OSError as exc:
        return f"[Attachment {name} was left out: it could not be saved ({exc.strerror})]"
    return Attachment(name=name, mime_type=mime_type, path=path, is_image=mime_type in _IMAGES)
