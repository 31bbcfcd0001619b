"""A connected unix socket as a byte stream that can be cancelled at any moment.

anyio's own stream for these sockets may report a fault to the event loop when a read is cancelled
in the very turn in which data came; waiting for readiness has no such moment.
"""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

# Not more: from 128 KiB on the C library maps and unmaps memory for each read, however little comes
# (measured: 37 us instead of 3).
_READ_BYTES = 64 * 1024

Connected = Callable[["LocalStream"], None]


class LocalStream(anyio.abc.ByteStream):
    """Owns the socket."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self._has_hurried = False

    async def receive(self, max_bytes: int = _READ_BYTES) -> bytes:
        if self._has_hurried:
            # The last one returned at once: others get their turn now.
            self._has_hurried = False
            await anyio.lowlevel.checkpoint()
        has_waited = False
        while True:
            try:
                data = self.socket.recv(max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self.socket)
                has_waited = True
            except OSError as exc:
                raise self._broken(exc) from exc
            else:
                self._has_hurried = not has_waited
                if not data:
                    raise anyio.EndOfStream
                return data

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint_if_cancelled()
        has_waited = False
        rest = memoryview(item)
        while rest:
            try:
                rest = rest[self.socket.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self.socket)
                has_waited = True
            except OSError as exc:
                raise self._broken(exc) from exc
        if not has_waited:
            await anyio.lowlevel.cancel_shielded_checkpoint()

    def send_now(self, item: bytes) -> bytes:
        """Send without waiting, and return what was not taken. A fault is for the next `send`."""
        try:
            return item[self.socket.send(item) :]
        except OSError:
            return item

    async def send_eof(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close at once. Safe to repeat."""
        if self.socket.fileno() != -1:
            anyio.notify_closing(self.socket)
            self.socket.close()

    async def aclose(self) -> None:
        self.close()
        await anyio.lowlevel.checkpoint()

    @property
    def extra_attributes(self) -> Any:
        return {}

    def _broken(self, exc: OSError) -> Exception:
        if self.socket.fileno() == -1:
            return anyio.ClosedResourceError()
        return anyio.BrokenResourceError(str(exc))


async def dial(path: str | Path) -> LocalStream:
    """Connect. Raises OSError when nobody listens there."""
    await anyio.lowlevel.checkpoint()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A unix socket connects at once, or not at all: a full backlog is an error, too.
        connection.setblocking(False)
        connection.connect(os.fsencode(path))
    except BaseException:
        connection.close()
        raise
    return LocalStream(connection)


async def accept_all(listener: socket.socket, connected: Connected) -> None:
    """Hand over every connection that comes, for ever."""
    while True:
        await anyio.wait_readable(listener)
        with suppress(BlockingIOError, ConnectionAbortedError):
            connection, _ = listener.accept()
            connected(LocalStream(connection))
