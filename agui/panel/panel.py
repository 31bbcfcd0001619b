"""The panel as one object: who is signed in, the feed, and its routes for `agui.http_app`.

Inert until its binding serves it. What is heavy is imported with the first request.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from agui.panel.feed import Feed
from agui.panel.ports import Catalogue, SessionStore
from agui.panel.sign_in import SignIn
from agui.peers import Peers
from sessions.domain.ports import Threads

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

STATIC = Path(__file__).parent / "static"


class Panel:
    """What the binding serves at `/` and `/api`."""

    def __init__(
        self, threads: Threads, catalogue: Catalogue, store: SessionStore, token: str
    ) -> None:
        self.threads = threads
        self.catalogue = catalogue
        self.sign_in = SignIn(store.load())
        self.feed = Feed(threads, catalogue)
        self.token = token
        self._store = store

    def serves(self, cut_ended_sessions: Callable[[], None]) -> None:
        """Sessions that end take their feeds and their connections with them."""

        def end() -> None:
            cut_ended_sessions()
            self.feed.end(lambda session: session is not None and not self.sign_in.is_open(session))

        self.sign_in.ended = end

    async def save_sessions(self) -> None:
        """Keep who is signed in. Raises OSError."""
        await anyio.to_thread.run_sync(self._store.save, self.sign_in.sessions)

    def routes(self, peers: Peers, write_timeout: float) -> Sequence["BaseRoute"]:
        """For the application that routes HTTP."""
        from agui.panel.api import ApiRoutes
        from agui.panel.pages import page_routes

        return [*ApiRoutes(self, peers, write_timeout).routes(), *page_routes(STATIC)]
