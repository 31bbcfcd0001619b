"""What the registry reads in a worker's line: a type and a few ids. Everything else stays bytes.

Rules for editing: a line is decoded once, by `peek`, into `Line`; the few types that decide
something are decoded a second time into the struct below that names just the fields they decide by.
Patches are never applied here. What is open in a run is the table `OPENS` and `CLOSES`.
"""

from typing import Final, TypeVar

import msgspec

_T = TypeVar("_T")


class BadLine(ValueError):
    """Not one JSON object with a string type, in UTF-8."""


class Line(msgspec.Struct, frozen=True, gc=False):
    """The fields that routing needs. Extra fields are skipped unread."""

    type: str
    runId: str | None = None
    messageId: str | None = None
    toolCallId: str | None = None
    toolCallName: str | None = None
    stepName: str | None = None
    subagentRunId: str | None = None


class Interrupt(msgspec.Struct, frozen=True, gc=False):
    id: str


class Outcome(msgspec.Struct, frozen=True, gc=False):
    type: str
    interrupts: tuple[Interrupt, ...] = ()


class RunFinished(msgspec.Struct, frozen=True, gc=False):
    outcome: Outcome | None = None

    @property
    def interrupt_ids(self) -> frozenset[str]:
        """What the run waits for; empty unless it ended with the interrupt outcome."""
        if self.outcome is None or self.outcome.type != "interrupt":
            return frozenset()
        return frozenset(interrupt.id for interrupt in self.outcome.interrupts)


class Ready(msgspec.Struct, frozen=True):
    """Our own worker's first line, with the suspended run's RUN_FINISHED as bytes, if any."""

    suspended: msgspec.Raw = msgspec.Raw()


class _WithId(msgspec.Struct, frozen=True, gc=False):
    id: str


class _ApprovalValue(msgspec.Struct, frozen=True, gc=False):
    tool_call_id: str


class _ApprovalRequest(msgspec.Struct, frozen=True, gc=False):
    name: str
    value: _ApprovalValue


class _Jobs(msgspec.Struct, frozen=True, gc=False):
    running: int = 0


class _State(msgspec.Struct, frozen=True, gc=False):
    backgroundTasks: _Jobs | None = None


class _StateSnapshot(msgspec.Struct, frozen=True, gc=False):
    snapshot: _State | None = None


class PatchOperation(msgspec.Struct, frozen=True):
    """One step of a JSON patch: where it acts. Its value stays bytes."""

    op: str
    path: str
    value: msgspec.Raw = msgspec.Raw()
    from_: str | None = msgspec.field(default=None, name="from")

    @property
    def sets_whole(self) -> bool:
        """Sets one member of an object, whatever it was before (an array index does not)."""
        token = self.path.rpartition("/")[2]
        return self.op == "add" and token != "-" and not token.isdigit()


class _Patch(msgspec.Struct, frozen=True):
    delta: tuple[PatchOperation, ...] = ()
    patch: tuple[PatchOperation, ...] = ()


class _ActivitySnapshot(msgspec.Struct, frozen=True, gc=False):
    replace: bool | None = None


OPENS: Final = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
    "REASONING_START": ("span", "messageId"),
    "REASONING_MESSAGE_START": ("reasoning", "messageId"),
    "STEP_STARTED": ("step", "stepName"),
    "SUBAGENT_STARTED": ("subagent", "subagentRunId"),
}
CLOSES: Final = {
    "TEXT_MESSAGE_END": ("text", "messageId"),
    "TOOL_CALL_END": ("call", "toolCallId"),
    "REASONING_END": ("span", "messageId"),
    "REASONING_MESSAGE_END": ("reasoning", "messageId"),
    "STEP_FINISHED": ("step", "stepName"),
    "SUBAGENT_FINISHED": ("subagent", "subagentRunId"),
    "SUBAGENT_ERROR": ("subagent", "subagentRunId"),
}
REPLIES: Final = frozenset(
    {"command_result", "tool_result", "conversations", "history", "skills", "models", "mode"}
)
"""What answers one client: by id the first two, the others first in, first out."""
CHUNKS: Final = frozenset({"TEXT_MESSAGE_CHUNK", "REASONING_MESSAGE_CHUNK", "TOOL_CALL_CHUNK"})

_line = msgspec.json.Decoder(Line)
_ready = msgspec.json.Decoder(Ready)
_run_finished = msgspec.json.Decoder(RunFinished)
_with_id = msgspec.json.Decoder(_WithId)
_approval_request = msgspec.json.Decoder(_ApprovalRequest)
_state_snapshot = msgspec.json.Decoder(_StateSnapshot)
_patch = msgspec.json.Decoder(_Patch)
_activity_snapshot = msgspec.json.Decoder(_ActivitySnapshot)
_jobs = msgspec.json.Decoder(_Jobs)


def peek(line: bytes) -> Line:
    """Decode the routing fields. Raises BadLine."""
    try:
        if not line.isascii():
            # The decoder skips the rest unread; a browser would close the socket on it.
            line.decode()
        return _line.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise BadLine(str(exc)) from exc


def item_key(line: Line, table: dict[str, tuple[str, str]]) -> tuple[str, str, str] | None:
    """Which item a line opens or closes: kind, id and, for steps, whose they are."""
    kind, field = table[line.type]
    item_id: str | None = getattr(line, field)
    if item_id is None:
        return None
    # Steps are keyed per owner: a subagent's step may have the name of its parent's.
    owner = line.subagentRunId or "" if kind == "step" else ""
    return kind, item_id, owner


def is_placeable(line: Line) -> bool:
    """Whether a chunk names its item, so that who has not seen it begin can place it."""
    if line.type == "TOOL_CALL_CHUNK":
        return line.toolCallId is not None and line.toolCallName is not None
    return line.messageId is not None


def run_finished(line: bytes) -> RunFinished:
    """Raises BadLine."""
    return _decode(_run_finished, line)


def ready(line: bytes) -> Ready:
    """Raises BadLine."""
    return _decode(_ready, line)


def id_of(line: bytes) -> str:
    """The `id` of a line that has one. Raises BadLine."""
    return _decode(_with_id, line).id


def reply_key(peeked: Line, line: bytes) -> str:
    """Which request a line of `REPLIES` answers, as `frames.asks_for` names it. Raises BadLine."""
    if peeked.type in ("command_result", "tool_result"):
        return f"{peeked.type}:{id_of(line)}"
    return peeked.type


def approval_asked(line: bytes) -> str | None:
    """The tool call that a CUSTOM `approval_request` asks for; None for any other CUSTOM event."""
    if b'"approval_request"' not in line:
        return None
    try:
        request = _decode(_approval_request, line)
    except BadLine:
        return None
    return request.value.tool_call_id if request.name == "approval_request" else None


def keeps_existing(line: bytes) -> bool:
    """An ACTIVITY_SNAPSHOT that leaves an activity that exists untouched."""
    try:
        return _decode(_activity_snapshot, line).replace is False
    except BadLine:
        return False


def jobs_in_snapshot(line: bytes) -> int:
    """Running background jobs that a STATE_SNAPSHOT tells of; none when it tells of none."""
    try:
        state = _decode(_state_snapshot, line).snapshot
    except BadLine:
        return 0
    return state.backgroundTasks.running if state and state.backgroundTasks else 0


def operations(line: bytes) -> tuple[PatchOperation, ...]:
    """The steps of a STATE_DELTA or an ACTIVITY_DELTA. Raises BadLine."""
    patch = _decode(_patch, line)
    return patch.delta or patch.patch


def jobs_in_delta(line: bytes, before: int) -> int:
    """Running background jobs after a STATE_DELTA: only an operation on that very key counts."""
    if b"backgroundTasks" not in line:
        return before
    try:
        for operation in operations(line):
            if operation.path == "/backgroundTasks" and operation.op in ("add", "replace"):
                before = _decode(_jobs, bytes(operation.value)).running
            elif operation.path == "/backgroundTasks/running":
                before = int(msgspec.json.decode(operation.value, type=int))
            elif operation.path == "/backgroundTasks" and operation.op == "remove":
                before = 0
    except (BadLine, msgspec.MsgspecError):
        return before
    return before


def _decode(decoder: msgspec.json.Decoder[_T], line: bytes) -> _T:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise BadLine(str(exc)) from exc
