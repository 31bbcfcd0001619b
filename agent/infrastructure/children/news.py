"""What a child says, as news: the events of its thread, or the reports of its process. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from agent.domain.subagents import (
    TURN,
    Ask,
    Asked,
    Began,
    Broke,
    Counted,
    Did,
    Nested,
    News,
    Turned,
    TurnReport,
)

# A child without reports of its own is quoted up to here.
_LONGEST_TEXT = 64 * 1024


class _Stats(msgspec.Struct):
    tools_succeeded: int = 0
    tools_failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class Report(msgspec.Struct):
    """The members of a `subagent_turn`, as an event's value and as a line of its own."""

    final_assistant: str = ""
    success: bool = True
    error: str | None = None
    done: bool = True
    stats: _Stats = msgspec.field(default_factory=_Stats)
    waiting: list[Ask] = []
    """What a person would have to decide; only in lines of a process."""

    def report(self) -> TurnReport:
        stats = self.stats
        return TurnReport(
            text=self.final_assistant,
            success=self.success,
            error=self.error or "",
            done=self.done,
            tools_succeeded=stats.tools_succeeded,
            tools_failed=stats.tools_failed,
            input_tokens=stats.input_tokens,
            output_tokens=stats.output_tokens,
            cached_tokens=stats.cached_tokens,
        )


class _Jobs(msgspec.Struct):
    running: int = 0


class _Usage(msgspec.Struct, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0


class _State(msgspec.Struct):
    usage: list[_Usage] = []
    backgroundTasks: _Jobs = msgspec.field(default_factory=_Jobs)
    subagents: dict[str, object] = {}


class _Step(msgspec.Struct):
    path: str = ""
    value: msgspec.Raw = msgspec.Raw()


class _Outcome(msgspec.Struct):
    type: str = "success"
    interrupts: list[Ask] = []


class _InputMessage(msgspec.Struct):
    id: str = ""


class _Input(msgspec.Struct):
    messages: list[_InputMessage] = []


class _SnapshotMessage(msgspec.Struct):
    role: str
    id: str = ""
    content: object = None


class Event(msgspec.Struct, rename="camel"):
    """What is read of a line. Everything else is skipped unread."""

    type: str
    run_id: str | None = None
    role: str | None = None
    delta: msgspec.Raw = msgspec.Raw()
    tool_call_name: str = ""
    name: str = ""
    value: msgspec.Raw = msgspec.Raw()
    snapshot: msgspec.Raw = msgspec.Raw()
    messages: msgspec.Raw = msgspec.Raw()
    outcome: _Outcome = msgspec.field(default_factory=_Outcome)
    input: _Input = msgspec.field(default_factory=_Input)
    message: str = ""
    code: str | None = None


decode_event = msgspec.json.Decoder(Event).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_report = msgspec.json.Decoder(Report).decode
_decode_steps = msgspec.json.Decoder(list[_Step]).decode
_decode_state = msgspec.json.Decoder(_State).decode
_decode_messages = msgspec.json.Decoder(list[_SnapshotMessage]).decode


class Reader:
    """Reads the events of one child's thread."""

    def __init__(self) -> None:
        self._has_reported = False
        self._text = ""
        self._state = _State()

    def take(self, event: Event) -> list[News]:
        """The news in one event. Raises msgspec.DecodeError for what is not as it should be."""
        match event.type:
            case "RUN_STARTED":
                self._has_reported = False
                self._text = ""
                return [Began()]
            case "TEXT_MESSAGE_START" if event.role == "assistant":
                self._text = ""
                return [Did("writes")]
            case "TEXT_MESSAGE_CONTENT":
                if len(self._text) < _LONGEST_TEXT:
                    self._text += _decode_text(event.delta)
            case "REASONING_START":
                return [Did("thinks")]
            case "TOOL_CALL_START":
                return [Did(f"calls {event.tool_call_name}")]
            case "STATE_SNAPSHOT":
                self._state = _decode_state(event.snapshot)
                return self._counted()
            case "STATE_DELTA":
                return self._patched(_decode_steps(event.delta))
            case "CUSTOM" if event.name == TURN:
                self._has_reported = True
                return [Turned(_decode_report(event.value).report())]
            case "RUN_FINISHED":
                return self._finished(event.outcome)
            case "RUN_ERROR":
                return self._failed(event)
            case _:
                pass
        return []

    def _finished(self, outcome: _Outcome) -> list[News]:
        if outcome.type == "interrupt":
            return [Asked(tuple(outcome.interrupts))]
        if self._has_reported:
            return []
        # A worker of another make tells no reports.
        stopped = outcome.type == "cancelled"
        error = "It was stopped." if stopped else ""
        return [Turned(TurnReport(text=self._text, success=not stopped, error=error))]

    def _failed(self, event: Event) -> list[News]:
        if event.run_id is not None and self._has_reported:
            return []
        return [Broke(event.message)]

    def _patched(self, steps: Sequence[_Step]) -> list[News]:
        touched = False
        for step in steps:
            name, _, key = step.path.removeprefix("/").partition("/")
            if name == "subagents" and key:
                row = msgspec.json.decode(step.value)
                self._state.subagents = {**self._state.subagents, key: row}
            elif name in ("usage", "backgroundTasks", "subagents"):
                new = _decode_state(b'{"%s":%s}' % (name.encode(), bytes(step.value)))
                setattr(self._state, name, getattr(new, name))
            else:
                continue
            touched = True
        return self._counted() if touched else []

    def _counted(self) -> list[News]:
        usage, state = self._state.usage, self._state
        counted = Counted(
            sum(row.input_tokens for row in usage),
            sum(row.output_tokens for row in usage),
            state.backgroundTasks.running,
        )
        return [counted, Nested(state.subagents)]


@dataclass(frozen=True, slots=True)
class Said:
    """What a snapshot tells of a conversation."""

    ids: frozenset[str]
    last_text: str
    """What the agent said last."""


def read_snapshot(messages: bytes) -> Said:
    """Read the messages of one. Raises msgspec.DecodeError for what is not as it should be."""
    found = _decode_messages(messages)
    texts = (m.content for m in reversed(found) if m.role == "assistant")
    last_text = next((text for text in texts if isinstance(text, str) and text), "")
    return Said(frozenset(message.id for message in found), last_text)


def read_report(line: bytes) -> list[News] | None:
    """The news in a line of a process; None when the line is no report.

    One that waits for a person can't be answered there: the process has nothing more to do.
    """
    try:
        if decode_event(line).type != TURN:
            return None
        found = _decode_report(line)
    except msgspec.MsgspecError:
        return None
    if found.waiting:
        return [Asked(tuple(found.waiting))]
    return [Turned(found.report())]
