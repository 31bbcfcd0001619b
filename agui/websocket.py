"""The endpoint `/ws`: handshake, frames in, and one way out that every connection takes.

Decides the order of a connection's life. What frames mean is the registry's business, but for those
of the browser relay. Host and Origin were checked before (`agui.guard`).
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import structlog
from anyio.abc import TaskGroup

from agui.browser_frames import frame_id, frame_type
from agui.browser_relay import ExtensionRelay
from agui.hello import ACK, PROTOCOL_VERSION, BadHello, Hello, parse_hello
from agui.outbox import Outbox
from agui.panel.sign_in import SignIn
from agui.peers import Peers
from agui.settings import BindingSettings
from agui.text_frames import SharedEncoder
from agui.websocket_client import WebSocketClient
from agui.wire import open_wire
from sessions.domain.frames import browser_failed
from sessions.domain.keys import ThreadKey
from sessions.domain.ports import Threads

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

UNSUPPORTED_DATA = 1003
_TRY_AGAIN_LATER = 1013

log = structlog.get_logger()


class WebSocketEndpoint:
    """An ASGI application for WebSocket scopes. One object serves all connections."""

    def __init__(
        self,
        threads: Threads,
        settings: BindingSettings,
        relay: ExtensionRelay,
        peers: Peers,
        sign_in: SignIn | None = None,
    ) -> None:
        self._threads = threads
        self._relay = relay
        self._peers = peers
        self._sign_in = sign_in or SignIn()
        self._settings = settings
        self._encoder = SharedEncoder()
        self._clients: set[WebSocketClient] = set()
        self._connections = 0
        self._strangers = 0
        self._left = anyio.Event()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        self._connections += 1
        with structlog.contextvars.bound_contextvars(client_id=self._connections):
            try:
                await self._connection(scope, receive, send)
            except Exception:
                # The last stop of one connection's troubles: the others go on.
                log.exception("connection_failed")

    async def end_all(self) -> None:
        """End every stream: what waits is written, then it is closed. Returns after the last."""
        while self._clients:
            for client in self._clients:
                client.end()
            self._left = anyio.Event()
            await self._left.wait()

    def cut_ended_sessions(self) -> None:
        """Hang up on whoever's session of the panel has ended."""
        for client in tuple(self._clients):
            session = client.hello.session
            if session is not None and not self._sign_in.is_open(session):
                client.hang_up("its session has ended")

    def cut_all(self) -> None:
        """Hang up on whoever is still here."""
        for client in tuple(self._clients):
            client.hang_up("the daemon stopped and it did not read its last frames")

    async def _connection(self, scope: Message, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        if self._strangers >= self._settings.most_strangers:
            log.warning("connection_refused", reason="too many have not said hello yet")
            await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER})
            return
        await send({"type": "websocket.accept"})
        self._strangers += 1
        try:
            hello = await self._hello(receive)
            inside = hello.inside or await self._inside(scope)
            if hello.session is not None and not self._sign_in.is_open(hello.session):
                raise BadHello("its session has ended")
            if inside is not None and hello.kind == "extension":
                raise BadHello("a program inside a worker can't be the browser's extension")
        except BadHello as exc:
            # No frame, not even a close frame: whoever knocks learns nothing.
            log.warning("hello_refused", reason=str(exc))
            return
        finally:
            self._strangers -= 1
        if not hello.speaks_our_version:
            log.warning(
                "client_speaks_another_version",
                client_kind=hello.kind,
                client_version=hello.protocol_version,
                our_version=PROTOCOL_VERSION,
            )
        with structlog.contextvars.bound_contextvars(client_kind=hello.kind):
            await self._attached(hello, inside, scope, receive, send)

    async def _hello(self, receive: Receive) -> Hello:
        """The first frame, in time. Raises BadHello."""
        with anyio.move_on_after(self._settings.hello_timeout):
            message = await receive()
            text = message.get("text") if message["type"] == "websocket.receive" else None
            if text is None:
                raise BadHello("it left or sent something else before a hello")
            settings, worker_with = self._settings, self._threads.worker_with
            return parse_hello(text.encode(), settings.token, worker_with, self._sign_in.session_of)
        raise BadHello("no hello came in time")

    async def _inside(self, scope: Message) -> ThreadKey | None:
        """The thread inside whose worker the other end is. Raises BadHello."""
        address = scope.get("client")
        return None if address is None else await self._peers.inside(int(address[1]))

    async def _attached(
        self,
        hello: Hello,
        inside: ThreadKey | None,
        scope: Message,
        receive: Receive,
        send: Send,
    ) -> None:
        """From the welcome to the last frame; the registry forgets the client on every way out."""
        settings = self._settings
        client = WebSocketClient(
            hello,
            open_wire(scope, send, self._encoder, settings.write_timeout),
            Outbox(settings.outbox_frames, settings.outbox_bytes),
            anyio.CancelScope(),
            inside,
        )
        client.send(ACK)
        self._relay.join(client)
        self._clients.add(client)
        log.info("client_connected", inside=None if inside is None else inside.conversation_id)
        reason = "the connection was cut"
        try:
            with client.scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._farewell, client, send)
                    reason = await self._read(client, tasks, receive, send)
                    client.scope.cancel()
        finally:
            self._clients.discard(client)
            self._left.set()
            self._relay.leave(client)
            self._threads.detach(client)
            log.info("client_disconnected", reason=client.hung_up or reason)

    async def _read(
        self, client: WebSocketClient, tasks: TaskGroup, receive: Receive, send: Send
    ) -> str:
        """Hand every frame to whom it is for until the connection ends; answers why it did."""
        while True:
            message = await receive()
            if message["type"] != "websocket.receive":
                return f"closed with {message.get('code', 1005)}"
            text = message.get("text")
            if text is None:
                await _close(send, UNSUPPORTED_DATA)
                return "it sent a binary message"
            frame = text.encode()
            match frame_type(frame):
                case "browser_result":
                    self._relay.take_result(client, frame)
                case "browser_command" if client.hello.kind != "extension":
                    tasks.start_soon(self._run_in_browser, client, frame)
                    # The command takes its place in the queue before the next frame is read.
                    await anyio.lowlevel.checkpoint()
                case _:
                    self._threads.handle(client, frame)
            await client.wait_unclogged()

    async def _run_in_browser(self, client: WebSocketClient, command: bytes) -> None:
        """Answer a command of this client, and nobody else."""
        if client.inside is not None:
            # Its worker's tool asks a person first; this way nobody would.
            text = "a program inside a worker may not command the browser; its agent's tool may"
            client.send(browser_failed(frame_id(command), text))
        else:
            client.send(await self._relay.run(command, client))

    async def _farewell(self, client: WebSocketClient, send: Send) -> None:
        """Write until there is nothing left to write to this client, then close the stream."""
        await client.write_out()
        if client.hung_up is None:
            await _close(send, client.close_code)


async def _close(send: Send, code: int) -> None:
    # A client that is gone already is an OSError here, and no news.
    with suppress(OSError):
        await send({"type": "websocket.close", "code": code})
