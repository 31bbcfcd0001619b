"""A local server that speaks Anthropic's streaming messages API, as far as a test tells it to."""

from typing import Any

from tests.agent.support.provider_server import Chunks, Status, sse

Block = dict[str, Any]


def anthropic_text(*pieces: str) -> Block:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return {"start": {"type": "text", "text": ""}, "deltas": deltas}


def anthropic_thinking(*pieces: str, signature: str) -> Block:
    deltas: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": p} for p in pieces]
    deltas.append({"type": "signature_delta", "signature": signature})
    return {"start": {"type": "thinking", "thinking": "", "signature": ""}, "deltas": deltas}


def anthropic_call(call_id: str, name: str, *pieces: str) -> Block:
    """A tool call whose arguments come in fragments."""
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces)]
    start: Block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return {"start": start, "deltas": deltas}


def anthropic_stream(
    *blocks: Block, stop: str | None = "end_turn", error: str | None = None, breaks: bool = False
) -> Chunks:
    """A message. Without a stop it is cut: the connection just ends."""
    usage = {
        "input_tokens": 11, "output_tokens": 1,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": 5,
    }  # fmt: skip
    message: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [],
        "model": "claude-haiku-4-5", "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    events = [_event("message_start", message=message)]
    for index, block in enumerate(blocks):
        events.append(_event("content_block_start", index=index, content_block=block["start"]))
        events += [_event("content_block_delta", index=index, delta=d) for d in block["deltas"]]
        if stop is not None:
            events.append(_event("content_block_stop", index=index))
    if error is not None:
        events.append(_event("error", error={"type": error, "message": "Overloaded"}))
    elif stop is not None:
        delta = {"stop_reason": stop, "stop_sequence": None}
        events.append(_event("message_delta", delta=delta, usage={"output_tokens": 7}))
        events.append(_event("message_stop"))
    return Chunks(tuple(events), breaks)


def anthropic_refusal(status: int, kind: str, message: str, **headers: str) -> Status:
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return Status(status, body, {name.replace("_", "-"): v for name, v in headers.items()})


def _event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, kind)
