"""What `roost run` does: one prompt through the daemon, streamed, and an exit code that tells.

The run is the daemon's, so a lost connection costs nothing; Ctrl-C ends the run itself.
"""

import signal
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import click

from connection.events import ConnectionEvent, ConnectionStatus, SessionEvent
from connection.port import AgentConnection
from connection.shapes import RunOutcome
from roost import connect
from roost.exit_codes import ExitCode
from roost.headless.text_lines import TextLines

_OUTCOMES = {
    "success": ExitCode.DONE,
    "cancelled": ExitCode.INTERRUPTED,
    "interrupt": ExitCode.WAITING,
    "error": ExitCode.FAILED,
    "unknown": ExitCode.FAILED,
}


class EventLines:
    """Prints every AG-UI event as it is, one a line."""

    def write(self, line: bytes) -> None:
        # Nobody may read any more; the run goes on, and its answer is in the conversation.
        with suppress(BrokenPipeError):
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()


async def run_task(
    task: str,
    project_dir: Path,
    *,
    resume: str | None,
    model: str | None,
    mode: str | None,
    as_json: bool,
) -> ExitCode:
    """Run the task to its end, or to where it waits. Raises ConnectionFailure."""
    lines = EventLines() if as_json else TextLines(_tell)

    def show(event: ConnectionEvent) -> None:
        match event:
            case SessionEvent(event=line):
                lines.write(line)
            case ConnectionStatus(status=status):
                _tell("connected again" if status == "connected" else "the daemon is gone; waiting")
            case _:
                pass

    async with connect(
        project_dir, resume=resume, model=model, mode=mode, last_messages=1
    ) as connection:
        if (await connection.get_state()).waits_for:
            await _tell_what_waits(connection)
            return ExitCode.WAITING
        connection.subscribe(show)
        outcome = await _run(connection, task)
        if outcome is None:
            return ExitCode.INTERRUPTED
        if outcome.outcome == "interrupt":
            await _tell_what_waits(connection)
        if outcome.outcome == "unknown":
            _tell("the run ended while the connection was lost, and nothing says how")
        return _OUTCOMES[outcome.outcome]


async def _run(connection: AgentConnection, task: str) -> RunOutcome | None:
    """How the run ended; None when Ctrl-C came first, which ends it."""
    outcome: RunOutcome | None = None
    async with anyio.create_task_group() as tasks:

        async def end_on_signal() -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    await connection.abort()
                    tasks.cancel_scope.cancel()

        tasks.start_soon(end_on_signal)
        outcome = await connection.prompt_and_wait(task)
        tasks.cancel_scope.cancel()
    return outcome


async def _tell_what_waits(connection: AgentConnection) -> None:
    state = await connection.get_state()
    _tell("stopped, because this needs a decision first; none of it has been run:")
    for interrupt in state.interrupts:
        click.echo(f"  {interrupt.message or interrupt.id}", err=True)
    click.echo(f"Decide it in: roost chat --resume {state.active_session_id}", err=True)


def _tell(text: str) -> None:
    """One line beside the answer."""
    click.echo(f"roost run: {text}", err=True)
