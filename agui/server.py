"""The binding as a service: one loopback port, entered with `async with`, left in order.

Rules for editing: leaving closes the listener first, then ends the clients' streams, then stops
the server, each bounded, so that whoever stops the workers after it meets no client. uvicorn's own
signal handling is off, since signals are the daemon's. No await may stand between binding the
socket and the `async with` that closes it.
"""

import contextlib
import os
import socket
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import anyio
import structlog
import uvicorn

from agui.browser_relay import ExtensionRelay
from agui.guard import Application, Guard
from agui.http_app import HttpApp
from agui.panel.panel import Panel
from agui.peers import Peers
from agui.routes import Routes
from agui.security import Doorkeeper
from agui.settings import BindingSettings
from agui.status import StatusRoute
from agui.uvicorn_http import BindingHttp
from agui.uvicorn_protocol import BindingWebSocket
from agui.websocket import WebSocketEndpoint
from sessions.domain.ports import Threads

HOST = "127.0.0.1"

# The kernel hides this much (and as much again) of a client that does not read; with the default
# it would hide several megabytes before anybody noticed.
_SEND_BUFFER = 64 * 2**10
_BACKLOG = 128
_STOP_TIMEOUT = 3.0

log = structlog.get_logger()


class PortTaken(Exception):
    """The port can't be opened. The message names the address and what to do."""


def listen(port: int) -> socket.socket:
    """Open the loopback port; 0 picks a free one. Raises PortTaken."""
    # The protocol is named because asyncio looks at it: without it, accepted connections keep
    # Nagle's algorithm, and small events wait for the client's delayed acknowledgement.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        listener.bind((HOST, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as exc:
        listener.close()
        raise PortTaken(
            f"{HOST}:{port} can't be opened: {os.strerror(exc.errno or 0)}."
            " Stop what uses it, or set another port with ROOST_BINDING__PORT (0: a free one)"
        ) from exc
    return listener


class Binding:
    """Puts the registry behind the port."""

    def __init__(
        self,
        threads: Threads,
        settings: BindingSettings,
        version: str,
        relay: ExtensionRelay,
        panel: Panel | None = None,
    ) -> None:
        self._threads = threads
        self._relay = relay
        self._panel = panel
        self._settings = settings
        self._version = version
        self._farewells: anyio.CancelScope | None = None

    @asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncGenerator[int]:
        """Serve on the socket while the block runs; yields its port.

        Needs the asyncio event loop: the server library does.
        """
        port = int(listener.getsockname()[1])
        self._relay.listens_on(port)
        peers = Peers(self._threads, port)
        endpoint, http = self.endpoint(peers), self.http(peers)
        server = _Server(self._config(self.application(endpoint, http, port)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_serve, server, listener)
            try:
                yield port
            finally:
                with anyio.move_on_after(self._longest_stop, shield=True):
                    await self._stop(server, endpoint, http)
                tasks.cancel_scope.cancel()

    def hurry(self) -> None:
        """Wait no longer for clients to read their last frames."""
        if self._farewells is not None:
            self._farewells.cancel()

    def application(self, endpoint: WebSocketEndpoint, http: HttpApp, port: int) -> Application:
        """All that is served, behind the checks that everything passes."""
        return Guard(Routes(endpoint, http), Doorkeeper(port, self._settings.allowed_origins))

    def http(self, peers: Peers) -> HttpApp:
        status = StatusRoute(
            threads=self._threads,
            token=self._settings.token,
            version=self._version,
            pid=os.getpid(),
            started=time.monotonic(),
        )
        if self._panel is None:
            return HttpApp(self._threads, status, self._settings, peers)
        routes = partial(self._panel.routes, peers, self._settings.write_timeout)
        return HttpApp(self._threads, status, self._settings, peers, routes)

    def endpoint(self, peers: Peers) -> WebSocketEndpoint:
        sign_in = None if self._panel is None else self._panel.sign_in
        endpoint = WebSocketEndpoint(self._threads, self._settings, self._relay, peers, sign_in)
        if self._panel is not None:
            self._panel.serves(endpoint.cut_ended_sessions)
        return endpoint

    def _config(self, application: Application) -> uvicorn.Config:
        settings = self._settings
        http = partial(BindingHttp, settings.header_timeout, settings.most_strangers)
        return uvicorn.Config(
            application,
            http=cast("type[BindingHttp]", http),
            ws=BindingWebSocket,
            ws_max_size=self._settings.max_frame_bytes,
            ws_per_message_deflate=False,
            ws_ping_interval=self._settings.ping_interval,
            ws_ping_timeout=self._settings.ping_interval,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=1,
        )

    @property
    def _longest_stop(self) -> float:
        return self._settings.farewell_timeout + _STOP_TIMEOUT

    async def _stop(self, server: "_Server", endpoint: WebSocketEndpoint, http: HttpApp) -> None:
        server.close_listeners()
        if self._panel is not None:
            self._panel.feed.end()
        with anyio.move_on_after(self._settings.farewell_timeout) as self._farewells:
            await endpoint.end_all()
            await http.end_all()
        endpoint.cut_all()
        server.leave()
        await server.stopped.wait()


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers and its ten looks a second at whether it should stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stopped = anyio.Event()
        self._leave = anyio.Event()

    async def main_loop(self) -> None:
        await self._leave.wait()

    def leave(self) -> None:
        self.should_exit = True
        self._leave.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    def close_listeners(self) -> None:
        if self.started:
            for server in self.servers:
                server.close()


async def _serve(server: _Server, listener: socket.socket) -> None:
    try:
        await server.serve(sockets=[listener])
    finally:
        server.stopped.set()
