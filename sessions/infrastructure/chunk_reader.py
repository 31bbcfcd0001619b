"""What a descriptor brings, chunk by chunk, at the price of one read each.

anyio's `wait_readable` registers a descriptor anew for every wait, and a task that is woken for a
chunk runs a turn of the loop later; on asyncio both cost more than all that is done with a line
afterwards (measured: 155 and 10 µs of processor time a line, of 57). So on asyncio the descriptor
stays registered, and the loop's callback takes the chunk; elsewhere anyio waits.
"""

import asyncio  # noqa: TID251 - the one loop whose callbacks are worth having (see above)
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import anyio

# A pipe of Linux holds 64 KiB, so that a read never gets more; measured: larger pipes are slower.
_READ_BYTES = 64 * 1024

TakeChunk = Callable[[bytes], None]


class ChunkReader(Protocol):
    """Reads one non-blocking descriptor, which it does not own. One task reads at a time."""

    async def each(self, take: TakeChunk) -> None:
        """Hand over each chunk as it comes, until the end of the file or `interrupt`.

        One chunk a turn of the loop: a writer that floods must not keep the loop to itself, and
        the turn is what the writes to clients are gathered by. What `take` raises ends the call,
        and is raised. Survives cancellation: no chunk is lost.
        """
        ...

    def read_now(self) -> bytes | None:
        """What is there already; empty at the end of the file, None when there is nothing yet."""
        ...

    def interrupt(self) -> None:
        """Have `each` return, now and later."""

    def close(self) -> None:
        """Let go of the descriptor. To be called before it is closed; safe to repeat."""


def chunk_reader(fd: int) -> ChunkReader:
    """The best reader that the running event loop allows."""
    try:
        return _LoopReader(fd, asyncio.get_running_loop())
    except RuntimeError:
        return _WaitingReader(fd)


class _WaitingReader:
    """Waits for the descriptor each time."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._is_interrupted = False

    async def each(self, take: TakeChunk) -> None:
        while not self._is_interrupted:
            with suppress(anyio.ClosedResourceError):
                await anyio.wait_readable(self._fd)
            if self._is_interrupted:
                return
            chunk = _read(self._fd)
            if chunk == b"":
                return
            if chunk is not None:
                take(chunk)

    def read_now(self) -> bytes | None:
        return _read(self._fd)

    def interrupt(self) -> None:
        self._is_interrupted = True
        anyio.notify_closing(self._fd)

    def close(self) -> None:
        self.interrupt()


class _LoopReader:
    """Lets asyncio's loop read, in the context of whoever called `each`."""

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop) -> None:
        self._fd = fd
        self._loop = loop
        self._reading: asyncio.Future[None] | None = None
        self._is_interrupted = False

    async def each(self, take: TakeChunk) -> None:
        if self._is_interrupted:
            return
        self._reading = self._loop.create_future()
        self._loop.add_reader(self._fd, self._on_readable, take)
        try:
            await self._reading
        finally:
            self._end()

    def read_now(self) -> bytes | None:
        return _read(self._fd)

    def interrupt(self) -> None:
        self._is_interrupted = True
        self._end()

    def close(self) -> None:
        self.interrupt()

    def _on_readable(self, take: TakeChunk) -> None:
        chunk = _read(self._fd)
        if chunk is None:
            return
        if not chunk:
            self._end()
            return
        reading = self._reading
        try:
            take(chunk)
        except BaseException as exc:
            if reading is None or reading.done():
                raise  # whoever called `each` has left: the loop tells of it
            reading.set_exception(exc)
            self._end()

    def _end(self) -> None:
        """At once: whoever closes the descriptor next must not find it registered."""
        reading, self._reading = self._reading, None
        if reading is None:
            return
        self._loop.remove_reader(self._fd)
        if not reading.done():
            reading.set_result(None)


def _read(fd: int) -> bytes | None:
    try:
        return os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        # A socket whose other end was killed with something unread: there is no more to come.
        return b""
