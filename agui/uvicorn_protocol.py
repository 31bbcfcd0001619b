"""uvicorn's WebSocket protocol, lending its transport to our endpoint.

The server's own `send` frames one message per call. What the endpoint needs on top is to write
many frames at once, to see how much of it the client has not taken, and to cut off a client that
takes nothing. The class extended here is not documented API: uvicorn is pinned exactly, and
tests/agui/test_uvicorn_protocol.py holds it to what is used of it.
"""

from typing import cast

from uvicorn._types import ASGIReceiveEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

EXTENSION = "roost.transport"

# What a client still sends after it broke the protocol is thrown away until it pauses this long,
_QUIET = 0.1
# and no longer than this.
_LONGEST_LINGER = 2.0


class BindingWebSocket(WebSocketsSansIOProtocol):
    """One connection. It is in the ASGI scope's extensions under `EXTENSION`."""

    _is_quiet = False
    _linger_until = 0.0

    async def run_asgi(self) -> None:
        extensions = cast("dict[str, object] | None", self.scope.get("extensions"))
        # With a negotiated extension (compression) prebuilt frames would be wrong.
        if extensions is not None and not self.conn.extensions:
            extensions[EXTENSION] = self
        await super().run_asgi()

    def can_write(self) -> bool:
        """Whether a write would be taken, and the client keeps up so far."""
        return self.writable.is_set() and not self.is_over()

    def is_over(self) -> bool:
        """Nothing written now would reach the client."""
        return self.disconnected or self.close_sent or self.transport.is_closing()

    def send_blob(self, blob: bytes) -> None:
        """Write whole, already framed messages. Does not wait."""
        self.transport.write(blob)

    async def wait_writable(self) -> None:
        """Return once the client took most of what was written, or is gone."""
        await self.writable.wait()

    def buffered(self) -> int:
        """Bytes that were written and that the kernel did not take yet."""
        return self.transport.get_write_buffer_size()

    def abort(self) -> None:
        """Cut the connection now. What is buffered is lost."""
        self.transport.abort()

    def keepalive_timeout(self) -> None:
        # The library would queue a close frame behind what a stuck client does not read.
        self.abort()

    def handle_parser_exception(self) -> None:
        """Tell the client why, and read on without looking until it is quiet.

        Closing while its data is unread would make the kernel reset the connection, and the
        client would never see the close frame that says what was wrong. Called again for all that
        comes after the error.
        """
        self._is_quiet = False
        if self.close_timer is not None:
            return
        close = self.conn.close_sent
        assert close is not None
        event = {"type": "websocket.disconnect", "code": close.code, "reason": close.reason}
        self.queue.put_nowait(cast(ASGIReceiveEvent, event))
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.stop_keepalive()
        self._linger_until = self.loop.time() + _LONGEST_LINGER
        self._linger()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    def _linger(self) -> None:
        if self._is_quiet or self.loop.time() > self._linger_until:
            self.transport.abort()
            return
        self._is_quiet = True
        self.close_timer = self.loop.call_later(_QUIET, self._linger)
