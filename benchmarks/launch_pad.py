"""Launching our own worker from a warm pad, beside fresh interpreters, in one run."""

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

from benchmarks.report import figure, machine
from roost.daemon.processes import find_processes
from roost.demo.client import TourClient, connected
from roost.demo.daemon import TourDaemon, a_daemon
from roost.home import RoostHome

ROUNDS = 15
AT_ONCE = 20
IDLE = 50
WAYS = {
    "warm pad": {},
    "fresh, under a keeper": {"ROOST_WORKER__LAUNCH_PAD": "false"},
    "fresh, plain": {"ROOST_WORKER__OUTLIVES_DAEMON": "false"},
}


async def one(client: TourClient, project: Path) -> float:
    """Milliseconds from `new_session` to its MESSAGES_SNAPSHOT."""
    mark = len(client.events)
    began = time.perf_counter()
    await client.send(type="new_session", project_dir=str(project))
    await client.until("MESSAGES_SNAPSHOT", since=mark)
    return (time.perf_counter() - began) * 1000


async def stop_all(daemon: TourDaemon, client: TourClient) -> None:
    for thread in await daemon.threads():
        frame = {"type": "stop_thread", "project_dir": thread["project_dir"]}
        await client.socket.send(json.dumps(frame | {"id": thread["conversation_id"]}))
    while any(t["worker_pid"] for t in await daemon.threads()):
        await anyio.sleep(0.02)


async def warm(home: RoostHome) -> None:
    """Wait until the log says so."""
    with anyio.fail_after(60):
        while not any("launch_pad_warm" in f.read_text() for f in home.logs.glob("*.log")):
            await anyio.sleep(0.05)


async def measure(root: Path, way: str) -> None:
    home = RoostHome(root / "home")
    home.path.mkdir(parents=True)
    project = root / "project"
    project.mkdir()
    async with (
        a_daemon(home, **WAYS[way]) as daemon,
        connected("one", daemon.port, daemon.token) as client,
    ):
        first = await one(client, project)
        if not WAYS[way]:
            await warm(home)
        times: list[float] = []
        for _ in range(ROUNDS):
            times.append(await one(client, project))
            await stop_all(daemon, client)
        figure(f"{way}: launch to MESSAGES_SNAPSHOT", times, "ms", f"the first: {first:.0f} ms")
        last: list[float] = []
        for _ in range(3):
            last.append(await at_once(daemon, project))
            await stop_all(daemon, client)
        figure(f"{way}: {AT_ONCE} at once, the last one's snapshot", last, "ms")
        count = IDLE if not WAYS[way] else 10
        await memory(daemon, home, project, way, count)


async def at_once(daemon: TourDaemon, project: Path) -> float:
    times: list[float] = []

    async def launch() -> None:
        async with connected("one of many", daemon.port, daemon.token) as client:
            times.append(await one(client, project))

    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(launch)
    return max(times)


async def memory(daemon: TourDaemon, home: RoostHome, project: Path, way: str, count: int) -> None:
    """PSS of idle workers, each with its keeper."""
    async with connected("opener", daemon.port, daemon.token) as client:
        for _ in range(count):
            await one(client, project)
        await anyio.sleep(2)
        if way == "fresh, plain":
            pids = [t["worker_pid"] for t in await daemon.threads() if t["worker_pid"]]
            total = sum(_pss(pid) for pid in pids)
        else:
            shown = find_processes(home.path, home.keepers)
            total = sum(p.memory_bytes or 0 for p in shown) / 2**20
        print(f"{way}: PSS of {count} idle workers, keepers and pad: {total / count:.1f} MB each")


def _pss(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(machine())
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            arguments: tuple[Any, ...] = (Path(folder).resolve(), way)
            anyio.run(measure, *arguments)


if __name__ == "__main__":
    main()
