"""The program `roost headless`: opens the conversation, answers at once, prepares meanwhile.

The order is the point: the first line and a snapshot need only the history; settings, logging and
the model's library are imported in a thread after that (see `preparation`). What is entered is
entered here.
"""

import os
import signal
import traceback
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread

from agent.domain.entries import Entry
from agent.domain.events import RunError
from agent.domain.ports import HistoryFailed
from agent.equipment import Equipment, StartFailed
from agent.infrastructure.archive import ProjectArchive
from agent.infrastructure.attachments import AttachmentFolder
from agent.infrastructure.jsonl_history import JsonlHistory, file_stem
from agent.infrastructure.lease import ConversationInUse, lease
from agent.infrastructure.project_files import ProjectFiles, recent_file
from agent.infrastructure.stdio import StdinLines, StdoutLines
from agent.opening import open_conversation
from agent.recorder import Recorder
from agent.say import encode_line
from agent.session import CALL_GRACE, Session
from agent.supply import Prepare
from roost.exit_codes import ExitCode
from roost.headless.deferred_log import DeferredLog
from roost.headless.options import Options, new_id, now
from roost.headless.preparation import Preparation
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
    conversation_id = options.session_id or str(uuid.uuid4())
    folder = home.conversations(str(options.project_dir))
    try:
        # The worker of a daemon that was killed lets its call end before it leaves.
        patience = CALL_GRACE + _LAST_LINES if options.serve else 0.0
        with _conversation_file(folder, conversation_id, log, patience) as (history, entries):
            recorder = await open_conversation(
                conversation_id, options.project_dir, history, entries, new_id, now, log
            )
            attachments = AttachmentFolder(
                folder.parent / "attachments" / file_stem(conversation_id)
            )
            project = ProjectFiles(options.project_dir, home.path, folder, log)
            archive = ProjectArchive(options.project_dir, folder, recent_file(folder).note)
            prepare = Preparation(
                home=home,
                project_dir=options.project_dir,
                environ=dict(os.environ),
                model=options.model,
                mode=options.mode,
                new_id=new_id,
                log=log,
                quiet=not options.serve,
            )

            async def prepared() -> Equipment:
                return await anyio.to_thread.run_sync(prepare, abandon_on_cancel=True)

            if options.serve:
                return await _serve(recorder, prepared, attachments, project, archive, log)
            from roost.headless.one_shot import run_one

            return await run_one(options, recorder, prepared, attachments, project, archive, log)
    except (ConversationInUse, HistoryFailed) as exc:
        if options.serve:
            # Whoever waits for this thread is told why; there will be no ready line.
            StdoutLines(1).write(encode_line(RunError(message=str(exc), code="history")))
        tell(str(exc))
        return ExitCode.FAILED


@contextmanager
def _conversation_file(
    folder: Path, conversation_id: str, log: DeferredLog, patience: float
) -> Generator[tuple[JsonlHistory, list[Entry]]]:
    stem = file_stem(conversation_id)
    with lease(folder / f"{stem}.lease", patience):
        recent = recent_file(folder)
        history = JsonlHistory(
            folder / f"{stem}.jsonl", log, before_first=lambda: recent.note(stem)
        )
        try:
            yield history, history.load().entries
        finally:
            history.close()


async def _serve(
    recorder: Recorder,
    prepared: Prepare,
    attachments: AttachmentFolder,
    project: ProjectFiles,
    archive: ProjectArchive,
    log: DeferredLog,
) -> ExitCode:
    lines = StdoutLines(1)
    session = Session(recorder, lines, prepared, attachments.save, new_id, log, project, archive)
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
