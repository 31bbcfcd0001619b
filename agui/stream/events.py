"""The events of AG-UI 1.0 as they may leave: every type with its fields, and nothing else.

Reading a worker's line keeps what the protocol describes, strips what it does not, and refuses what
has a wrong value. What may be any JSON stays the bytes it came in. Optional fields are absent or
have a value: the protocol knows no null for them.
"""

from collections.abc import Callable
from typing import Annotated, Literal, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import UNSET, Raw, UnsetType

PROTOCOL_VERSION = "1.0"

# What JavaScript keeps exactly.
_SAFE = 2**53 - 1
SafeInt = Annotated[int, msgspec.Meta(ge=-_SAFE, le=_SAFE)]
Count = Annotated[int, msgspec.Meta(ge=0, le=_SAFE)]
Metadata: TypeAlias = dict[str, Raw] | UnsetType
OptionalText: TypeAlias = str | UnsetType
OptionalRaw: TypeAlias = Raw | UnsetType


class BadEvent(ValueError):
    """The line is an event whose fields are wrong. The message says which, and quotes nothing."""


class _Part(msgspec.Struct, tag_field="type", rename="camel", omit_defaults=True, kw_only=True):
    """What everything below has in common: absent fields are left out."""


# Parts of a message's content


class DataSource(_Part, tag="data"):
    value: str
    mime_type: str


class UrlSource(_Part, tag="url"):
    value: str
    mime_type: OptionalText = UNSET


class FileSource(_Part, tag="file"):
    value: str
    provider: OptionalText = UNSET
    mime_type: OptionalText = UNSET


class TextPart(_Part, tag="text"):
    text: str
    id: OptionalText = UNSET
    metadata: OptionalRaw = UNSET


class _MediaPart(_Part, kw_only=True):
    source: DataSource | UrlSource | FileSource
    id: OptionalText = UNSET
    metadata: OptionalRaw = UNSET


class ImagePart(_MediaPart, tag="image"): ...


class AudioPart(_MediaPart, tag="audio"): ...


class VideoPart(_MediaPart, tag="video"): ...


class DocumentPart(_MediaPart, tag="document"): ...


ContentPart: TypeAlias = TextPart | ImagePart | AudioPart | VideoPart | DocumentPart
Content: TypeAlias = str | list[Raw]
"""Parts are looked at one by one, since one of an unknown type spoils no other."""


# Messages


class FunctionCall(msgspec.Struct):
    name: str
    arguments: str


class ToolCall(_Part, tag="function"):
    id: str
    function: FunctionCall
    encrypted_value: OptionalText = UNSET
    metadata: Metadata = UNSET


class Message(msgspec.Struct, tag_field="role", rename="camel", omit_defaults=True, kw_only=True):
    """One message of a conversation."""

    id: str
    name: OptionalText = UNSET
    encrypted_value: OptionalText = UNSET
    metadata: Metadata = UNSET
    subagent_run_id: OptionalText = UNSET


class UserMessage(Message, tag="user"):
    content: Content


class DeveloperMessage(Message, tag="developer"):
    content: str


class SystemMessage(Message, tag="system"):
    content: str


class AssistantMessage(Message, tag="assistant"):
    content: OptionalText = UNSET
    tool_calls: list[ToolCall] | UnsetType = UNSET


class _Unnamed(msgspec.Struct, tag_field="role", rename="camel", omit_defaults=True, kw_only=True):
    id: str
    encrypted_value: OptionalText = UNSET
    metadata: Metadata = UNSET
    subagent_run_id: OptionalText = UNSET


class ToolMessage(_Unnamed, tag="tool"):
    content: Content
    tool_call_id: str
    error: OptionalText = UNSET


class ActivityMessage(_Unnamed, tag="activity"):
    activity_type: str
    content: dict[str, Raw]


class ReasoningMessage(_Unnamed, tag="reasoning"):
    content: str


AnyMessage: TypeAlias = (
    UserMessage
    | DeveloperMessage
    | SystemMessage
    | AssistantMessage
    | ToolMessage
    | ActivityMessage
    | ReasoningMessage
)
_ROLES = frozenset({"user", "developer", "system", "assistant", "tool", "activity", "reasoning"})


# Runs


class Tool(msgspec.Struct, omit_defaults=True, kw_only=True):
    name: str
    description: str
    parameters: OptionalRaw = UNSET
    metadata: Metadata = UNSET


class Context(msgspec.Struct):
    description: str
    value: str


class ResumeEntry(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: OptionalRaw = UNSET
    metadata: Metadata = UNSET


class InputEcho(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The input that a run was started with, where its producer tells it."""

    thread_id: str
    run_id: str
    messages: list[Raw]
    protocol_version: OptionalText = UNSET
    parent_run_id: OptionalText = UNSET
    state: OptionalRaw = UNSET
    tools: list[Tool] | UnsetType = UNSET
    context: list[Context] | UnsetType = UNSET
    forwarded_props: OptionalRaw = UNSET
    resume: list[ResumeEntry] | UnsetType = UNSET


class Usage(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    provider: OptionalText = UNSET
    model: OptionalText = UNSET
    input_tokens: Count | UnsetType = UNSET
    output_tokens: Count | UnsetType = UNSET
    total_tokens: Count | UnsetType = UNSET
    reasoning_tokens: Count | UnsetType = UNSET
    cached_input_tokens: Count | UnsetType = UNSET
    cache_write_input_tokens: Count | UnsetType = UNSET


class Interrupt(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    id: str
    reason: str
    message: OptionalText = UNSET
    tool_call_id: OptionalText = UNSET
    response_schema: dict[str, Raw] | UnsetType = UNSET
    expires_at: OptionalText = UNSET
    metadata: Metadata = UNSET
    subagent_run_id: OptionalText = UNSET


class Success(_Part, tag="success"):
    pending_tool_call_ids: list[str] | UnsetType = UNSET


class Interrupted(_Part, tag="interrupt"):
    interrupts: list[Interrupt]


class Cancelled(_Part, tag="cancelled"): ...


class SubagentSuccess(_Part, tag="success"): ...


class SubagentSuspended(_Part, tag="suspended"):
    interrupt_ids: list[str] | UnsetType = UNSET


# Events


class Event(_Part, kw_only=True):
    """One event."""

    timestamp: SafeInt | UnsetType = UNSET
    raw_event: OptionalRaw = UNSET
    metadata: Metadata = UNSET


class Tagged(Event, kw_only=True):
    """An event that may be a subagent's."""

    subagent_run_id: OptionalText = UNSET


class RunStarted(Event, tag="RUN_STARTED"):
    thread_id: str
    run_id: str
    protocol_version: OptionalText = UNSET
    parent_run_id: OptionalText = UNSET
    input: InputEcho | UnsetType = UNSET


class RunFinished(Event, tag="RUN_FINISHED"):
    thread_id: str
    run_id: str
    result: OptionalRaw = UNSET
    outcome: Success | Interrupted | Cancelled | UnsetType = UNSET
    usage: list[Usage] | UnsetType = UNSET


class RunError(Event, tag="RUN_ERROR"):
    message: str
    code: OptionalText = UNSET
    usage: list[Usage] | UnsetType = UNSET


class StepStarted(Tagged, tag="STEP_STARTED"):
    step_name: str


class StepFinished(Tagged, tag="STEP_FINISHED"):
    step_name: str


Role: TypeAlias = Literal["developer", "system", "assistant", "user"]


class TextMessageStart(Tagged, tag="TEXT_MESSAGE_START"):
    message_id: str
    role: Role | UnsetType = UNSET
    name: OptionalText = UNSET


class TextMessageContent(Tagged, tag="TEXT_MESSAGE_CONTENT"):
    message_id: str
    delta: str


class TextMessageEnd(Tagged, tag="TEXT_MESSAGE_END"):
    message_id: str


class TextMessageChunk(Tagged, tag="TEXT_MESSAGE_CHUNK"):
    message_id: OptionalText = UNSET
    role: Role | UnsetType = UNSET
    delta: OptionalText = UNSET
    name: OptionalText = UNSET


class ToolCallStart(Tagged, tag="TOOL_CALL_START"):
    tool_call_id: str
    tool_call_name: str
    parent_message_id: OptionalText = UNSET


class ToolCallArgs(Tagged, tag="TOOL_CALL_ARGS"):
    tool_call_id: str
    delta: str


class ToolCallEnd(Tagged, tag="TOOL_CALL_END"):
    tool_call_id: str


class ToolCallChunk(Tagged, tag="TOOL_CALL_CHUNK"):
    tool_call_id: OptionalText = UNSET
    tool_call_name: OptionalText = UNSET
    parent_message_id: OptionalText = UNSET
    delta: OptionalText = UNSET


class ToolCallResult(Tagged, tag="TOOL_CALL_RESULT"):
    message_id: str
    tool_call_id: str
    content: Content
    role: Literal["tool"] | UnsetType = UNSET


class StateSnapshot(Tagged, tag="STATE_SNAPSHOT"):
    snapshot: Raw


class StateDelta(Tagged, tag="STATE_DELTA"):
    delta: list[Raw]


class MessagesSnapshot(Event, tag="MESSAGES_SNAPSHOT"):
    messages: list[Raw]


class ActivitySnapshot(Tagged, tag="ACTIVITY_SNAPSHOT"):
    message_id: str
    activity_type: str
    content: dict[str, Raw]
    replace: bool | UnsetType = UNSET


class ActivityDelta(Tagged, tag="ACTIVITY_DELTA"):
    message_id: str
    activity_type: str
    patch: list[Raw]


class ReasoningStart(Tagged, tag="REASONING_START"):
    message_id: str


class ReasoningEnd(Tagged, tag="REASONING_END"):
    message_id: str


class ReasoningMessageStart(Tagged, tag="REASONING_MESSAGE_START"):
    message_id: str
    role: Literal["reasoning"]


class ReasoningMessageContent(Tagged, tag="REASONING_MESSAGE_CONTENT"):
    message_id: str
    delta: str


class ReasoningMessageEnd(Tagged, tag="REASONING_MESSAGE_END"):
    message_id: str


class ReasoningMessageChunk(Tagged, tag="REASONING_MESSAGE_CHUNK"):
    message_id: OptionalText = UNSET
    delta: OptionalText = UNSET


class ReasoningEncryptedValue(Tagged, tag="REASONING_ENCRYPTED_VALUE"):
    subtype: Literal["message", "tool-call"]
    entity_id: str
    encrypted_value: str


class SubagentStarted(Event, tag="SUBAGENT_STARTED"):
    subagent_run_id: str
    name: str
    description: OptionalText = UNSET
    parent_subagent_run_id: OptionalText = UNSET
    parent_tool_call_id: OptionalText = UNSET
    parent_message_id: OptionalText = UNSET


class SubagentFinished(Event, tag="SUBAGENT_FINISHED"):
    subagent_run_id: str
    result: OptionalRaw = UNSET
    outcome: SubagentSuccess | SubagentSuspended | UnsetType = UNSET


class SubagentError(Event, tag="SUBAGENT_ERROR"):
    subagent_run_id: str
    message: str
    code: OptionalText = UNSET


class RawEvent(Tagged, tag="RAW"):
    event: Raw
    source: OptionalText = UNSET


class Custom(Tagged, tag="CUSTOM"):
    name: str
    value: Raw


AnyEvent: TypeAlias = (
    RunStarted
    | RunFinished
    | RunError
    | StepStarted
    | StepFinished
    | TextMessageStart
    | TextMessageContent
    | TextMessageEnd
    | TextMessageChunk
    | ToolCallStart
    | ToolCallArgs
    | ToolCallEnd
    | ToolCallChunk
    | ToolCallResult
    | StateSnapshot
    | StateDelta
    | MessagesSnapshot
    | ActivitySnapshot
    | ActivityDelta
    | ReasoningStart
    | ReasoningEnd
    | ReasoningMessageStart
    | ReasoningMessageContent
    | ReasoningMessageEnd
    | ReasoningMessageChunk
    | ReasoningEncryptedValue
    | SubagentStarted
    | SubagentFinished
    | SubagentError
    | RawEvent
    | Custom
)


class _Kind(msgspec.Struct):
    type: str


class _Role(msgspec.Struct):
    role: str


_T = TypeVar("_T")
_event = msgspec.json.Decoder(AnyEvent)
_kind = msgspec.json.Decoder(_Kind)
_role = msgspec.json.Decoder(_Role)
_message: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)
_part: msgspec.json.Decoder[ContentPart] = msgspec.json.Decoder(ContentPart)
encode: Callable[[object], bytes] = msgspec.json.Encoder().encode

TYPES: frozenset[str] = frozenset(str(kind.__struct_config__.tag) for kind in get_args(AnyEvent))
_PARTS = frozenset({"text", "image", "audio", "video", "document"})


def read_event(line: bytes) -> AnyEvent | None:
    """The event that a line is; None when it is of no type that the protocol knows.

    Raises BadEvent.
    """
    try:
        event = _event.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        if _has_unknown(_kind, "type", line, TYPES):
            return None
        raise BadEvent(_words(exc)) from exc
    if event.raw_event is not UNSET:
        _check_no_null(event.raw_event, "rawEvent")
    if type(event) in _LOOKED_INTO:
        _look_into(event)
    return event


def _look_into(event: AnyEvent) -> None:
    """Strip what the protocol does not know, and refuse null where any JSON but that may be."""
    match event:
        case MessagesSnapshot():
            event.messages = known_messages(event.messages)
        case ToolCallResult():
            event.content = known_parts(event.content)
        case RunFinished() | SubagentFinished():
            _check_no_null(event.result, "result")
        case RunStarted(input=InputEcho() as echo):
            echo.messages = known_messages(echo.messages)
            _check_no_null(echo.state, "input.state")
            _check_no_null(echo.forwarded_props, "input.forwardedProps")
            for entry in echo.resume or ():
                _check_no_null(entry.payload, "input.resume.payload")
        case _:
            pass


_LOOKED_INTO = frozenset(
    {MessagesSnapshot, ToolCallResult, RunFinished, SubagentFinished, RunStarted}
)
"""Every other type is as it should be once it was read: most lines are of one of those."""


def known_messages(messages: list[Raw]) -> list[Raw]:
    """The messages whose role the protocol knows, without what it does not know of them."""
    return [Raw(encode(message)) for message in read_messages(messages)]


def read_messages(messages: list[Raw]) -> list[AnyMessage]:
    """The messages whose role the protocol knows. Raises BadEvent."""
    found: list[AnyMessage] = []
    for raw in messages:
        line = bytes(raw)
        try:
            message = _message.decode(line)
        except (msgspec.MsgspecError, RecursionError) as exc:
            if _has_unknown(_role, "role", line, _ROLES):
                continue
            raise BadEvent(f"a message: {_words(exc)}") from exc
        if isinstance(message, UserMessage | ToolMessage):
            message.content = known_parts(message.content)
        found.append(message)
    return found


def known_parts(content: Content) -> Content:
    """The content without parts of types that the protocol does not know. Raises BadEvent."""
    if isinstance(content, str):
        return content
    return [Raw(encode(part)) for part in read_parts(content)]


def read_parts(parts: list[Raw]) -> list[ContentPart]:
    """The parts whose type the protocol knows. Raises BadEvent."""
    found: list[ContentPart] = []
    for raw in parts:
        line = bytes(raw)
        try:
            part = _part.decode(line)
        except (msgspec.MsgspecError, RecursionError) as exc:
            if _has_unknown(_kind, "type", line, _PARTS):
                continue
            raise BadEvent(f"a content part: {_words(exc)}") from exc
        _check_no_null(part.metadata, "metadata")
        found.append(part)
    return found


def _has_unknown(
    decoder: msgspec.json.Decoder[_T], name: str, line: bytes, known: frozenset[str]
) -> bool:
    try:
        return getattr(decoder.decode(line), name) not in known
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def _check_no_null(value: Raw | UnsetType, name: str) -> None:
    if value is not UNSET and bytes(value) == b"null":
        raise BadEvent(f"{name} is null, and has to be left out then")


def _words(exc: Exception) -> str:
    return str(exc).replace("`", "").replace("$.", "")
