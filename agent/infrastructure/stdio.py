"""A worker's stdin and stdout as lines: split over raw reads, written whole and in order.

The reader never waits for the writer, so that a slow daemon can't lock the two up; what waits to be
written is bounded because the run waits (`wait_writable`) and because the reader pauses far above
that. A closed stdout counts as the end of stdin. It knows nothing of what the lines say.
"""

import fcntl
import os
import stat
from collections import deque
from itertools import islice

import anyio
import anyio.lowlevel

from agent.domain.ports import Log

# A run waits above this; one snapshot may go over it.
BACKLOG_FOR_RUNS = 1024 * 1024
# Answers (snapshots, command results) are not the run's: they stop the reader, much later.
BACKLOG_FOR_ANSWERS = 64 * 1024 * 1024
# 16 MiB is what a daemon may send; the rest is room for what it adds.
MAX_LINE = 17 * 1024 * 1024
_READ = 64 * 1024
_LINES_AT_ONCE = 64


class LineSplitter:
    """Bytes in, whole lines out. A line over the limit is dropped, once reported, and read past."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False
        self.dropped = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that these bytes complete, without their newlines; blank ones are left out."""
        lines: list[bytes] = []
        pieces = data.split(b"\n")
        for piece in pieces[:-1]:
            self._add(piece)
            if not self._skipping and (line := b"".join(self._parts).strip()):
                lines.append(line)
            self._parts.clear()
            self._size = 0
            self._skipping = False
        self._add(pieces[-1])
        return lines

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._skipping:
            return
        if self._size > self._limit:
            self._skipping = True
            self._parts.clear()
            self.dropped += 1
        elif piece:
            self._parts.append(piece)


class StdinLines:
    """Iterate over a file descriptor's lines, in batches. Ends at the end of the file."""

    def __init__(self, fd: int, log: Log, limit: int = MAX_LINE) -> None:
        self._fd = fd
        self._log = log
        self._splitter = LineSplitter(limit)
        mode = os.fstat(fd).st_mode
        # The kernel's readiness calls refuse regular files, which are always ready.
        self._waits = not stat.S_ISREG(mode) and not _is_dev_null(fd)

    def __aiter__(self) -> "StdinLines":
        return self

    async def __anext__(self) -> list[bytes]:
        while True:
            if self._waits:
                await anyio.wait_readable(self._fd)
            else:
                await anyio.lowlevel.checkpoint()
            try:
                data = os.read(self._fd, _READ)
            except BlockingIOError:
                continue
            except OSError:
                raise StopAsyncIteration from None
            if not data:
                raise StopAsyncIteration
            dropped = self._splitter.dropped
            lines = self._splitter.feed(data)
            if self._splitter.dropped > dropped:
                self._log("warning", "stdin_line_too_long", total=self._splitter.dropped)
            if lines:
                return lines


class StdoutLines:
    """Write lines to a file descriptor. `serve` must run for what could not be written at once."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._backlog: deque[memoryview] = deque()
        self._size = 0
        self._more = anyio.Event()
        self._room = anyio.Event()
        self.closed = anyio.Event()
        mode = os.fstat(fd).st_mode
        self._nonblocking = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        if self._nonblocking:
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_NONBLOCK)

    def write(self, line: bytes) -> None:
        """Take one line. It leaves at once when the reader keeps up, else in its turn."""
        if self.closed.is_set():
            return
        data = memoryview(line + b"\n")
        if not self._backlog:
            data = data[self._write_some([data]) :]
        if data and not self.closed.is_set():
            self._backlog.append(data)
            self._size += len(data)
            self._more.set()

    async def wait_writable(self) -> None:
        """Return when the backlog is small enough for a run to go on."""
        await self._wait_below(BACKLOG_FOR_RUNS)

    async def wait_answerable(self) -> None:
        """Return when the backlog is small enough for more answers."""
        await self._wait_below(BACKLOG_FOR_ANSWERS)

    async def serve(self) -> None:
        """Write out what waits, for ever."""
        while not self.closed.is_set():
            if not self._backlog:
                self._more = anyio.Event()
                await self._more.wait()
            self._write_backlog()
            if self._backlog and self._nonblocking:
                await anyio.wait_writable(self._fd)

    async def flush(self) -> None:
        """Return when all is written, or when nobody reads any more."""
        await self._wait_below(0)

    async def _wait_below(self, limit: int) -> None:
        while self._size > limit and not self.closed.is_set():
            self._room = anyio.Event()
            await self._room.wait()

    def _write_backlog(self) -> None:
        while written := self._write_some(list(islice(self._backlog, _LINES_AT_ONCE))):
            self._size -= written
            while written:
                data = self._backlog.popleft()
                if len(data) > written:
                    self._backlog.appendleft(data[written:])
                written -= min(written, len(data))
        self._room.set()

    def _write_some(self, lines: list[memoryview]) -> int:
        """How many bytes left; 0 when the reader does not keep up, or is gone."""
        if not lines:
            return 0
        try:
            return os.writev(self._fd, lines)
        except BlockingIOError:
            return 0
        except OSError:
            self._hang_up()
            return 0

    def _hang_up(self) -> None:
        self.closed.set()
        self._backlog.clear()
        self._size = 0
        self._more.set()
        self._room.set()


def _is_dev_null(fd: int) -> bool:
    return os.path.samestat(os.fstat(fd), os.stat(os.devnull))  # noqa: PTH116
