"""`/api`: what the panel needs besides `/ws`. docs/reference/api.md is its contract.

Imported with the first HTTP request only (see `agui.http_app`).
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial

import anyio
import anyio.to_thread
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agui.panel.asking import WorkerRefused, set_name, stop
from agui.panel.entries import Clocks, merged
from agui.panel.panel import Panel
from agui.panel.ports import CatalogueRefused
from agui.panel.requests import Door, Link, Named, Nothing, Refused, Rename, answer, body_of
from agui.panel.sign_in import LINK_SECONDS
from agui.panel.stream import FeedResponse
from agui.peers import Peers

Handler = Callable[[Request], Awaitable[Response]]

log = structlog.get_logger()


class ApiRoutes:
    """The handlers. Each answers JSON, or a refusal in JSON."""

    def __init__(self, panel: Panel, peers: Peers, write_timeout: float) -> None:
        self._panel = panel
        self._door = Door(panel.token, panel.sign_in, peers)
        self._write_timeout = write_timeout

    def routes(self) -> Sequence[Route]:
        return [
            Route("/api/threads", _guarded(self.threads), methods=["GET"]),
            Route("/api/feed", _guarded(self.feed), methods=["GET"]),
            Route("/api/attachment", _guarded(self.attachment), methods=["GET"]),
            Route("/api/rename", _guarded(self.rename), methods=["POST"]),
            Route("/api/delete", _guarded(self.delete), methods=["POST"]),
            Route("/api/restore", _guarded(self.restore), methods=["POST"]),
            Route("/api/links", _guarded(self.link), methods=["POST"]),
            Route("/api/sign-in", _guarded(self.sign_in), methods=["POST"]),
            Route("/api/sign-out", _guarded(self.sign_out), methods=["POST"]),
            Route("/api/revoke", _guarded(self.revoke), methods=["POST"]),
        ]

    async def threads(self, request: Request) -> Response:
        """Every row of the list, once."""
        await self._door.admit(request)
        saved = await anyio.to_thread.run_sync(self._panel.catalogue.all)
        clocks = Clocks(anyio.current_time(), datetime.now(UTC))
        return answer({"threads": merged(self._panel.threads.views(), saved, clocks)})

    async def feed(self, request: Request) -> Response:
        """The same rows, and then each one that changes, as server-sent events."""
        session = await self._door.admit(request)
        return FeedResponse(partial(self._panel.feed.stream, session), self._write_timeout)

    async def attachment(self, request: Request) -> Response:
        """A file that came with a message. Never shown as a page: it is data for ours."""
        await self._door.admit(request)
        asked = request.query_params
        key = Named(asked.get("project_dir", ""), asked.get("id", "")).key()
        find = partial(self._panel.catalogue.attachment, key, asked.get("name", ""))
        content = await anyio.to_thread.run_sync(find)
        if content is None:
            raise Refused(404, "no_attachment", "There is no such file any more.")
        headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        return Response(content, media_type="application/octet-stream", headers=headers)

    async def rename(self, request: Request) -> Response:
        """Give a conversation a name; its worker writes it down."""
        await self._door.admit(request)
        body = await body_of(request, Rename)
        key, name = body.key(), " ".join(body.name.split())
        if not name:
            raise Refused(422, "bad_request", "A name needs at least one letter.")
        try:
            await set_name(self._panel.threads, key, name)
        except WorkerRefused as exc:
            raise Refused(409, exc.code, str(exc)) from exc
        self._panel.feed.announce(key)
        return answer({"name": name})

    async def delete(self, request: Request) -> Response:
        """Stop a thread and put its conversation aside."""
        await self._door.admit(request)
        key = (await body_of(request, Named)).key()
        try:
            await stop(self._panel.threads, key)
            await anyio.to_thread.run_sync(self._panel.catalogue.delete, key)
        except TimeoutError as exc:
            text = "Its worker did not stop in time. Nothing was deleted; try again in a moment."
            raise Refused(409, "still_running", text) from exc
        except CatalogueRefused as exc:
            raise Refused(409, "not_deleted", str(exc)) from exc
        self._panel.feed.announce(key)
        return answer({})

    async def restore(self, request: Request) -> Response:
        """Take a deletion back."""
        await self._door.admit(request)
        key = (await body_of(request, Named)).key()
        try:
            await anyio.to_thread.run_sync(self._panel.catalogue.restore, key)
        except CatalogueRefused as exc:
            raise Refused(409, "not_restored", str(exc)) from exc
        self._panel.feed.announce(key)
        return answer({})

    async def link(self, request: Request) -> Response:
        """A new sign-in link, for whoever has the daemon's token."""
        await self._door.admit(request, only_token=True)
        await body_of(request, Nothing)
        secret = self._panel.sign_in.new_link(anyio.current_time())
        return answer({"link": secret, "seconds": LINK_SECONDS})

    async def sign_in(self, request: Request) -> Response:
        """Exchange a link's secret for a session's. Needs no token: the link is one."""
        await self._door.keep_insiders_out(request)
        given = (await body_of(request, Link)).link
        secret = self._panel.sign_in.exchange(given, anyio.current_time())
        if secret is None:
            text = "This link was used already, or is too old. Run 'roost panel' again."
            raise Refused(401, "link_over", text)
        await self._keep()
        return answer({"session": secret})

    async def sign_out(self, request: Request) -> Response:
        """End the session that asks."""
        session = await self._door.admit(request)
        await body_of(request, Nothing)
        if session is not None:
            self._panel.sign_in.end(session)
            await self._keep()
        return answer({})

    async def revoke(self, request: Request) -> Response:
        """End all sessions, with their connections, for whoever has the daemon's token."""
        await self._door.admit(request, only_token=True)
        await body_of(request, Nothing)
        count = self._panel.sign_in.end_all()
        await self._keep()
        return answer({"ended": count})

    async def _keep(self) -> None:
        try:
            await self._panel.save_sessions()
        except OSError as exc:
            log.error("panel_sessions_not_saved", reason=exc.strerror)
            text = f"Who is signed in could not be written down ({exc.strerror}). Make room first."
            raise Refused(500, "not_saved", text) from exc


def _guarded(handler: Handler) -> Handler:
    async def guarded(request: Request) -> Response:
        try:
            return await handler(request)
        except Refused as refused:
            return refused.response()

    return guarded
