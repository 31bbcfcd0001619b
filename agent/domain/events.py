"""The AG-UI 1.0 events that our worker writes, and nothing more of the protocol.

Struct fields are encoded in the order they are written here, `type` first, in camelCase; an
optional field without a value is left out. No chunk events: a joiner can't place them.
"""

from typing import Literal

import msgspec

from agent.domain.messages import Message

PROTOCOL_VERSION = "1.0"


class Event(
    msgspec.Struct,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    tag_field="type",
):
    """One line of a worker's stdout."""


class InputEcho(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The input that a run was started with. Followers learn the user's messages from it."""

    thread_id: str
    run_id: str
    messages: list[Message]
    tools: list[object] = []
    context: list[object] = []


class RunStarted(Event, tag="RUN_STARTED"):
    thread_id: str
    run_id: str
    protocol_version: str
    input: InputEcho | None = None


class Interrupt(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Something a suspended run waits for."""

    id: str
    reason: str
    message: str | None = None
    tool_call_id: str | None = None
    response_schema: dict[str, object] | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    type: Literal["success", "interrupt", "cancelled"]
    interrupts: list[Interrupt] | None = None
    pending_tool_call_ids: list[str] | None = None
    """Calls that the client's application is to answer with its next input."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Tokens of one run at one model. `total` is input and output together."""

    provider: str
    model: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_input_tokens: int | None = None


class RunFinished(Event, tag="RUN_FINISHED"):
    thread_id: str
    run_id: str
    outcome: Outcome
    result: dict[str, object] | None = None
    usage: list[Usage] | None = None


class RunError(Event, tag="RUN_ERROR"):
    """With `run_id` it ended that run; without, no run ended."""

    message: str
    run_id: str | None = None
    code: str | None = None
    usage: list[Usage] | None = None


class StateSnapshot(Event, tag="STATE_SNAPSHOT"):
    snapshot: dict[str, object]


class StateDelta(Event, tag="STATE_DELTA"):
    delta: list[dict[str, object]]


class SnapshotWindow(msgspec.Struct, frozen=True):
    """Which part of the messages a snapshot has, for whoever asked for no more."""

    first: int
    total: int


class MessagesSnapshot(Event, tag="MESSAGES_SNAPSHOT"):
    messages: list[Message]
    window: SnapshotWindow | None = msgspec.field(name="roost.window", default=None)


class ActivitySnapshot(Event, tag="ACTIVITY_SNAPSHOT"):
    message_id: str
    activity_type: str
    content: dict[str, object]


class TextMessageStart(Event, tag="TEXT_MESSAGE_START"):
    message_id: str
    role: Literal["assistant", "user"]


class TextMessageContent(Event, tag="TEXT_MESSAGE_CONTENT"):
    message_id: str
    delta: str


class TextMessageEnd(Event, tag="TEXT_MESSAGE_END"):
    message_id: str


class ReasoningStart(Event, tag="REASONING_START"):
    message_id: str


class ReasoningMessageStart(Event, tag="REASONING_MESSAGE_START"):
    message_id: str
    role: Literal["reasoning"]


class ReasoningMessageContent(Event, tag="REASONING_MESSAGE_CONTENT"):
    message_id: str
    delta: str


class ReasoningMessageEnd(Event, tag="REASONING_MESSAGE_END"):
    message_id: str


class ReasoningEnd(Event, tag="REASONING_END"):
    message_id: str


class ToolCallStart(Event, tag="TOOL_CALL_START"):
    tool_call_id: str
    tool_call_name: str
    parent_message_id: str


class ToolCallArgs(Event, tag="TOOL_CALL_ARGS"):
    tool_call_id: str
    delta: str


class ToolCallEnd(Event, tag="TOOL_CALL_END"):
    tool_call_id: str


class ToolCallResult(Event, tag="TOOL_CALL_RESULT"):
    message_id: str
    tool_call_id: str
    content: str
    role: Literal["tool"]


class Custom(Event, tag="CUSTOM"):
    """What the protocol has no event for."""

    name: str
    value: dict[str, object]


Growth = (
    TextMessageStart
    | TextMessageContent
    | ReasoningMessageStart
    | ReasoningMessageContent
    | ToolCallStart
    | ToolCallArgs
)
"""What makes a message grow: these are also what the history keeps of an unfinished one."""
