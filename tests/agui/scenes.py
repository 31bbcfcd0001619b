"""A running binding on a free port, with a fake registry behind it, and clients that dial it."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import anyio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from agui.browser_relay import ExtensionRelay
from agui.server import Binding, listen
from agui.settings import BindingSettings
from agui.uvicorn_protocol import BindingWebSocket
from agui.websocket_client import WebSocketClient
from agui.wire import TransportWire
from sessions.domain.ports import Client
from tests.agui.fakes import FakeThreads
from tests.support.time import later

MIB = 2**20
TOKEN = "t0ken-t0ken"
ACK = '{"type":"browser_hello_ack","protocol_version":2}'
NO_EXTENSION = '{"type":"browser_extension_status","connected":false,"protocol_version":1}'


@dataclass(frozen=True, slots=True)
class Scene:
    port: int
    threads: FakeThreads
    relay: ExtensionRelay

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    @asynccontextmanager
    async def dial(self, **options: Any) -> AsyncGenerator[ClientConnection]:
        """A connection that has said nothing yet."""
        defaults: dict[str, Any] = {
            "compression": None,
            "max_size": None,
            "proxy": None,
            "ping_interval": None,
            "open_timeout": 120,
            "close_timeout": 0.2,
        }
        async with connect(self.url, **(defaults | options)) as socket:
            yield socket

    @asynccontextmanager
    async def client(
        self, kind: str = "desktop", **options: Any
    ) -> AsyncGenerator[ClientConnection]:
        """A connection whose hello was answered."""
        async with self.dial(**options) as socket:
            await socket.send(hello(client=kind, extension_version="1.2.3"))
            assert await said(socket) == ACK
            if kind != "extension":
                assert json.loads(await said(socket))["type"] == "browser_extension_status"
            yield socket

    async def known(self, socket: ClientConnection) -> Client:
        """The client that the registry sees behind a connection."""
        mark = json.dumps({"type": "mark", "of": id(socket)})
        await socket.send(mark)
        await self.threads.wait_for(lambda: mark.encode() in self.threads.frames)
        return next(c for c, frame in self.threads.handled if frame == mark.encode())


def hello(**members: Any) -> str:
    """A good hello, with members changed; those set to None are left out."""
    full: dict[str, Any] = {"type": "browser_hello", "token": TOKEN, "protocol_version": 2}
    return json.dumps({k: v for k, v in (full | members).items() if v is not None})


async def said(socket: ClientConnection) -> str:
    """The next frame, in time."""
    with anyio.fail_after(120):
        return cast(str, await socket.recv())


async def closing(socket: ClientConnection) -> tuple[list[str], int | None]:
    """Everything that still comes, and the code the server closed with (None: without a frame)."""
    frames: list[str] = []
    with anyio.fail_after(120):
        while True:
            try:
                frames.append(cast(str, await socket.recv()))
            except ConnectionClosed as exc:
                return frames, exc.rcvd.code if exc.rcvd else None


def _connection_of(client: Client) -> BindingWebSocket:
    assert isinstance(client, WebSocketClient)
    assert isinstance(client.wire, TransportWire)
    return client.wire.connection


async def pinged(client: Client, interval: float) -> None:
    """Let so much time pass, and with it the server's next ping go out."""
    connection = _connection_of(client)
    before = connection.ping_sent_at
    later(interval)
    while connection.ping_sent_at == before:  # noqa: ASYNC110 (the server library tells nobody)
        await anyio.sleep(0.001)


async def answered(client: Client) -> None:
    """Wait for the answer to a ping."""
    connection = _connection_of(client)
    while connection.pending_ping_payload is not None:  # noqa: ASYNC110
        await anyio.sleep(0.001)


@asynccontextmanager
async def binding(threads: FakeThreads | None = None, **changed: Any) -> AsyncGenerator[Scene]:
    threads = threads or FakeThreads()
    settings = replace(BindingSettings(token=TOKEN, port=0, hello_timeout=60.0), **changed)
    relay = ExtensionRelay(longest_result=MIB)
    with listen(settings.port) as listener:
        async with Binding(threads, settings, "9.9.9", relay).serving(listener) as port:
            yield Scene(port, threads, relay)
