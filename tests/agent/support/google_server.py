"""A local server that speaks Gemini's streaming API, as far as a test tells it to."""

from typing import Any

from tests.agent.support.provider_server import Chunks, Status, sse

Part = dict[str, Any]


def google_text(text: str) -> Part:
    return {"text": text}


def google_thought(text: str) -> Part:
    return {"text": text, "thought": True}


def google_call(name: str, arguments: dict[str, Any], signature: str | None = None) -> Part:
    """A tool call. This API gives the arguments whole, and no id."""
    part: Part = {"functionCall": {"name": name, "args": arguments}}
    return {**part, "thoughtSignature": signature} if signature else part


def google_stream(*parts: Part, finish: str | None = "STOP", breaks: bool = False) -> Chunks:
    """An answer, one part a chunk. Without a finish it is cut: the connection just ends."""
    chunks = [_chunk({"content": {"role": "model", "parts": [part]}}) for part in parts]
    if finish is not None:
        end = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": finish}
        chunks.append(_chunk(end))
    return Chunks(tuple(chunks), breaks)


def google_refusal(
    status: int, kind: str, message: str, details: list[dict[str, Any]] | None = None
) -> Status:
    error = {"code": status, "message": message, "status": kind, "details": details or []}
    return Status(status, {"error": error})


def _chunk(candidate: dict[str, Any]) -> bytes:
    usage = {
        "promptTokenCount": 11, "candidatesTokenCount": 5, "thoughtsTokenCount": 2,
        "totalTokenCount": 18, "cachedContentTokenCount": 5,
    }  # fmt: skip
    return sse({
        "candidates": [{"index": 0, **candidate}],
        "usageMetadata": usage,
        "modelVersion": "gemini-2.5-flash",
        "responseId": "r1",
    })  # fmt: skip
