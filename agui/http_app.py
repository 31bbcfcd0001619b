"""The HTTP routes beside `/ws`, built when the first request comes.

The library that routes them is a tenth of the daemon's start, and most clients never ask for one.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agui.guard import Application, Message, Receive, Send
from agui.status import StatusRoute

if TYPE_CHECKING:
    from starlette.routing import BaseRoute


class HttpApp:
    """An ASGI application for everything that is not the WebSocket endpoint."""

    def __init__(
        self,
        status: StatusRoute,
        projects: Path | None,
        panel: Callable[[], "Sequence[BaseRoute]"] = tuple,
    ) -> None:
        self._status = status
        self._panel = panel
        self._projects = projects
        self._app: Application | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._app is None:
            self._app = self._built()
        await self._app(scope, receive, send)

    def _built(self) -> Application:
        from starlette.applications import Starlette
        from starlette.routing import Route

        routes: list[BaseRoute] = [Route("/status", self._status.respond), *self._panel()]
        if self._projects is not None:
            from agui.artifacts import PREFIX, ArtifactsRoute

            artifacts = ArtifactsRoute(self._projects)
            routes.append(Route(PREFIX + "{path:path}", artifacts.respond))
        app = Starlette(routes=routes)
        # A path is one of ours or it is not; a redirect would tell what is near.
        app.router.redirect_slashes = False
        return app
