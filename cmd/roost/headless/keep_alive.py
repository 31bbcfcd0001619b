"""`roost headless --keep-alive`: a subagent without a daemon, for the program that started it.

It gets its tasks on stdin, as a worker does, and says one line a turn on stdout: what the turn came
to. Nobody can be asked anything here: a turn that needs a decision says so, and waits on disk. It
ends with its stdin, at once, since that is how it learns that its parent is gone.
"""

import signal

import anyio
import msgspec

from agent.domain.subagents import TURN
from agent.equipment import StartFailed
from agent.infrastructure.stdio import StdinLines, StdoutLines
from agent.say import encode_line
from agent.session import Session
from roost.exit_codes import ExitCode
from roost.headless.deferred_log import DeferredLog
from roost.headless.opened import Opened
from roost.headless.options import Options, new_id
from roost.headless.stderr import tell

_LAST_LINES = 5.0


class _Interrupt(msgspec.Struct):
    id: str
    reason: str = ""
    message: str = ""


class _Outcome(msgspec.Struct):
    type: str = ""
    interrupts: list[_Interrupt] = []


class _Event(msgspec.Struct, rename="camel"):
    type: str
    name: str = ""
    value: msgspec.Raw = msgspec.Raw()
    outcome: _Outcome = msgspec.field(default_factory=_Outcome)
    thread_id: str = ""


class ReportLines:
    """Event lines in; one report line a turn out, and nothing else."""

    def __init__(self, out: StdoutLines) -> None:
        self._out = out

    def write(self, line: bytes) -> None:
        event = msgspec.json.decode(line, type=_Event)
        if event.type == "CUSTOM" and event.name == TURN:
            members = msgspec.json.decode(event.value, type=dict[str, object])
            self._out.write(encode_line({"type": TURN, **members}))
        elif event.type == "RUN_FINISHED" and event.outcome.interrupts:
            self._out.write(encode_line(_waiting(event)))

    async def wait_writable(self) -> None:
        await self._out.wait_writable()

    async def wait_answerable(self) -> None:
        await self._out.wait_answerable()


async def serve_kept(options: Options, parts: Opened, log: DeferredLog) -> ExitCode:
    """Serve turns until stdin ends."""
    out = StdoutLines(1)
    session = parts.session(ReportLines(out), log)
    code = ExitCode.DONE
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(out.serve)
        tasks.start_soon(_end_on_signal, session)
        tasks.start_soon(_end_on_hang_up, out, session)
        if options.task is not None:
            message = {"id": new_id(), "role": "user", "content": options.task}
            frame = {"type": "run_agent_input", "input": {"messages": [message]}}
            await session.take(msgspec.json.encode(frame))
        try:
            await session.serve(StdinLines(0, log), call_grace=0.0)
        except StartFailed as exc:
            tell(str(exc))
            code = ExitCode.USAGE
        with anyio.move_on_after(_LAST_LINES):
            await out.flush()
        tasks.cancel_scope.cancel()
    return code


def _waiting(event: _Event) -> dict[str, object]:
    go_on = f"roost headless --session-id {event.thread_id} --approve (or --decline, or --answer)"
    return {
        "type": TURN,
        "final_assistant": "",
        "success": False,
        "error": f"It waits for a person: {go_on}",
        "session_id": event.thread_id,
        "done": True,
        "stats": {},
        "waiting": msgspec.to_builtins(event.outcome.interrupts),
    }


async def _end_on_signal(session: Session) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            session.end(grace=0)


async def _end_on_hang_up(out: StdoutLines, session: Session) -> None:
    await out.closed.wait()
    session.end(grace=0)
