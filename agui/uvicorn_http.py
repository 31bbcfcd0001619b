"""uvicorn's HTTP protocol, with a limit on those that connect and say nothing, lent to our streams.

A local program that opens connections and leaves them must not use up the daemon's open files.
The library ends a connection that is idle after an answer, and none that never asked anything. As
with the WebSocket side, the class is not documented API: uvicorn is pinned exactly.
"""

from typing import Any, Protocol, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

EXTENSION = "roost.http"

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class _Timer(Protocol):
    def cancel(self) -> None: ...


class BindingHttp(H11Protocol):
    """One connection, until it is upgraded. It is in its scopes' extensions under `EXTENSION`."""

    def __init__(self, header_timeout: float, most: int, **given: Any) -> None:
        super().__init__(**given)
        self._header_timeout = header_timeout
        self._most = most
        self._patience: _Timer | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if sum(isinstance(other, BindingHttp) for other in self.connections) > self._most:
            transport.write(_BUSY)
            transport.close()
        else:
            self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._have_headers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        scope = cast("dict[str, Any] | None", self.scope)
        if scope is not None:
            # The task that answers has been made, and begins with the next turn of the loop.
            scope.setdefault("extensions", {})[EXTENSION] = self
        # None until something was asked, whatever the library's annotation says.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete:
            self._have_headers()
        else:
            self._wait_for_headers()

    def buffered(self) -> int:
        """Bytes that were written and that the kernel did not take yet."""
        return self.transport.get_write_buffer_size()

    def abort(self) -> None:
        """Cut the connection now. What is buffered is lost."""
        self.transport.abort()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._have_headers()
        super().handle_websocket_upgrade(event)
        # Nothing comes here any more, not even the end of the connection.
        self._header_timeout = 0

    def _wait_for_headers(self) -> None:
        if self._patience is None and self._header_timeout and not self.transport.is_closing():
            self._patience = self.loop.call_later(self._header_timeout, self.transport.close)

    def _have_headers(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
