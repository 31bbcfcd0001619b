"""What the registry reads in a client's frame, and the frames that it writes itself.

Two steps: `kind` reads the type; a frame whose type is none of ours, or that is no JSON object, is
none of our business. Then the fields that its type decides by, where a wrong one is the sender's
mistake and gets one clear sentence.
"""

from typing import Final, TypeVar

import msgspec

from sessions.domain.keys import Subagent, ThreadOptions

_T = TypeVar("_T")

MODES = ("standard", "plan", "auto", "auto-with-judge")


class BadFrame(ValueError):
    """The frame has a type of ours but not its fields. The message is for the sender."""


class _Kind(msgspec.Struct, frozen=True, gc=False):
    type: str


class _Subagent(msgspec.Struct, frozen=True):
    parent: str
    depth: int = 0
    tools: list[str] | None = None


class OpenFrame(msgspec.Struct, frozen=True):
    """`new_session` and `resume_conversation`."""

    project_dir: str | None = None
    id: str | None = None
    model: str | None = None
    mode: str | None = None
    system_prompt: str | None = None
    custom_instructions: str | None = None
    sandbox_directories: list[str] | None = None
    max_turns: int | None = None
    subagent: _Subagent | None = None

    def options(self) -> ThreadOptions:
        """The thread options; empty strings, zero and empty lists count as absent."""
        if self.mode and self.mode not in MODES:
            raise BadFrame(f"mode {self.mode!r} is unknown: {', '.join(MODES)} are allowed")
        if self.max_turns is not None and self.max_turns < 0:
            raise BadFrame(f"max_turns is {self.max_turns}: it must be a number above 0")
        return ThreadOptions(
            model=self.model or None,
            mode=self.mode or None,
            system_prompt=self.system_prompt or None,
            custom_instructions=self.custom_instructions or None,
            sandbox_directories=tuple(d for d in self.sandbox_directories or () if d),
            max_turns=self.max_turns or None,
            subagent=self._subagent_option(),
        )

    def _subagent_option(self) -> Subagent | None:
        if self.subagent is None or not self.subagent.parent:
            return None
        return Subagent(
            parent=self.subagent.parent,
            depth=self.subagent.depth,
            tools=tuple(self.subagent.tools or ()),
        )


class StopFrame(msgspec.Struct, frozen=True):
    project_dir: str | None = None
    id: str | None = None
    subagents: bool = False
    """All that was opened below the thread ends with it, too."""


class _Resume(msgspec.Struct, frozen=True):
    interruptId: str


class _Input(msgspec.Struct, frozen=True):
    resume: list[_Resume] | None = None


class RunInputFrame(msgspec.Struct, frozen=True):
    input: _Input

    @property
    def answered(self) -> frozenset[str]:
        """The interrupts that this input answers."""
        return frozenset(entry.interruptId for entry in self.input.resume or ())


class CommandFrame(msgspec.Struct, frozen=True):
    id: str
    name: str


class PanelFrame(msgspec.Struct, frozen=True):
    """A request that any worker of the project can answer."""

    project_dir: str | None = None


class ToolRequestFrame(msgspec.Struct, frozen=True):
    id: str
    tool_name: str
    project_dir: str | None = None


class ApprovalFrame(msgspec.Struct, frozen=True):
    tool_call_id: str
    approved: bool


PANEL: Final = {
    "list_conversations": ("conversations",),
    "list_history": ("history",),
    "list_skills": ("skills",),
    "list_models": ("models",),
    "select_model": ("models", "mode"),
    "set_mode": ("mode",),
    "tool_request": ("tool_result",),
}
"""The panel's requests, and the types of the lines that answer each, in order."""

_kind = msgspec.json.Decoder(_Kind)
open_frame = msgspec.json.Decoder(OpenFrame)
stop_frame = msgspec.json.Decoder(StopFrame)
run_input_frame = msgspec.json.Decoder(RunInputFrame)
command_frame = msgspec.json.Decoder(CommandFrame)
panel_frame = msgspec.json.Decoder(PanelFrame)
tool_request_frame = msgspec.json.Decoder(ToolRequestFrame)
approval_frame = msgspec.json.Decoder(ApprovalFrame)


def kind(frame: bytes) -> str | None:
    """The type of a client's frame, or None when it is not a JSON object with one."""
    try:
        return _kind.decode(frame).type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def decode(decoder: msgspec.json.Decoder[_T], frame: bytes) -> _T:
    """Raises BadFrame that names the field, what it was and what it should be."""
    try:
        return decoder.decode(frame)
    except msgspec.MsgspecError as exc:
        raise BadFrame(str(exc).replace("`", "").replace("$.", "")) from exc


def asks_for(kind: str, frame: bytes) -> tuple[str, ...]:
    """What a frame is answered with: types of lines, `type:id` where the answer names the request.

    Raises BadFrame.
    """
    if kind == "command":
        return (f"command_result:{decode(command_frame, frame).id}",)
    if kind == "tool_request":
        return (f"tool_result:{decode(tool_request_frame, frame).id}",)
    return PANEL.get(kind, ())


def as_line(frame: bytes) -> bytes:
    """The frame as one line: itself, or compacted when it was written over several lines."""
    return msgspec.json.format(frame, indent=-1) if b"\n" in frame else frame


class _RunError(msgspec.Struct, omit_defaults=True):
    type: str
    message: str
    code: str | None = None
    runId: str | None = None


def bare_error(message: str, code: str | None = None) -> bytes:
    """An error that ends no run: its reader keeps working."""
    return msgspec.json.encode(_RunError("RUN_ERROR", message, code))


def run_ended_in_error(run_id: str, message: str, code: str) -> bytes:
    """The terminal line of a run whose worker can't write it any more."""
    return msgspec.json.encode(_RunError("RUN_ERROR", message, code, run_id))


def with_run_id(line: bytes, run_id: str) -> bytes:
    """A worker's RUN_ERROR that ends the run but does not say which.

    Clients of the binding take an error without `runId` for one that ends nothing, and would wait
    for ever; AG-UI itself has no such field, so a foreign worker can't be expected to write it.
    """
    return line.rstrip()[:-1] + b',"runId":' + msgspec.json.encode(run_id) + b"}"


class _CommandFailed(msgspec.Struct):
    type: str
    id: str
    success: bool
    code: str
    error: str


def command_failed(command_id: str, code: str, error: str) -> bytes:
    """The result of a command that no worker will answer."""
    return msgspec.json.encode(_CommandFailed("command_result", command_id, False, code, error))


class _ToolFailed(msgspec.Struct):
    type: str
    id: str
    success: bool
    output: str
    error: str


def tool_failed(request_id: str, error: str) -> bytes:
    """The result of a tool request that no worker will answer."""
    return msgspec.json.encode(_ToolFailed("tool_result", request_id, False, "", error))


def approval_resolved(tool_call_id: str, *, approved: bool) -> bytes:
    """For those who saw the question that somebody else has answered."""
    value = {"tool_call_id": tool_call_id, "approved": approved}
    return msgspec.json.encode({"type": "CUSTOM", "name": "approval_resolved", "value": value})


def browser_failed(command_id: str | None, error: str) -> bytes:
    """The result of a browser command that no browser answered, in full shape."""
    named = command_id or ""
    result = {"type": "browser_result", "id": named, "url": "", "title": "", "content": ""}
    return msgspec.json.encode({**result, "events": [], "error": error})


def resume_conversation(
    project_dir: str, conversation_id: str, last_messages: int | None = None
) -> bytes:
    """The open that `attach` stands for; a worker that knows no window sends all messages."""
    opening = {"type": "resume_conversation", "project_dir": project_dir, "id": conversation_id}
    window = {} if last_messages is None else {"last_messages": last_messages}
    return msgspec.json.encode({**opening, **window})
