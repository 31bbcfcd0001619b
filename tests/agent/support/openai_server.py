"""A local server that speaks OpenAI's streaming chat API, as far as a test tells it to."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.agent.support.provider_server import (
    Chunks,
    ProviderServer,
    Status,
    provider_server,
    sse,
)


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
    """What it was asked, and the models that it lists."""

    _server: ProviderServer

    @property
    def url(self) -> str:
        return f"{self._server.url}/v1"

    @property
    def requests(self) -> list[Any]:
        assert all(a.path == "/v1/chat/completions" for a in self._server.asked if a.body)
        return [asked.body for asked in self._server.asked if asked.body is not None]

    @property
    def keys(self) -> list[str | None]:
        return [asked.headers.get("authorization") for asked in self._server.asked]

    def lists(self, *names: str) -> None:
        data = [{"id": name, "object": "model"} for name in names]
        self._server.listing = Status(200, {"object": "list", "data": data})


@contextmanager
def openai_server(*replies: Reply) -> Generator[OpenAIServer]:
    server = ProviderServer(replies=[_reply(each) for each in replies])
    with provider_server(server):
        yield OpenAIServer(server)


def _reply(reply: Reply) -> Chunks | Status:
    if isinstance(reply, Refusal):
        error = {"message": reply.message, "type": "error", "code": reply.code}
        return Status(reply.status, {"error": error}, reply.headers)
    chunks = [
        _chunk({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        for delta in reply.deltas
    ]
    if reply.finish and not reply.breaks and not reply.holds:
        end: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": reply.finish}
        usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
        chunks += [_chunk({"choices": [end]}), _chunk({"choices": [], "usage": usage})]
        chunks.append(b"data: [DONE]\n\n")
    return Chunks(tuple(chunks), reply.breaks, reply.holds)


def _chunk(value: dict[str, Any]) -> bytes:
    common = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return sse({**common, **value})
