"""A client of the tour: one WebSocket to the daemon, and all that it was ever sent."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from roost.dialling import dial

Event = dict[str, Any]

# A worker's first answer takes well under a second; on a machine that is busy it may take long.
STEP_TIMEOUT = 60.0


class NotAsPromised(Exception):
    """A step of the tour did not go as roost promises. The message says what was seen instead."""


@dataclass(slots=True)
class TourClient:
    """Speaks the binding's protocol as a desktop app does."""

    name: str
    socket: ClientConnection
    frames: list[str] = field(default_factory=list[str])
    events: list[Event] = field(default_factory=list[Event])
    _grown: anyio.Event = field(default_factory=anyio.Event)

    async def send(self, **frame: Any) -> None:
        await self.socket.send(json.dumps(frame))

    async def open(self, project_dir: str, conversation_id: str) -> Event:
        """Open a thread; returns its snapshot."""
        mark = len(self.events)
        await self.send(type="resume_conversation", project_dir=project_dir, id=conversation_id)
        return await self.until("MESSAGES_SNAPSHOT", since=mark)

    async def say(self, text: str, message_id: str) -> int:
        """Send a message. Returns the mark from which on its events come."""
        mark = len(self.events)
        message = {"id": message_id, "role": "user", "content": text}
        await self.send(type="run_agent_input", input={"messages": [message]})
        return mark

    async def answer(self, interrupt_id: str, status: str) -> None:
        """Approve (`resolved`) or decline (`cancelled`) what waits."""
        entry = {"interruptId": interrupt_id, "status": status}
        await self.send(type="run_agent_input", input={"messages": [], "resume": [entry]})

    async def until(
        self,
        kind: str | tuple[str, ...],
        *,
        since: int,
        where: Callable[[Event], bool] = lambda event: True,
    ) -> Event:
        """The first event of these types from a mark on. Raises NotAsPromised if it never comes."""
        kinds = (kind,) if isinstance(kind, str) else kind
        with anyio.move_on_after(STEP_TIMEOUT):
            while True:
                for event in self.events[since:]:
                    if event["type"] in kinds and where(event):
                        return event
                    if event["type"] == "RUN_ERROR" and "RUN_ERROR" not in kinds:
                        raise NotAsPromised(f"{self.name} was told: {event['message']}")
                await self._grown.wait()
        seen = [event["type"] for event in self.events[since:]]
        raise NotAsPromised(f"{self.name} waited for {kind} and got {seen[-12:] or 'nothing'}")

    def cut(self) -> None:
        """Lose the connection without a word, as a closed lid does."""
        self.socket.transport.abort()

    async def read(self) -> None:
        """Take in what comes until the connection ends."""
        try:
            async for frame in self.socket:
                assert isinstance(frame, str)
                self.frames.append(frame)
                self.events.append(json.loads(frame))
                grown, self._grown = self._grown, anyio.Event()
                grown.set()
        except ConnectionClosed:
            return


@asynccontextmanager
async def connected(name: str, port: int, token: str) -> AsyncGenerator[TourClient]:
    """A client that has said hello, and reads."""
    async with dial("127.0.0.1", port, token) as socket:
        client = TourClient(name, socket)
        async with anyio.create_task_group() as reading:
            reading.start_soon(client.read)
            try:
                yield client
            finally:
                reading.cancel_scope.cancel()
