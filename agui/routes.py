"""Which application a connection is for: the WebSocket endpoint, or the HTTP routes."""

from agui.guard import Application, Message, Receive, Send


class Routes:
    """An ASGI application that only passes on."""

    def __init__(self, websocket: Application, http: Application) -> None:
        self._websocket = websocket
        self._http = http

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        is_binding = scope["type"] == "websocket" and scope["path"] == "/ws"
        await (self._websocket if is_binding else self._http)(scope, receive, send)
