"""The real local server over a registry with live fake workers, and the real clients of it."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

from connection.daemon import DaemonConnection, Wishes
from connection.execution import Progress, SavedSession
from connection.local_stream import LocalStream, dial
from connection.negotiation import REVISION
from connection.peer import PeerSettings
from connection.server import Identity, LocalServer, listen
from connection.sqlite_journal import SqliteJournal
from sessions.domain.keys import ConversationId, ThreadKey
from sessions.domain.settings import RegistrySettings
from sessions.registry import Registry
from tests.support.live_session import LiveLauncher, LiveWorker, Screen
from tests.support.scenes import PROJECT

KEY = ThreadKey(PROJECT, ConversationId("c1"))


class FakeSaved:
    """A `SavedSessions` with what the test puts into it, which it finds one by one."""

    def __init__(self) -> None:
        self.found: list[SavedSession] = []

    async def list(
        self, project_dir: str | None, progress: Progress | None = None
    ) -> Sequence[SavedSession]:
        for place in range(1, len(self.found) + 1):
            await anyio.lowlevel.checkpoint()
            if progress is not None:
                progress(place, len(self.found))
        return [each for each in self.found if project_dir in (None, each.project_dir)]

    async def delete(self, key: ThreadKey) -> None:
        raise NotImplementedError


@dataclass
class LocalScene:
    """One daemon, as far as the local protocol sees it."""

    registry: Registry
    launcher: LiveLauncher
    path: Path
    journal: SqliteJournal
    saved: FakeSaved
    over: anyio.Event

    def end(self) -> None:
        """The daemon shuts down, in order."""
        self.over.set()

    @property
    def worker(self) -> LiveWorker:
        return self.launcher.live

    async def dial(self) -> LocalStream:
        return await dial(self.path)

    @asynccontextmanager
    async def client(
        self, dial: Any = None, screen: Screen | None = None, **wishes: Any
    ) -> AsyncGenerator[tuple[DaemonConnection, Screen]]:
        """A client that follows the thread and shows it."""
        connection = DaemonConnection(dial or self.dial, None, Wishes(**wishes))
        screen = screen or Screen()
        connection.subscribe(screen)
        async with connection.attached(KEY):
            screen.show(await connection.get_initial_snapshot())
            yield connection, screen


@asynccontextmanager
async def a_local_server(
    folder: Path,
    launcher: LiveLauncher | None = None,
    settings: PeerSettings | None = None,
    revision: int = REVISION,
    user: int | None = None,
    **registry_settings: Any,
) -> AsyncGenerator[LocalScene]:
    """A daemon's registry, journal and local server, in this process."""
    launcher = launcher or LiveLauncher()
    registry = Registry(launcher, RegistrySettings(**registry_settings))
    journal = SqliteJournal(folder)
    identity = Identity(
        app_version="test",
        generation="g",
        pid=1,
        process_start=None,
        revision=revision,
        user=os.getuid() if user is None else user,
    )
    saved = FakeSaved()
    server = LocalServer(registry, saved, journal, identity, settings)
    path = folder / "daemon.sock"
    with journal.opened(), listen(path) as listener:
        async with registry.serving(), anyio.create_task_group() as tasks:
            over = anyio.Event()

            async def serve(*, task_status: anyio.abc.TaskStatus[None]) -> None:
                async with journal.serving(), server.serving(listener):
                    task_status.started()
                    await over.wait()

            await tasks.start(serve)
            yield LocalScene(registry, launcher, path, journal, saved, over)
            over.set()
            registry.hurry()
