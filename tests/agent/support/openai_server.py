"""A local server that speaks OpenAI's streaming chat API, as far as a test tells it to."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer in chunks. Without a finish it is cut: the connection just ends."""

    deltas: tuple[dict[str, Any], ...]
    finish: str | None = "stop"
    breaks: bool = False
    """Break the chunked encoding instead of ending it."""
    holds: threading.Event | None = None
    """Say nothing more until this is set."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error status."""

    status: int
    message: str
    headers: dict[str, str] = field(default_factory=dict[str, str])
    code: str | None = None


Reply = Stream | Refusal


def text(*pieces: str) -> Stream:
    return Stream(tuple({"content": piece} for piece in pieces))


def tool_call(call_id: str, name: str, *pieces: str) -> Stream:
    """A tool call whose arguments come in fragments."""
    first: dict[str, Any] = {"index": 0, "id": call_id, "type": "function"}
    first["function"] = {"name": name, "arguments": ""}
    rest = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    return Stream(tuple({"tool_calls": [each]} for each in (first, *rest)), "tool_calls")


@dataclass(slots=True)
class OpenAIServer:
    """What it answers next, and what it was asked."""

    url: str
    replies: list[Reply]
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    keys: list[str | None] = field(default_factory=list[str | None])
    models: list[str] = field(default_factory=list[str])


@contextmanager
def openai_server(*replies: Reply) -> Generator[OpenAIServer]:
    state = OpenAIServer("", list(replies))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            state.requests.append(json.loads(self.rfile.read(length)))
            state.keys.append(self.headers["Authorization"])
            assert self.path == "/v1/chat/completions"
            reply = state.replies.pop(0)
            if isinstance(reply, Refusal):
                self._refuse(reply)
            else:
                self._stream(reply)

        def do_GET(self) -> None:
            state.keys.append(self.headers["Authorization"])
            assert self.path == "/v1/models"
            data = [{"id": name, "object": "model"} for name in state.models]
            body = json.dumps({"object": "list", "data": data}).encode()
            self.send_response(200 if state.models else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _refuse(self, reply: Refusal) -> None:
            error = {"message": reply.message, "type": "error", "code": reply.code}
            body = json.dumps({"error": error}).encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, reply: Stream) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for delta in reply.deltas:
                self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            if reply.holds is not None:
                reply.holds.wait(20)
            if reply.breaks or reply.holds:
                self.close_connection = True
                return
            if reply.finish:
                end: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": reply.finish}
                self._event({"choices": [end]})
                usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
                self._event({"choices": [], "usage": usage})
                self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")

        def _event(self, value: dict[str, Any]) -> None:
            common = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            self._chunk(b"data: " + json.dumps({**common, **value}).encode() + b"\n\n")

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - their name
            """Quiet: stderr is the test runner's."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
