"""A Worker whose process belongs to a keeper: frames over one socket, both ways."""

import socket
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import msgspec
import structlog

from sessions.domain.keeper_frames import (
    BadFrames,
    FrameSplitter,
    Gone,
    Kind,
    Noted,
    Stop,
    frame,
    told,
)
from sessions.domain.ports import TakeLines, WorkerLost
from sessions.domain.splitter import LineSplitter
from sessions.infrastructure.chunk_reader import chunk_reader
from sessions.infrastructure.fault_points import Step, reached
from sessions.infrastructure.stderr_log import StderrLog

log = structlog.stdlib.get_logger()

MIB = 1024 * 1024
# What may wait for a keeper that does not read: a full line of 16 MiB, and as much again.
_INBOX_BYTES = 32 * MIB
_INBOX_LINES = 4096
_WRITE_BYTES = 64 * 1024
# Keepers end a worker for a longer line than the settings allow; this is only an end to it.
_LONGEST_LINE = 2**30
_PIECEWISE = frozenset({Kind.LINES, Kind.STDERR})


class KeeperLost(Exception):
    """The keeper's end of the connection is gone, or speaks nonsense."""


class Link:
    """The daemon's end of the connection to a keeper."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._reader = chunk_reader(connection.fileno())
        self._splitter = FrameSplitter(piecewise=_PIECEWISE)
        self._received: deque[tuple[Kind, bytes]] = deque()
        self._is_left = False

    async def send(self, data: bytes) -> None:
        """Write all of it. Raises KeeperLost."""
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                await self._ready(anyio.wait_writable)
            except OSError as exc:
                raise KeeperLost(str(exc)) from exc

    def send_nowait(self, data: bytes) -> None:
        """Write a few bytes if there is room for them; who waits for them knows without, too."""
        with suppress(OSError):
            self._socket.send(data)

    async def receive(self) -> tuple[Kind, bytes]:
        """The next frame. Raises KeeperLost."""
        while not self._received:
            await self._ready(anyio.wait_readable)
            chunk = self._reader.read_now()
            if chunk == b"":
                raise KeeperLost("it has closed the connection")
            if chunk is not None:
                self._received.extend(self._split(chunk))
        return self._received.popleft()

    async def each(self, take: Callable[[Kind, bytes], None]) -> None:
        """Hand over each frame until `leave_off`. Raises KeeperLost, and what `take` raises.

        Those of one read that follow the one with `leave_off` are handed over, too.
        """

        def take_chunk(chunk: bytes) -> None:
            self._received.extend(self._split(chunk))
            self._hand_over(take)

        self._hand_over(take)
        await self._reader.each(take_chunk)
        if not self._is_left:
            raise KeeperLost("it has closed the connection")

    def leave_off(self) -> None:
        """Have `each` return."""
        self._is_left = True
        self._reader.interrupt()

    def _hand_over(self, take: Callable[[Kind, bytes], None]) -> None:
        while self._received:
            take(*self._received.popleft())

    def _split(self, chunk: bytes) -> list[tuple[Kind, bytes]]:
        try:
            return self._splitter.feed(chunk)
        except BadFrames as exc:
            raise KeeperLost(str(exc)) from exc

    async def _ready(self, wait: Callable[[socket.socket], Awaitable[None]]) -> None:
        try:
            await wait(self._socket)
        except (OSError, ValueError, anyio.ClosedResourceError) as exc:
            raise KeeperLost("the connection is closed") from exc

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._reader.close()
            with suppress(OSError):
                anyio.notify_closing(self._socket)
            self._socket.close()


class KeptWorker:
    """A running worker, by way of its keeper. Whoever made it runs `write_outbox`."""

    def __init__(self, link: Link, pid: int, keeper: str) -> None:
        self.pid = pid
        self.keeper = keeper
        self._link = link
        self._outbox: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._filled = anyio.Event()
        self._is_deaf = False
        self._stop_by: float | None = None
        self._stop_changed = anyio.Event()
        self._gone: Gone | None = None
        self._stderr = StderrLog(pid)
        self._lines = LineSplitter(_LONGEST_LINE)

    # The port

    def send(self, line: bytes) -> None:
        """Put a line into the inbox. Raises WorkerLost."""
        if self._gone is not None:
            raise WorkerLost("it has just exited")
        if self._stop_by is not None:
            raise WorkerLost("it is being stopped")
        if self._is_deaf:
            raise WorkerLost("it has closed its input")
        waiting = self._waiting_bytes + len(line)
        is_full = len(self._outbox) >= _INBOX_LINES or waiting > _INBOX_BYTES
        if self._outbox and is_full:
            raise WorkerLost("it does not read what it was sent before")
        self._put(frame(Kind.LINE, line))

    def stop(self, grace: float) -> None:
        """Have the keeper begin the stop sequence, or hurry it."""
        deadline = anyio.current_time() + grace
        if self._stop_by is not None and deadline >= self._stop_by:
            return
        self._stop_by = deadline
        self._stop_changed.set()
        self._put(told(Kind.STOP, Stop(grace)))

    def remember(self, note: bytes, idle_since: float | None) -> None:
        """Leave a note with the keeper. One that waits still is no use any more."""
        if self._outbox and self._outbox[-1][0] == Kind.NOTE:
            self._waiting_bytes -= len(self._outbox.pop())
        self._put(told(Kind.NOTE, Noted(note, idle_since)))

    async def pump(self, take: TakeLines) -> None:
        """Hand over the lines, until the worker is gone, or its keeper is."""

        def take_frame(kind: Kind, payload: bytes) -> None:
            if kind is Kind.LINES:
                reached(Step.LINES_RECEIVED)
                if batch := self._lines.feed(payload):
                    take(batch)
                    reached(Step.LINES_DELIVERED)
            else:
                self._take_in(kind, payload)

        if self._gone is not None:
            return
        try:
            await self._link.each(take_frame)
        except KeeperLost:
            self._gone = Gone("was lost: its keeper ended")
            self._stderr.close()

    def exit_reason(self) -> str:
        """Why the lines ended."""
        return "did not end" if self._gone is None else self._gone.reason

    # For whoever made it

    @property
    def is_lost(self) -> bool:
        """Its keeper ended without a word, so nobody has ended what it started."""
        return self._gone is not None and self._gone.reason.startswith("was lost")

    async def write_outbox(self) -> None:
        """Write out what waits for the keeper, for ever."""
        while True:
            while self._outbox:
                together = self._next_frames()
                try:
                    await self._link.send(b"".join(together))
                except KeeperLost:
                    # Its end will tell whoever reads the lines.
                    return
                for data in together:
                    if data[0] == Kind.STOP:
                        reached(Step.STOP_ASKED)
                    elif data[0] == Kind.LINE:
                        reached(Step.LINE_SENT)
            self._filled = anyio.Event()
            await self._filled.wait()

    async def wait_overdue(self, patience: float) -> None:
        """Wait until so long after the grace of a stop: by then a keeper has done its part."""
        await self._stop_changed.wait()
        while self._stop_by is not None:
            left = self._stop_by + patience - anyio.current_time()
            if left <= 0:
                return
            self._stop_changed = anyio.Event()
            with anyio.move_on_after(left):
                await self._stop_changed.wait()

    async def end(self) -> None:
        """End the worker at once, if it is not gone; returns when the keeper says it is.

        Nobody runs `write_outbox` any more, and nobody reads the lines.
        """
        with suppress(KeeperLost):
            if self._gone is None:
                await self._link.send(told(Kind.STOP, Stop(0.0)))
            while self._gone is None:
                kind, payload = await self._link.receive()
                self._take_in(kind, payload)

    def close(self) -> None:
        if self._gone is None:
            self._gone = Gone("was left to the next daemon")
        self._stderr.close()
        self._link.close()

    # Smaller steps

    def _next_frames(self) -> list[bytes]:
        """What leaves in one write: a keeper and its worker wake once for what one turn sent."""
        together = [self._outbox.popleft()]
        size = len(together[0])
        while self._outbox and size + len(self._outbox[0]) <= _WRITE_BYTES:
            together.append(self._outbox.popleft())
            size += len(together[-1])
        self._waiting_bytes -= size
        return together

    def _take_in(self, kind: Kind, payload: bytes) -> None:
        if kind is Kind.STDERR:
            self._stderr.take_in(payload)
        elif kind is Kind.DEAF:
            self._is_deaf = True
        elif kind is Kind.GONE:
            reached(Step.STOP_ANSWERED)
            self._gone = msgspec.msgpack.decode(payload, type=Gone)
            self._stderr.close()
            if self._gone.unfinished:
                log.warning("unfinished_line_dropped", bytes=self._gone.unfinished)
            if self._gone.has_leftovers:
                log.warning("worker_left_processes", worker_pid=self.pid)
            self._link.send_nowait(frame(Kind.FAREWELL))
            reached(Step.FAREWELL_SAID)
            self._link.leave_off()

    def _put(self, data: bytes) -> None:
        self._outbox.append(data)
        self._waiting_bytes += len(data)
        self._filled.set()
