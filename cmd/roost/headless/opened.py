"""A conversation, opened for one process: its history under the lease, and what its runs need.

What a worker, one task without a daemon, and a session inside another program have in common.
Entered by `main`; leaving it closes the file and gives the lease back.
"""

import uuid
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from agent.domain.entries import Entry
from agent.domain.ports import Lines, Log
from agent.domain.subagents import Delegation
from agent.equipment import Equipment
from agent.infrastructure.archive import ProjectArchive
from agent.infrastructure.attachments import AttachmentFolder
from agent.infrastructure.jsonl_history import JsonlHistory, file_stem
from agent.infrastructure.lease import lease
from agent.infrastructure.process import KernelProcesses
from agent.infrastructure.project_files import ProjectFiles, recent_file
from agent.opening import open_conversation
from agent.recorder import Recorder
from agent.session import Session
from agent.supply import Prepare
from roost.headless.deferred_log import DeferredLog
from roost.headless.delegation import delegation_of, lineage_of
from roost.headless.options import Options, new_id, now
from roost.headless.preparation import Preparation
from roost.home import RoostHome


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What a session is made of."""

    recorder: Recorder
    prepare: Prepare
    attachments: AttachmentFolder
    project: ProjectFiles
    archive: ProjectArchive
    delegation: Delegation

    def session(self, lines: Lines, log: Log) -> Session:
        """The session whose lines go there."""
        return Session(
            self.recorder,
            lines,
            self.prepare,
            self.attachments.save,
            new_id,
            log,
            self.project,
            self.archive,
            self.delegation,
        )


@asynccontextmanager
async def opened(
    options: Options,
    home: RoostHome,
    environ: Mapping[str, str],
    log: DeferredLog,
    patience: float,
    *,
    is_guest: bool = False,
) -> AsyncGenerator[Opened]:
    """Open the conversation that the options name. Raises ConversationInUse, HistoryFailed.

    A guest lives in a program that is not ours: logging is that program's business.
    """
    conversation_id = options.session_id or str(uuid.uuid4())
    folder = home.conversations(str(options.project_dir))
    with _conversation_file(folder, conversation_id, log, patience) as (history, entries):
        recorder = await open_conversation(
            conversation_id,
            options.project_dir,
            history,
            entries,
            new_id,
            now,
            log,
            KernelProcesses(),
            lineage_of(environ),
        )
        lineage = recorder.conversation.lineage
        prepare = Preparation(
            home=home,
            project_dir=options.project_dir,
            environ=environ,
            model=options.model,
            mode=options.mode,
            new_id=new_id,
            log=log,
            is_one_task=not options.serve,
            is_guest=is_guest,
            lineage=lineage,
        )

        async def prepared() -> Equipment:
            return await anyio.to_thread.run_sync(prepare, abandon_on_cancel=True)

        yield Opened(
            recorder=recorder,
            prepare=prepared,
            attachments=AttachmentFolder(
                folder.parent / "attachments" / file_stem(conversation_id)
            ),
            project=ProjectFiles(options.project_dir, home.path, folder, log),
            archive=ProjectArchive(options.project_dir, folder, recent_file(folder).note),
            delegation=delegation_of(
                options, home, environ, lineage, log, is_worker=options.serve and not is_guest
            ),
        )


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
