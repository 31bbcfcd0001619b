"""OpenChild at the daemon: a thread below our own, over the WebSocket binding, with our own token.

The daemon runs the child's worker, so that people can follow and answer it; this is one more
client of that thread, which decides nothing. A connection that is lost is made again, for a while:
a daemon may restart, and a client that did not keep up is cut off on purpose.

websockets is imported with the first child: no worker starts slower for what it may never do.
"""

import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import msgspec

from agent.domain.lineage import ChildThread
from agent.domain.ports import Log
from agent.domain.subagents import Asked, Began, ChildLost, News, Settled
from agent.infrastructure.children.news import Event, Reader, decode_event, read_snapshot

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

# A launch may wait for others before it; the daemon itself gives up after 90 s.
_OPENING = 100.0
_DIALLING = 10.0
# How long a daemon may be away. Its threads are on disk: nothing is lost by waiting.
_AWAY = 60.0
_PAUSES = (0.1, 0.25, 0.5, 1.0, 2.0)
# After the snapshot of a thread that has a turn open, the turn follows at once.
_RESTATED = 2.0
_CLOSING = 1.0
# What the daemon's error is called when a worker ended that was given a message.
_WORKER_EXIT = "worker_exit"
# A message that met a worker that was just ending is sent again, which does no harm, since a
# conversation takes each id once. A worker that ends so often because of it gets it no more.
_MOST_REPEATS = 3
_LONGEST_FRAME = 256 * 2**20


@dataclass(frozen=True, slots=True)
class DaemonChildren:
    """Opens threads at one daemon. `token` is that of the worker we are in.

    `url` is asked for anew each time: a worker may outlive a daemon, and the next has another port.
    """

    url: Callable[[], str]
    token: str
    log: Log
    children_last: bool = True

    @asynccontextmanager
    async def __call__(
        self, thread: ChildThread, *, is_known: bool
    ) -> AsyncGenerator["DaemonChild"]:
        """Open the thread; leaving the block ends the connection. Raises ChildLost."""
        child = DaemonChild(self, thread)
        try:
            await child.open(is_known=is_known)
            yield child
        finally:
            await child.hang_up()


class DaemonChild:
    """One thread that is followed. Made by DaemonChildren."""

    def __init__(self, daemon: DaemonChildren, thread: ChildThread) -> None:
        self._daemon = daemon
        self._thread = thread
        self._socket: ClientConnection | None = None
        self._reader = Reader()
        self._news: deque[News] = deque()
        self._unheard: dict[str, str] = {}
        """Messages that no run has begun with yet."""
        self._repeats = 0
        """How often they were sent again."""
        self._is_left = False
        """The worker that they were given to is gone."""

    # The port

    async def send(self, message_id: str, text: str) -> None:
        """A run of its own, when it is busy now. Raises ChildLost."""
        self._unheard[message_id] = text
        await self._say_message(message_id, text)

    async def _say_message(self, message_id: str, text: str) -> None:
        message = {"id": message_id, "role": "user", "content": text}
        await self._say(
            type="run_agent_input",
            input={"messages": [message], "forwardedProps": {"roost.lane": "follow_up"}},
        )

    async def interrupt(self) -> None:
        await self._say(type="interrupt")

    async def stop(self) -> None:
        thread = self._thread
        with suppress(ChildLost):
            await self._say(
                type="stop_thread",
                project_dir=thread.project_dir,
                id=thread.conversation_id,
                subagents=True,
            )

    def __aiter__(self) -> AsyncIterator[News]:
        return self

    async def __anext__(self) -> News:
        """Raises ChildLost when the daemon stays away."""
        while not self._news:
            try:
                if self._is_left:
                    await self._send_again()
                event = await self._receive()
            except ChildLost:
                await self._come_back()
            else:
                self._take(event)
        return self._news.popleft()

    def _take(self, event: Event) -> None:
        if event.type == "RUN_STARTED":
            for message in event.input.messages:
                self._unheard.pop(message.id, None)
        elif event.type == "RUN_ERROR":
            may_repeat = bool(self._unheard) and self._repeats < _MOST_REPEATS
            self._is_left = event.code == _WORKER_EXIT and may_repeat
            if event.run_id is None:
                if self._is_left:
                    return
                # It was refused, and is told as failed: it must not run after that.
                self._unheard.clear()
        try:
            self._news += self._reader.take(event)
        except msgspec.MsgspecError:
            self._daemon.log("warning", "subagent_event_ignored", event_type=event.type[:80])

    async def _send_again(self) -> None:
        """Repeat what was said; it starts a worker, where there is none."""
        self._is_left = False
        self._repeats += 1
        self._daemon.log("info", "subagent_sent_again", thread=self._thread.conversation_id)
        for message_id, text in list(self._unheard.items()):
            await self._say_message(message_id, text)

    # Opening and closing

    async def open(self, *, is_known: bool) -> None:
        """Dial, say hello, open the thread, and wait for its snapshot. Raises ChildLost."""
        with anyio.move_on_after(_OPENING) as scope:
            await self._dial()
            await self._say(
                type="browser_hello",
                client="desktop",
                protocol_version=2,
                token=self._daemon.token,
            )
            await self._say(type="resume_conversation", **_options(self._thread))
            snapshot = await self._snapshot()
            said = read_snapshot(snapshot)
            for message_id in said.ids:
                self._unheard.pop(message_id, None)
            if self._unheard:
                self._is_left = True
            elif is_known:
                await self._find_out(said.last_text)
        if scope.cancelled_caught:
            raise ChildLost(f"Its thread did not open in {_OPENING:g} s.")

    async def hang_up(self) -> None:
        """End the connection; the thread goes on without us."""
        socket, self._socket = self._socket, None
        if socket is not None:
            with anyio.move_on_after(_CLOSING, shield=True):
                await socket.close()

    async def _dial(self) -> None:
        from websockets.asyncio.client import connect
        from websockets.exceptions import WebSocketException

        try:
            self._socket = await connect(
                self._daemon.url(),
                proxy=None,
                compression=None,
                max_size=_LONGEST_FRAME,
                open_timeout=_DIALLING,
                close_timeout=_CLOSING,
            )
        except (OSError, WebSocketException) as exc:
            raise ChildLost(f"The daemon could not be reached: {exc}.") from exc

    async def _snapshot(self) -> bytes:
        while True:
            event = await self._receive()
            if event.type == "MESSAGES_SNAPSHOT":
                return bytes(event.messages)
            if event.type == "RUN_ERROR":
                raise ChildLost(event.message)

    async def _find_out(self, text: str) -> None:
        """Where a child stands that was open before: its turn follows its snapshot, or none is."""
        with anyio.move_on_after(_RESTATED):
            while not self._news:
                self._take(await self._receive())
        if not any(isinstance(news, Began | Asked) for news in self._news):
            self._news.append(Settled(text))

    async def _come_back(self) -> None:
        """Make the connection again. Raises ChildLost when that can't be done in time."""
        self._daemon.log("info", "subagent_connection_lost", thread=self._thread.conversation_id)
        pauses = iter(_PAUSES)
        give_up = anyio.current_time() + _AWAY
        while True:
            await self.hang_up()
            try:
                self._reader = Reader()
                await self.open(is_known=True)
            except ChildLost:
                if anyio.current_time() >= give_up:
                    raise
                await anyio.sleep(next(pauses, _PAUSES[-1]))
            else:
                return

    # Frames

    async def _say(self, **frame: object) -> None:
        from websockets.exceptions import ConnectionClosed

        if self._socket is None:
            raise ChildLost("Its connection is being made again; try it in a moment.")
        try:
            await self._socket.send(json.dumps(frame))
        except ConnectionClosed as exc:
            raise ChildLost("Its connection was lost; try it in a moment.") from exc

    async def _receive(self) -> Event:
        """The next event that can be read. Raises ChildLost when the connection ends."""
        from websockets.exceptions import ConnectionClosed

        assert self._socket is not None
        while True:
            try:
                frame = await self._socket.recv(decode=False)
            except ConnectionClosed as exc:
                raise ChildLost("The daemon ended the connection.") from exc
            try:
                return decode_event(frame)
            except msgspec.MsgspecError:
                self._daemon.log("warning", "subagent_event_ignored", bytes=len(frame))


def _options(thread: ChildThread) -> dict[str, object]:
    """The thread's name and options; what is not given is left out."""
    lineage = thread.lineage
    options: dict[str, object | None] = {
        "project_dir": thread.project_dir,
        "id": thread.conversation_id,
        "model": thread.model,
        "mode": thread.mode,
        "custom_instructions": thread.instructions,
        "max_turns": thread.max_turns,
        "subagent": {
            "parent": lineage.parent,
            "depth": lineage.depth,
            "tools": lineage.tools,
        },
    }
    return {key: value for key, value in options.items() if value is not None}
