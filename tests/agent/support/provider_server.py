"""A local server that plays a provider of models: it sends what a test gave it, byte for byte."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_LONGEST_HOLD = 120


@dataclass(frozen=True, slots=True)
class Chunks:
    """An answer of 200, in pieces."""

    chunks: tuple[bytes, ...]
    breaks: bool = False
    """Break the chunked encoding instead of ending it."""
    holds: threading.Event | None = None
    """Say nothing more until this is set, and break then."""


@dataclass(frozen=True, slots=True)
class Status:
    """An error status with a JSON body."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that the server got."""

    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any


@dataclass(slots=True)
class ProviderServer:
    """What it answers next, and what it was asked."""

    url: str = ""
    replies: list[Chunks | Status] = field(default_factory=list[Chunks | Status])
    asked: list[Asked] = field(default_factory=list[Asked])
    listing: Status = field(default_factory=lambda: Status(404, {}))
    """The answer to a GET."""


def sse(value: object, event: str | None = None) -> bytes:
    """One server-sent event."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(value)}\n\n".encode()


@contextmanager
def provider_server(state: ProviderServer) -> Generator[None]:
    """Serve on a free port of the loopback until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self._note(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            reply = state.replies.pop(0)
            if isinstance(reply, Status):
                self._refuse(reply)
            else:
                self._stream(reply)

        def do_GET(self) -> None:
            self._note(None)
            self._refuse(state.listing)

        def _note(self, body: object) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.asked.append(Asked(self.path, headers, body))

        def _refuse(self, reply: Status) -> None:
            body = json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, reply: Chunks) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in reply.chunks:
                self._chunk(chunk)
            if reply.holds is not None:
                reply.holds.wait(_LONGEST_HOLD)
            if reply.breaks or reply.holds:
                self.close_connection = True
            else:
                self._chunk(b"")

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - their name
            """Quiet: stderr is the test runner's."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
