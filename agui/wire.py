"""How frames leave: through the transport our server lends, or one by one through any server.

The endpoint sees the protocol `Wire` only. What is written is whole frames, in order.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import anyio

from agui.text_frames import SharedEncoder
from agui.uvicorn_protocol import EXTENSION, BindingWebSocket
from sessions.domain.keys import Cursor

Send = Callable[[Any], Awaitable[None]]


class Stalled(Exception):
    """The client took nothing for the whole write deadline."""


class Wire(Protocol):
    """One connection, written to by one task."""

    @property
    def encode(self) -> Callable[[bytes], bytes]:
        """Prepares a payload for `write`. Cheap when the same object comes again."""
        ...

    def encode_row(self, events: Sequence[tuple[bytes, Cursor]]) -> bytes | None:
        """Prepares events in a row as one; None where each has to be written by itself."""
        ...

    def keeps_up(self) -> bool:
        """The client took most of what was written, and more can be written without waiting."""
        ...

    def write_now(self, frames: list[bytes]) -> None:
        """Write without waiting. To be called while the client keeps up."""

    async def write(self, frames: list[bytes]) -> None:
        """Write all of them and wait until the client took most of it. Raises Stalled."""
        ...

    def abort(self) -> None:
        """Cut the connection, if this wire can."""


@dataclass(frozen=True, slots=True)
class TransportWire:
    """Several frames per write, encoded once for all clients."""

    connection: BindingWebSocket
    encoder: SharedEncoder
    write_timeout: float

    @property
    def encode(self) -> Callable[[bytes], bytes]:
        return self.encoder

    def encode_row(self, events: Sequence[tuple[bytes, Cursor]]) -> bytes | None:
        return self.encoder.row(events)

    def keeps_up(self) -> bool:
        return self.connection.can_write()

    def write_now(self, frames: list[bytes]) -> None:
        self.connection.send_blob(b"".join(frames))

    async def write(self, frames: list[bytes]) -> None:
        if self.connection.is_over():
            return  # its reader is about to hear of it
        self.connection.send_blob(b"".join(frames))
        while not self.connection.writable.is_set():
            before = self.connection.buffered()
            with anyio.move_on_after(self.write_timeout) as deadline:
                await self.connection.wait_writable()
            if deadline.cancelled_caught and self.connection.buffered() >= before:
                raise Stalled

    def abort(self) -> None:
        self.connection.abort()


@dataclass(frozen=True, slots=True)
class PlainWire:
    """One `websocket.send` per frame, for a server that lends no transport."""

    send: Send
    write_timeout: float

    @property
    def encode(self) -> Callable[[bytes], bytes]:
        return bytes  # of bytes: the very same object

    def encode_row(self, events: Sequence[tuple[bytes, Cursor]]) -> bytes | None:
        return None

    def keeps_up(self) -> bool:
        return False

    def write_now(self, frames: list[bytes]) -> None:
        raise NotImplementedError("a write through any server waits")

    async def write(self, frames: list[bytes]) -> None:
        for frame in frames:
            with anyio.move_on_after(self.write_timeout) as deadline:
                try:
                    await self.send({"type": "websocket.send", "text": frame.decode()})
                except OSError:
                    return  # gone; its reader is about to hear of it
            if deadline.cancelled_caught:
                raise Stalled

    def abort(self) -> None:
        """The server closes the connection when its endpoint returns."""


def open_wire(
    scope: Mapping[str, Any], send: Send, encoder: SharedEncoder, write_timeout: float
) -> Wire:
    """The best wire a connection offers."""
    connection = scope.get("extensions", {}).get(EXTENSION)
    if isinstance(connection, BindingWebSocket):
        return TransportWire(connection, encoder, write_timeout)
    return PlainWire(send, write_timeout)
