"""The daemon of the tour: a real process in a temporary home, started and ended here."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process

from roost.demo.client import NotAsPromised
from roost.home import RoostHome

_START_TIMEOUT = 60.0
_END_TIMEOUT = 60.0
_ANSWER_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class TourDaemon:
    """Where it listens, and what it says of itself."""

    process: Process
    port: int
    token: str
    socket: str

    async def threads(self) -> list[dict[str, Any]]:
        """Every thread that the daemon knows now."""
        status = await anyio.to_thread.run_sync(self._status)
        return list(status["threads"])

    async def until_status(
        self,
        conversation_id: str,
        wanted: str,
        where: Callable[[dict[str, Any]], bool] = lambda thread: True,
    ) -> dict[str, Any]:
        """Ask until the thread is in this state."""
        status = "unknown"
        with anyio.move_on_after(_START_TIMEOUT):
            while True:
                for thread in await self.threads():
                    if thread["conversation_id"] == conversation_id:
                        status = thread["status"]
                        if status == wanted and where(thread):
                            return thread
                await anyio.sleep(0.05)
        raise NotAsPromised(f"the daemon says that the thread is {status}")

    async def until_no_worker(self, conversation_ids: Collection[str]) -> None:
        """Ask until none of these threads has a worker."""
        running: list[str] = []
        with anyio.move_on_after(_START_TIMEOUT):
            while True:
                running = [
                    thread["conversation_id"]
                    for thread in await self.threads()
                    if thread["conversation_id"] in conversation_ids and thread["worker_pid"]
                ]
                if not running:
                    return
                await anyio.sleep(0.05)
        raise NotAsPromised(f"these have a worker still: {', '.join(running)}")

    async def end(self) -> int:
        """Stop it as `roost stop` does. Returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(_END_TIMEOUT):
            return await self.process.wait()

    def _status(self) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER_TIMEOUT)
        try:
            connection.request("GET", "/status", headers={"Authorization": f"Bearer {self.token}"})
            return dict(json.loads(connection.getresponse().read()))
        finally:
            connection.close()


@asynccontextmanager
async def a_daemon(home: RoostHome, **settings: str) -> AsyncGenerator[TourDaemon]:
    """Start a daemon and wait until it serves; whatever happens, it is gone afterwards.

    Settings are environment variables, such as `ROOST_LOGGING__LEVEL`.
    """
    # Settings of the person who looks on have no place in the tour.
    environ = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
    environ |= {"ROOST_HOME": str(home.path), "ROOST_BINDING__PORT": "0", **settings}
    with (home.path / "stderr").open("wb") as stderr:
        process = await anyio.open_process(
            [sys.executable, "-P", "-m", "roost", "daemon"],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    try:
        record = await _ready(home.daemon_json, process)
        yield TourDaemon(process, record["port"], home.token.read_text().strip(), record["socket"])
    finally:
        with anyio.move_on_after(_END_TIMEOUT, shield=True):
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def _ready(path: Path, process: Process) -> dict[str, Any]:
    """The file that a serving daemon has written."""
    with anyio.move_on_after(_START_TIMEOUT):
        while process.returncode is None:
            if await anyio.Path(path).exists():
                record = dict(json.loads(await anyio.Path(path).read_text()))
                # A daemon that was killed leaves its file behind.
                if record["pid"] == process.pid:
                    return record
            await anyio.sleep(0.01)
    raise NotAsPromised("the daemon did not come up")
