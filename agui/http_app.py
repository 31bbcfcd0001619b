"""The HTTP routes beside `/ws`, built when the first request comes.

The library that routes them is a tenth of the daemon's start, and most clients never ask for one.
"""

from agui.guard import Application, Message, Receive, Send
from agui.status import StatusRoute


class HttpApp:
    """An ASGI application for everything that is not the WebSocket endpoint."""

    def __init__(self, status: StatusRoute) -> None:
        self._status = status
        self._app: Application | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._app is None:
            self._app = self._built()
        await self._app(scope, receive, send)

    def _built(self) -> Application:
        from starlette.applications import Starlette
        from starlette.routing import Route

        return Starlette(routes=[Route("/status", self._status.respond)])
