"""Fakes of the sessions ports. Each is held to the promises in tests/contracts."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from sessions.domain.keys import Cursor, ThreadKey, ThreadOptions
from sessions.domain.ports import LaunchFailed, TakeLines, WorkerLost


class FakeClient:
    """Remembers what it was given: the very objects, and their cursors."""

    def __init__(self, name: str = "client", inside: ThreadKey | None = None) -> None:
        self.name = name
        self.inside = inside
        self.received: list[tuple[bytes, Cursor | None]] = []
        self.rows: list[Sequence[tuple[bytes, Cursor]]] = []

    def __repr__(self) -> str:
        return self.name

    def deliver(self, frame: bytes, cursor: Cursor | None) -> None:
        self.received.append((frame, cursor))

    def deliver_row(self, events: Sequence[tuple[bytes, Cursor]]) -> None:
        self.rows.append(events)
        for frame, cursor in events:
            self.deliver(frame, cursor)

    @property
    def frames(self) -> list[bytes]:
        return [frame for frame, _ in self.received]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(frame) for frame in self.frames]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def take(self) -> list[dict[str, Any]]:
        """What came since the last take."""
        events = self.events
        self.received.clear()
        return events


class FakeWorker:
    """A worker that the test speaks for. Ends when it was stopped, once its lines are read."""

    def __init__(self, pid: int, *, obeys_stop: bool = True) -> None:
        self.pid = pid
        self.sent: list[bytes] = []
        self.stops: list[float] = []
        self.notes: list[bytes] = []
        self.obeys_stop = obeys_stop
        self.refuses: str | None = None
        self._reason = "exited with code 0"
        self._has_ended = False
        self._lines: list[bytes] = []
        self._changed = anyio.Event()

    def send(self, line: bytes) -> None:
        if self._has_ended:
            raise WorkerLost("it has just exited")
        if self.stops:
            raise WorkerLost("it is being stopped")
        if self.refuses is not None:
            raise WorkerLost(self.refuses)
        self.sent.append(line)

    def stop(self, grace: float) -> None:
        self.stops.append(grace)
        if self.obeys_stop or grace == 0:
            self.exit("exited with code 0")

    def remember(self, note: bytes, idle_since: float | None) -> None:
        self.notes.append(note)

    async def pump(self, take: TakeLines) -> None:
        while True:
            while not self._lines and not self._has_ended:
                await self._changed.wait()
            if not self._lines:
                return
            lines, self._lines = self._lines, []
            self._changed = anyio.Event()
            take(lines)

    def exit_reason(self) -> str:
        return self._reason

    # What the test makes it do

    def says(self, *lines: bytes) -> None:
        self._lines += lines
        self._changed.set()

    def exit(self, reason: str) -> None:
        self._reason = reason
        self._has_ended = True
        self._changed.set()

    @property
    def sent_types(self) -> list[str]:
        return [json.loads(line)["type"] for line in self.sent]


class FakeLauncher:
    """Launches FakeWorkers, or fails as told."""

    def __init__(self) -> None:
        self.workers: list[FakeWorker] = []
        self.launches: list[tuple[ThreadKey, ThreadOptions]] = []
        self.tokens: list[str] = []
        self.fails_with: str | None = None
        self.obeys_stop = True
        self.launched = anyio.Event()

    @asynccontextmanager
    async def __call__(
        self, thread: ThreadKey, options: ThreadOptions, token: str
    ) -> AsyncGenerator[FakeWorker]:
        self.launches.append((thread, options))
        self.tokens.append(token)
        await anyio.lowlevel.checkpoint()
        if self.fails_with is not None:
            raise LaunchFailed(self.fails_with)
        worker = FakeWorker(1000 + len(self.workers), obeys_stop=self.obeys_stop)
        self.workers.append(worker)
        self.launched.set()
        try:
            yield worker
        finally:
            worker.exit("exited with code 0")

    @property
    def worker(self) -> FakeWorker:
        return self.workers[-1]
