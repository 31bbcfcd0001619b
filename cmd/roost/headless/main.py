"""The program `roost headless`: opens the conversation, answers at once, prepares meanwhile.

The order is the point: the first line and a snapshot need only the history; settings, logging and
the model's library are imported in a thread after that (see `preparation`). What is entered is
entered here.
"""

import os
import signal
import traceback
from contextlib import suppress

import anyio

from agent.domain.events import RunError
from agent.domain.ports import HistoryFailed
from agent.equipment import StartFailed
from agent.infrastructure.lease import ConversationInUse
from agent.infrastructure.stdio import StdinLines, StdoutLines
from agent.say import encode_line
from agent.session import CALL_GRACE, Session
from roost.exit_codes import ExitCode
from roost.headless.deferred_log import DeferredLog
from roost.headless.opened import Opened, opened
from roost.headless.options import Options
from roost.headless.stderr import tell
from roost.home import RoostHome
from roost.version import VERSION

# How long the last lines may take to leave when nobody seems to read.
_LAST_LINES = 5.0


def run(options: Options) -> ExitCode:
    """Run the program to its end. What nobody expected is in the log, with its traceback."""
    log = DeferredLog()
    try:
        return anyio.run(_main, options, log)
    except Exception as exc:
        log("error", "headless_crashed", exc_info=exc)
        if not log.is_open:
            traceback.print_exc()
        if options.serve:
            # Whoever waits for this thread is told, also when there was no ready line yet.
            text = "The worker ended because of an error of its own; `roost logs` has the details."
            with suppress(OSError):
                os.write(1, encode_line(RunError(message=text, code="internal")))
        return ExitCode.FAILED


async def _main(options: Options, log: DeferredLog) -> ExitCode:
    home = RoostHome.from_environment(os.environ)
    # The worker of a daemon that was killed lets its call end before it leaves.
    patience = CALL_GRACE + _LAST_LINES if options.serve else 0.0
    try:
        async with opened(options, home, dict(os.environ), log, patience) as parts:
            if options.serve:
                return await _serve(parts, log)
            if options.keep_alive:
                from roost.headless.keep_alive import serve_kept

                return await serve_kept(options, parts, log)
            from roost.headless.one_shot import run_one

            return await run_one(options, parts, log)
    except (ConversationInUse, HistoryFailed) as exc:
        if options.serve:
            # Whoever waits for this thread is told why; there will be no ready line.
            StdoutLines(1).write(encode_line(RunError(message=str(exc), code="history")))
        tell(str(exc))
        return ExitCode.FAILED


async def _serve(parts: Opened, log: DeferredLog) -> ExitCode:
    lines = StdoutLines(1)
    session = parts.session(lines, log)
    code = ExitCode.DONE
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lines.serve)
        tasks.start_soon(_end_on_signal, session)
        tasks.start_soon(_end_on_hang_up, lines, session)
        session.announce(VERSION)
        try:
            await session.serve(StdinLines(0, log))
        except StartFailed as exc:
            tell(str(exc))
            code = ExitCode.USAGE
        with anyio.move_on_after(_LAST_LINES):
            await lines.flush()
        tasks.cancel_scope.cancel()
    return code


async def _end_on_signal(session: Session) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            session.end(grace=0)


async def _end_on_hang_up(lines: StdoutLines, session: Session) -> None:
    await lines.closed.wait()
    session.end()
