"""A storm of cuts: clients that lose their connection at random moments of runs, and come back.

After each run a client compares what it shows with what the worker says it must show.
"""

import json
import random
import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from agui.stream.reducer import Reducer, Unplaceable
from roost.demo.daemon import TourDaemon
from tests.support.agui_model import Verifier, Violation, nothing_held
from tests.support.storm_digest import digest_of

WORKER = shlex.join([sys.executable, "-m", "tests.support.workers.storm"])
SETTINGS = {"ROOST_WORKER__COMMAND": WORKER, "PYTHONPATH": str(Path(__file__).parents[2])}


@dataclass(slots=True)
class Storm:
    """What happened so far, over all clients."""

    daemon: TourDaemon
    project: str
    conversation: str
    cuts_wanted: int
    random: random.Random
    cuts: int = 0
    runs_compared: int = 0
    wrong: list[str] = field(default_factory=list[str])
    over: anyio.Event = field(default_factory=anyio.Event)

    async def run(self, clients: int, runs: int) -> None:
        """Let the clients loose, and return when the worker has said all."""
        async with anyio.create_task_group() as tasks:
            for _ in range(clients):
                tasks.start_soon(self._client)
            tasks.start_soon(self._start, runs)
            await self.over.wait()
            tasks.cancel_scope.cancel()

    async def _start(self, runs: int) -> None:
        async with self._connected() as socket:
            content = {"id": "go", "role": "user", "content": f"storm {runs}"}
            await _send(socket, type="run_agent_input", input={"messages": [content]})
            await self._watch(socket)
        # One that did not keep up was cut off as anybody is.
        while not self.over.is_set():
            async with self._connected() as socket:
                await self._watch(socket)

    async def _watch(self, socket: ClientConnection) -> None:
        """Until the connection ends, or the worker has said all, which it says at an open, too."""
        with suppress(ConnectionClosed):
            async for frame in socket:
                if json.loads(frame)["type"] == "storm_over":
                    self.over.set()
                    return

    async def _client(self) -> None:
        while not self.over.is_set():
            # Some leave after a few events, some stay for whole runs.
            stays = self.random.choice([1, 3, 10, 40, 150])
            async with self._connected() as socket:
                await self._follow(socket, self.random.randint(1, stays))
                if self.cuts < self.cuts_wanted:
                    self.cuts += 1
                socket.transport.abort()

    async def _follow(self, socket: ClientConnection, events: int) -> None:
        shown, verifier = nothing_held(), Verifier()
        began = False
        try:
            async for frame in socket:
                event = json.loads(frame)
                if event["type"] == "storm_over":
                    return
                if event["type"] == "MESSAGES_SNAPSHOT":
                    shown, began = nothing_held(), True
                elif not began:
                    continue
                self._take(shown, verifier, event, frame)
                events -= 1
                if events <= 0 and self.cuts < self.cuts_wanted:
                    return
        except ConnectionClosed:
            return

    def _take(
        self, shown: Reducer, verifier: Verifier, event: dict[str, Any], frame: str | bytes
    ) -> None:
        try:
            shown.take(frame.encode() if isinstance(frame, str) else frame)
            if event["type"].isupper() and event["type"] != "MESSAGES_SNAPSHOT":
                verifier.feed(event)
        except (Violation, Unplaceable) as exc:
            self.wrong.append(str(exc))
        if event["type"] == "RUN_FINISHED":
            self.runs_compared += 1
            if digest_of(shown) != event["result"]:
                self.wrong.append(f"after {event['runId']} another view than the worker's")

    def _connected(self) -> "_Following":
        return _Following(self)


class _Following:
    """A connection that has said hello and opened the thread."""

    def __init__(self, storm: Storm) -> None:
        self._storm = storm
        url = f"ws://127.0.0.1:{storm.daemon.port}/ws"
        self._connect = connect(url, max_size=None, proxy=None, open_timeout=60, close_timeout=0.1)

    async def __aenter__(self) -> ClientConnection:
        socket = await self._connect.__aenter__()
        storm = self._storm
        hello = {"type": "browser_hello", "client": "desktop", "protocol_version": 2}
        await _send(socket, **hello, token=storm.daemon.token)
        opening = {"type": "resume_conversation", "project_dir": storm.project}
        await _send(socket, **opening, id=storm.conversation)
        return socket

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._connect.__aexit__(kind, exc, trace)


async def _send(socket: ClientConnection, **frame: Any) -> None:
    await socket.send(json.dumps(frame))
