"""Host and Origin, checked in front of every route, HTTP and WebSocket alike."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from agui import cors
from agui.security import Doorkeeper, Refusal, values

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

# Shown by their URL, by whatever page: their Host is checked, their Origin is not.
_ARTIFACTS = "/artifacts/"

log = structlog.get_logger()


class Guard:
    """An ASGI application that lets through what may pass, and answers the rest itself."""

    def __init__(self, app: Application, doorkeeper: Doorkeeper) -> None:
        self._app = app
        self._doorkeeper = doorkeeper

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        is_http = scope["type"] == "http"
        headers = scope["headers"]
        refused = self._doorkeeper.refusal(
            headers, any_origin=is_http and scope["path"].startswith(_ARTIFACTS)
        )
        if refused is not None:
            log.warning("request_refused", status=refused.status, reason=refused.reason)
            await _refuse(scope["type"], refused, send)
            return
        (origins,) = values(headers, b"origin")
        if is_http and origins and self._is_shared_with(origins[0], scope["path"]):
            if cors.is_preflight(scope["method"], headers):
                answer = cors.preflight_answer(origins[0], headers)
                await send({"type": "http.response.start", "status": 204, "headers": answer})
                await send({"type": "http.response.body", "body": b""})
                return
            send = _with_headers(send, cors.allowance(origins[0]))
        await self._app(scope, receive, send)

    def _is_shared_with(self, origin: str, path: str) -> bool:
        return origin in self._doorkeeper.origins and cors.is_shared(path)


def _with_headers(send: Send, added: cors.HeaderList) -> Send:
    async def send_with_headers(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return send_with_headers


async def _refuse(kind: str, refused: Refusal, send: Send) -> None:
    # A WebSocket that was not accepted yet is refused with a plain HTTP answer (ASGI extension).
    prefix = "websocket.http.response" if kind == "websocket" else "http.response"
    body = json.dumps({"error": refused.reason, "code": refused.code}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": f"{prefix}.start", "status": refused.status, "headers": headers})
    await send({"type": f"{prefix}.body", "body": body})
