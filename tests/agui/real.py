"""The daemon's real parts in this process, built as it builds them: registry, relay, port."""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from websockets.asyncio.client import connect

from agui.browser_relay import ExtensionRelay
from agui.server import listen
from roost.daemon.channels import DaemonChannels
from roost.daemon.container import DaemonContainer
from roost.demo.client import Event, TourClient
from roost.home import RoostHome
from roost.settings import load_daemon
from sessions.registry import Registry
from tests.agui.scenes import TOKEN

# Real processes: a worker's start takes a second on a busy machine.
PATIENCE = 180.0


@dataclass(frozen=True, slots=True)
class RealDaemon:
    home: RoostHome
    project: Path
    port: int
    registry: Registry
    relay: ExtensionRelay
    channels: DaemonChannels

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    @asynccontextmanager
    async def client(self, kind: str = "desktop", **members: Any) -> AsyncGenerator[TourClient]:
        """A client of a kind that has said hello, and reads."""
        options: dict[str, Any] = {"max_size": None, "proxy": None, "ping_interval": None}
        async with connect(self.url, open_timeout=PATIENCE, **options) as socket:
            client = TourClient(kind, socket)
            hello = {"type": "browser_hello", "client": kind, "token": TOKEN}
            await client.send(**{**hello, "protocol_version": 2, **members})
            async with anyio.create_task_group() as reading:
                reading.start_soon(client.read)
                first = "browser_hello_ack" if kind == "extension" else "browser_extension_status"
                await client.until(first, since=0)
                try:
                    yield client
                finally:
                    reading.cancel_scope.cancel()

    async def follows(self, client: TourClient, id_: str = "c1", **options: Any) -> int:
        """Open a thread and wait for its snapshot. Returns the snapshot's place."""
        mark = len(client.events)
        await client.send(
            type="resume_conversation", project_dir=str(self.project), id=id_, **options
        )
        snapshot = await client.until("MESSAGES_SNAPSHOT", since=mark)
        return client.events.index(snapshot, mark)


async def end_of_run(client: TourClient, since: int, outcome: str = "success") -> Event:
    return await client.until(
        "RUN_FINISHED", since=since, where=lambda e: e["outcome"]["type"] == outcome
    )


async def settled(client: TourClient) -> None:
    """Everything that was on its way to this client has come: the worker answers in order."""
    mark = len(client.events)
    await client.send(type="command", id=f"settled-{mark}", name="ping")
    await client.until("command_result", since=mark)


@asynccontextmanager
async def a_real_daemon(tmp_path: Path, **settings: str) -> AsyncGenerator[RealDaemon]:
    home = RoostHome(tmp_path / "home")
    home.path.mkdir()
    project = tmp_path / "project"
    project.mkdir()
    environ = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
    environ |= {"ROOST_HOME": str(home.path), "ROOST_BINDING__TOKEN": TOKEN}
    environ |= {"ROOST_BINDING__HELLO_TIMEOUT": "60s", **settings}
    loaded = load_daemon(environ, home)
    container = DaemonContainer(
        home=home,
        worker=loaded.worker,
        binding_section=loaded.binding,
        telegram=loaded.telegram,
        agents=dict(loaded.agents),
        token=TOKEN,
        environ=environ,
        open_files=1024,
        socket=home.run / "daemon.sock",
    )
    registry = container.registry()
    with anyio.fail_after(PATIENCE), listen(0) as listener:
        environ["ROOST_BINDING__URL"] = f"ws://127.0.0.1:{listener.getsockname()[1]}/ws"
        async with registry.serving(), container.binding().serving(listener) as port:
            yield RealDaemon(home, project, port, registry, container.relay(), container.channels())
            registry.hurry()


def decoded(text: object) -> Any:
    """What a string that holds JSON holds; fails for anything but a string."""
    assert isinstance(text, str), text
    return json.loads(text)
