"""An adapter of the `LaunchWorker` port whose worker is no process: an agent session right here.

It keeps the lines of the worker protocol, so that the registry sees no difference; what a process
gives (a kill that works, memory of its own) it can't. A stop waits for the session to end within
the grace and cancels it then.
"""

import os
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from agent.domain.ports import HistoryFailed
from agent.equipment import StartFailed
from agent.infrastructure.lease import ConversationInUse
from agent.session import Session
from roost.headless.deferred_log import DeferredLog
from roost.headless.opened import opened
from roost.headless.options import Options
from roost.home import RoostHome
from roost.version import VERSION
from sessions.domain.keys import ThreadKey, ThreadOptions
from sessions.domain.ports import LaunchFailed, TakeLines, WorkerLost
from sessions.infrastructure.environment import worker_environment

# A run waits above this, as it does for a slow daemon; the registry takes lines as they come.
_BACKLOG = 1024
_LONGEST_END = 2.0


@dataclass(slots=True)
class _Lines:
    """The `Lines` of a session: kept until the registry takes them."""

    waiting: list[bytes] = field(default_factory=list[bytes])
    has_ended: bool = False
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _taken: anyio.Event = field(default_factory=anyio.Event)

    def write(self, line: bytes) -> None:
        self.waiting.append(line)
        self._changed.set()

    async def wait_writable(self) -> None:
        while len(self.waiting) > _BACKLOG and not self.has_ended:
            self._taken = anyio.Event()
            await self._taken.wait()

    async def wait_answerable(self) -> None:
        await self.wait_writable()

    async def take(self) -> list[bytes]:
        """What was written since; empty when nothing will be any more."""
        while not self.waiting and not self.has_ended:
            self._changed = anyio.Event()
            await self._changed.wait()
        taken, self.waiting = self.waiting, []
        self._taken.set()
        return taken

    def end(self) -> None:
        self.has_ended = True
        self._changed.set()
        self._taken.set()


@dataclass(slots=True)
class _Inbox:
    """What the registry sent and the session has not read. Iterate for it, in batches."""

    waiting: list[bytes] = field(default_factory=list[bytes])
    is_closed: bool = False
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def put(self, line: bytes) -> None:
        self.waiting.append(line)
        self._changed.set()

    def close(self) -> None:
        self.is_closed = True
        self._changed.set()

    def __aiter__(self) -> AsyncIterator[Sequence[bytes]]:
        return self

    async def __anext__(self) -> Sequence[bytes]:
        while not self.waiting:
            if self.is_closed:
                raise StopAsyncIteration
            self._changed = anyio.Event()
            await self._changed.wait()
        taken, self.waiting = self.waiting, []
        return taken


@dataclass(slots=True, eq=False)
class InProcessWorker:
    """Implements `sessions.domain.ports.Worker`."""

    session: Session
    lines: _Lines
    inbox: _Inbox
    max_waiting: int
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    reason: str = "ended"

    @property
    def pid(self) -> int:
        return os.getpid()

    def send(self, line: bytes) -> None:
        if self.inbox.is_closed or self.lines.has_ended:
            raise WorkerLost("it is being stopped")
        if len(self.inbox.waiting) >= self.max_waiting:
            raise WorkerLost("too much waits for it already")
        self.inbox.put(line)

    def stop(self, grace: float) -> None:
        if not self.inbox.is_closed:
            self.session.interrupt()
            self.inbox.close()
        deadline = anyio.current_time() + grace + _LONGEST_END
        self.scope.deadline = min(self.scope.deadline, deadline)

    def remember(self, note: bytes, idle_since: float | None) -> None:
        """It ends with this process: there will be nobody to read a note."""

    async def pump(self, take: TakeLines) -> None:
        while lines := await self.lines.take():
            take(lines)

    def exit_reason(self) -> str:
        return self.reason

    async def serve(self) -> None:
        """Be the worker until it ends, however it does."""
        try:
            with self.scope:
                self.session.announce(VERSION)
                await self.session.serve(self.inbox)
            if self.scope.cancelled_caught:
                self.reason = "did not end in its grace and was cancelled"
        except StartFailed as exc:
            self.reason = f"could not start: {exc}"
        finally:
            self.inbox.close()
            self.lines.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcessLauncher:
    """Implements `sessions.domain.ports.LaunchWorker`."""

    home: RoostHome
    environ: Mapping[str, str]
    max_waiting: int = 4096

    @asynccontextmanager
    async def __call__(
        self, thread: ThreadKey, options: ThreadOptions, token: str
    ) -> AsyncGenerator[InProcessWorker]:
        project_dir = Path(thread.project_dir)
        if not await anyio.Path(project_dir).is_dir():
            raise LaunchFailed(f"{project_dir}: there is no such folder")
        environ = worker_environment(self.environ, thread, options, token)
        asked = Options(
            project_dir=project_dir,
            session_id=thread.conversation_id,
            model=options.model,
            mode=options.mode,
            serve=True,
        )
        log = DeferredLog()
        try:
            async with opened(asked, self.home, environ, log, 0.0, is_guest=True) as parts:
                lines, inbox = _Lines(), _Inbox()
                session = parts.session(lines, log)
                worker = InProcessWorker(session, lines, inbox, self.max_waiting)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(worker.serve, name=f"session {uuid.uuid4().hex[:8]}")
                    try:
                        yield worker
                    finally:
                        worker.stop(0.0)
        except (ConversationInUse, HistoryFailed) as exc:
            raise LaunchFailed(str(exc)) from exc
