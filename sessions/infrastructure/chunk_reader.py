"""What a descriptor brings, chunk by chunk, at the price of one read each.

anyio's `wait_readable` registers a descriptor anew for every wait, which on asyncio costs more than
all that is done with a line afterwards (measured: 155 µs of processor time a line against 57). So
on asyncio the descriptor stays registered, and the loop's callback reads; elsewhere anyio waits.
"""

import asyncio  # noqa: TID251 - the one loop whose callbacks are worth having (see above)
import os
from collections import deque
from contextlib import suppress
from typing import Protocol

import anyio
import anyio.lowlevel

# A pipe of Linux holds 64 KiB, so that a read never gets more; measured: larger pipes are slower.
_READ_BYTES = 64 * 1024


class ChunkReader(Protocol):
    """Reads one non-blocking descriptor, which it does not own. One task waits at a time."""

    async def wait(self) -> bytes | None:
        """The next chunk; empty at the end of the file, None after `interrupt`. Always waits.

        A writer that floods must not keep the loop to itself, and one turn of the loop for each
        read is what the writes to clients are gathered by. Survives cancellation: no chunk is lost.
        """
        ...

    def read_now(self) -> bytes | None:
        """What is there already; empty at the end of the file, None when there is nothing yet."""
        ...

    def interrupt(self) -> None:
        """Wake whoever waits, now and later."""

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

    async def wait(self) -> bytes | None:
        while not self._is_interrupted:
            with suppress(anyio.ClosedResourceError):
                await anyio.wait_readable(self._fd)
            if (chunk := _read(self._fd)) is not None:
                return chunk
        return None

    def read_now(self) -> bytes | None:
        return _read(self._fd)

    def interrupt(self) -> None:
        self._is_interrupted = True
        anyio.notify_closing(self._fd)

    def close(self) -> None:
        self.interrupt()


class _LoopReader:
    """Lets asyncio's loop read. Keeps at most one chunk that nobody has taken."""

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop) -> None:
        self._fd = fd
        self._loop = loop
        self._chunks: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._is_registered = False
        self._is_interrupted = False
        self._is_closed = False

    async def wait(self) -> bytes | None:
        if not self._is_registered and not self._is_closed and not self._chunks:
            self._loop.add_reader(self._fd, self._on_readable)
            self._is_registered = True
        if self._chunks:
            await anyio.lowlevel.checkpoint()
        elif not self._is_interrupted:
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._chunks.popleft() if self._chunks else None

    def read_now(self) -> bytes | None:
        return self._chunks.popleft() if self._chunks else _read(self._fd)

    def interrupt(self) -> None:
        self._is_interrupted = True
        self._wake()

    def close(self) -> None:
        self._is_closed = True
        self._unregister()
        self.interrupt()

    def _on_readable(self) -> None:
        if self._chunks:
            # The last one still waits to be taken: the descriptor can hold the rest meanwhile.
            self._unregister()
            return
        chunk = _read(self._fd)
        if chunk is None:
            return
        if not chunk:
            self._unregister()
        self._chunks.append(chunk)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _unregister(self) -> None:
        if self._is_registered:
            self._is_registered = False
            self._loop.remove_reader(self._fd)


def _read(fd: int) -> bytes | None:
    try:
        return os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        # A socket whose other end was killed with something unread: there is no more to come.
        return b""
