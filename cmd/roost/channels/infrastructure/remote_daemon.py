"""A daemon in another process, over its port: each line is a WebSocket of the binding.

The binding has no feed of all threads, so their views are asked for every few seconds. A daemon
that is gone is looked for again; what its lines knew comes with the next snapshot.
"""

import http.client
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, fields
from typing import Any, cast

import anyio
import structlog
from anyio import to_thread
from anyio.abc import TaskGroup
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import WebSocketException

from roost.channels.domain.ports import Line, Receive, Views
from roost.channels.infrastructure.find_daemon import Address
from roost.dialling import HelloRefused, dial
from sessions.domain.frames import resume_conversation
from sessions.domain.keys import ThreadKey
from sessions.domain.ports import ThreadView

_ANSWER_TIMEOUT = 10.0
_LONGEST_ANSWER = 16 * 2**20
# How many frames may wait to be written to the daemon; one that reads nothing is lost.
_MOST_WAITING = 256
_LOOK_EVERY = 2.0

log = structlog.get_logger()


@dataclass(slots=True)
class RemoteDaemon:
    """Implements `Daemon`."""

    locate: Callable[[], Address | None]
    """The daemon that runs now, if one does."""
    name: str
    """What the clients are called where they are shown to people."""
    _tasks: TaskGroup | None = None
    _views: Views = field(default_factory=Views)
    _watchers: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Owns the connections while the block runs. Needs asyncio: the client library does."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._look)
            try:
                yield
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    def follow(self, thread: ThreadKey, receive: Receive) -> Line:
        line = _RemoteLine(receive, self.name)
        if self._tasks is None:
            line.lose()
        else:
            self._tasks.start_soon(line.serve, self.locate, thread)
        return line

    def views(self) -> Views:
        return self._views

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        self._watchers.append(changed)

        def end() -> None:
            with suppress(ValueError):
                self._watchers.remove(changed)

        return end

    async def _look(self) -> None:
        was_there = True
        while True:
            address = self.locate()
            at, views = anyio.current_time(), None
            if address is not None:
                views = await to_thread.run_sync(_ask, address, abandon_on_cancel=True)
            if (views is not None) != was_there:
                was_there = views is not None
                log.info("daemon_found" if was_there else "daemon_lost")
            if views is not None:
                self._views = Views(views, at)
                for watcher in tuple(self._watchers):
                    watcher()
            await anyio.sleep(_LOOK_EVERY)


def _ask(address: Address) -> tuple[ThreadView, ...] | None:
    """Every thread's view; None when it does not answer."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=_ANSWER_TIMEOUT)
    try:
        headers = {"Authorization": f"Bearer {address.token}"}
        connection.request("GET", "/status", headers=headers)
        told: object = json.loads(connection.getresponse().read(_LONGEST_ANSWER))
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    threads = cast("dict[str, Any]", told).get("threads") if isinstance(told, dict) else None
    if not isinstance(threads, list):
        return None
    return tuple(map(_view, cast("list[Mapping[str, Any]]", threads)))


_VIEW_FIELDS = frozenset(member.name for member in fields(ThreadView)) - {"since", "cursor"}


def _view(shown: Mapping[str, Any]) -> ThreadView:
    """`since` is on the daemon's clock, which is not ours: it is left out."""
    members: dict[str, Any] = {name: shown[name] for name in _VIEW_FIELDS if name in shown}
    members |= {"interrupts": tuple(shown.get("interrupts") or ()), "since": 0.0}
    return ThreadView(**members)


@dataclass(slots=True, eq=False)
class _RemoteLine:
    receive: Receive | None
    name: str
    _waiting: list[bytes] = field(default_factory=list[bytes])
    _news: anyio.Event = field(default_factory=anyio.Event)
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def send(self, frame: bytes) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            self.lose()
        else:
            self._waiting.append(frame)
            self._news.set()

    def close(self) -> None:
        self.receive = None
        self._scope.cancel()

    def lose(self) -> None:
        receive, self.receive = self.receive, None
        self._scope.cancel()
        if receive is not None:
            receive(None)

    async def serve(self, locate: Callable[[], Address | None], thread: ThreadKey) -> None:
        """The connection's life. However it ends, the line is lost then."""
        try:
            with self._scope:
                address = locate()
                if address is not None:
                    await self._talk(address, thread)
        except (OSError, WebSocketException, HelloRefused, TimeoutError, ValueError) as exc:
            log.info("line_lost", reason=type(exc).__name__)
        finally:
            self.lose()

    async def _talk(self, address: Address, thread: ThreadKey) -> None:
        named = {"name": self.name}
        async with dial(address.host, address.port, address.token, attributes=named) as socket:
            opening = resume_conversation(thread.project_dir, thread.conversation_id)
            await socket.send(opening.decode())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write, socket)
                async for frame in socket:
                    if self.receive is not None:
                        self.receive(frame.encode() if isinstance(frame, str) else frame)
                tasks.cancel_scope.cancel()

    async def _write(self, socket: ClientConnection) -> None:
        while True:
            self._news = anyio.Event()
            while self._waiting:
                await socket.send(self._waiting.pop(0).decode())
            await self._news.wait()
