"""The HTTP routes beside `/ws`, built when the first request comes.

The library that routes them is a tenth of the daemon's start, and most clients never ask for one.
Each surface is a module of its own with an object that has `routes()`; here they are put together.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agui.guard import Application, Message, Receive, Send
from agui.peers import Peers
from agui.settings import BindingSettings
from agui.status import StatusRoute
from sessions.domain.ports import Threads

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from agui.endpoint.routes import AguiRoutes


class HttpApp:
    """An ASGI application for everything that is not the WebSocket endpoint."""

    def __init__(
        self,
        threads: Threads,
        status: StatusRoute,
        settings: BindingSettings,
        peers: Peers,
        panel: Callable[[], "Sequence[BaseRoute]"] = tuple,
    ) -> None:
        self._threads = threads
        self._status = status
        self._settings = settings
        self._peers = peers
        self._panel = panel
        self._app: Application | None = None
        self._agui: AguiRoutes | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._app is None:
            self._app = self._built()
        await self._app(scope, receive, send)

    async def end_all(self) -> None:
        """End every stream. Returns after the last."""
        if self._agui is not None:
            await self._agui.end_all()

    def _built(self) -> Application:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.routing import Route

        from agui.endpoint.routes import AguiRoutes

        self._agui = AguiRoutes(self._threads, self._settings, self._peers, self._status.version)
        routes: list[BaseRoute] = [
            Route("/status", self._status.respond),
            *self._agui.routes(),
            *self._panel(),
        ]
        if self._settings.projects is not None:
            from agui.artifacts import PREFIX, ArtifactsRoute

            artifacts = ArtifactsRoute(self._settings.projects)
            routes.append(Route(PREFIX + "{path:path}", artifacts.respond))
        handlers = {HTTPException: _in_json, Exception: _broken}
        app = Starlette(routes=routes, exception_handlers=handlers)
        # A path is one of ours or it is not; a redirect would tell what is near.
        app.router.redirect_slashes = False
        return app


def _in_json(request: "Request", exc: Exception) -> "Response":
    """A path or a method that is none of ours."""
    from starlette.exceptions import HTTPException
    from starlette.responses import JSONResponse

    assert isinstance(exc, HTTPException)
    code = {404: "not_found", 405: "bad_method"}.get(exc.status_code, "refused")
    content = {"error": f"{exc.detail}: {request.method} {request.url.path}", "code": code}
    return JSONResponse(content, exc.status_code, exc.headers)


def _broken(request: "Request", exc: Exception) -> "Response":
    """A fault of ours; the server library logs it with its traceback."""
    from starlette.responses import JSONResponse

    text = "This is a fault of the daemon; its log has the details (`roost logs`)."
    return JSONResponse({"error": text, "code": "internal"}, 500)
