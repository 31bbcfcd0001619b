"""Host and Origin, checked in front of every route, HTTP and WebSocket alike."""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from agui.security import Refusal, refusal

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

log = structlog.get_logger()


class Guard:
    """An ASGI application that lets through what may pass, and answers the rest itself."""

    def __init__(self, app: Application, port: int) -> None:
        self._app = app
        self._port = port

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        refused = refusal(scope["headers"], self._port)
        if refused is None:
            await self._app(scope, receive, send)
            return
        log.warning("request_refused", status=refused.status, reason=refused.reason)
        await _answer(scope["type"], refused, send)


async def _answer(kind: str, refused: Refusal, send: Send) -> None:
    # A WebSocket that was not accepted yet is refused with a plain HTTP answer (ASGI extension).
    prefix = "websocket.http.response" if kind == "websocket" else "http.response"
    body = refused.reason.encode() + b"\n"
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": f"{prefix}.start", "status": refused.status, "headers": headers})
    await send({"type": f"{prefix}.body", "body": body})
