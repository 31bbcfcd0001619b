"""The routes of `/agui`: AG-UI over HTTP, which also is the runtime surface of CopilotKit.

Decides the order of a request's life: the token, the agent, the body, the thread; then a stream, or
one refusal in JSON. Imported with the first HTTP request only (see `agui.http_app`).
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

import anyio
import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agui.endpoint.agents import Agent, with_default
from agui.endpoint.beginnings import Beginnings
from agui.endpoint.capabilities import agent_info, capabilities
from agui.endpoint.event_stream import EventStream, parse_cursor
from agui.endpoint.follower import HttpFollower
from agui.endpoint.refusal import Refused
from agui.endpoint.request import Gone, Reception
from agui.endpoint.run_input import read_run_input
from agui.endpoint.stop import StopRequest, read_stop, stopped
from agui.endpoint.streaming import connect, run
from agui.endpoint.visit import Visit, visiting
from agui.peers import Peers
from agui.settings import BindingSettings
from sessions.domain.keys import ThreadKey
from sessions.domain.ports import Threads

PREFIX = "/agui"

Send = Callable[[Any], Awaitable[None]]
Handler = Callable[[Request, Send], Awaitable[None]]

log = structlog.get_logger()


class AguiRoutes:
    """All requests to the endpoint."""

    def __init__(
        self, threads: Threads, settings: BindingSettings, peers: Peers, version: str
    ) -> None:
        self._threads = threads
        self._settings = settings
        self._version = version
        self._agents = with_default(settings.agents)
        self._reception = Reception(threads, settings, peers)
        self._beginnings = Beginnings()
        self._followers: set[HttpFollower] = set()
        self._left = anyio.Event()

    def routes(self) -> list[Route]:
        """What the application mounts."""
        agent = PREFIX + "/agent/{agent}"
        return [
            Route(f"{PREFIX}/info", _Endpoint(self._info), methods=["GET"]),
            Route(f"{agent}/capabilities", _Endpoint(self._capabilities), methods=["GET"]),
            Route(f"{agent}/run", _Endpoint(self._run), methods=["POST"]),
            Route(f"{agent}/connect", _Endpoint(self._connect), methods=["POST"]),
            Route(f"{agent}/stop/{{thread}}", _Endpoint(self._stop), methods=["POST"]),
        ]

    async def end_all(self) -> None:
        """End every stream. Returns after the last."""
        while self._followers:
            for follower in self._followers:
                follower.end("the daemon is shutting down")
            self._left = anyio.Event()
            await self._left.wait()

    # Handlers

    async def _info(self, request: Request, send: Send) -> None:
        await self._reception.inside(request)
        await _answer(request, send, agent_info(self._agents, self._version))

    async def _capabilities(self, request: Request, send: Send) -> None:
        await self._reception.inside(request)
        name, agent = self._agent(request)
        await _answer(request, send, capabilities(name, agent, self._version))

    async def _run(self, request: Request, send: Send) -> None:
        inside = await self._reception.inside(request)
        _, agent = self._agent(request)
        given = read_run_input(await self._reception.body(request))
        with self._visit(inside, agent.thread(given.project_dir, given.thread_id)) as visit:
            stream = self._stream(request, send)
            await run(
                visit, given, agent, stream, request.receive, self._settings, self._beginnings
            )

    async def _connect(self, request: Request, send: Send) -> None:
        inside = await self._reception.inside(request)
        _, agent = self._agent(request)
        given = read_run_input(await self._reception.body(request))
        cursor = parse_cursor(request.headers.get("last-event-id"))
        with self._visit(inside, agent.thread(given.project_dir, given.thread_id)) as visit:
            stream = self._stream(request, send)
            await connect(visit, given, agent, cursor, stream, request.receive, self._settings)

    async def _stop(self, request: Request, send: Send) -> None:
        inside = await self._reception.inside(request)
        _, agent = self._agent(request)
        asked = read_stop(await self._reception.body(request, is_optional=True))
        await _answer(request, send, self._stopped(request, inside, agent, asked))

    def _stopped(
        self, request: Request, inside: ThreadKey | None, agent: Agent, asked: StopRequest
    ) -> dict[str, object]:
        view = asked.thread(self._threads.views(), agent, request.path_params["thread"])
        if view is not None:
            key = ThreadKey.parse(view.project_dir, view.conversation_id)
            if view.run_id is not None:
                with self._visit(inside, key) as visit:
                    return stopped(visit)
            if inside is None and self._beginnings.stop(key, asked.run_id):
                return {"stopped": True}
        return {"stopped": False, "message": "No run is open on this thread."}

    # Steps

    def _agent(self, request: Request) -> tuple[str, Agent]:
        name = request.path_params["agent"]
        agent = self._agents.get(name)
        if agent is None:
            known = ", ".join(self._agents)
            raise Refused(
                404, "unknown_agent", f"There is no agent of this name; there are: {known}."
            )
        return name, agent

    def _stream(self, request: Request, send: Send) -> EventStream:
        return EventStream(dict(request.scope), send, self._settings.write_timeout)

    @contextmanager
    def _visit(self, inside: ThreadKey | None, key: ThreadKey) -> Generator[Visit]:
        settings = self._settings
        follower = HttpFollower(inside, settings.outbox_frames, settings.outbox_bytes)
        self._followers.add(follower)
        try:
            with visiting(self._threads, follower, key) as visit:
                yield visit
        finally:
            self._followers.discard(follower)
            self._left.set()
            if follower.has_ended is not None:
                log.info("http_stream_cut", reason=follower.has_ended)


class _Endpoint:
    """One handler as an ASGI application: whatever it refuses is an answer in JSON."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        try:
            await self._handler(request, send)
        except Refused as exc:
            log.info("http_request_refused", status=exc.status, reason=exc.code)
            await JSONResponse(exc.body, exc.status, exc.headers)(scope, receive, send)
        except Gone:
            log.info("http_client_left", reason="it left before it was answered")


async def _answer(request: Request, send: Send, content: dict[str, object]) -> None:
    response = JSONResponse(content, headers={"cache-control": "no-store"})
    await response(request.scope, request.receive, send)
