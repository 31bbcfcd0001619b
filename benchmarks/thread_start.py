"""A new thread: from `new_session` to its MESSAGES_SNAPSHOT, with our own worker."""

import json
import os
import tempfile
import time
from pathlib import Path

import anyio

from benchmarks.report import figure, machine
from roost.demo.client import connected
from roost.demo.daemon import a_daemon
from roost.home import RoostHome

ROUNDS = 15


async def measure(root: Path) -> list[float]:
    home = RoostHome(root / "home")
    home.path.mkdir()
    project = root / "project"
    project.mkdir()
    times: list[float] = []
    async with a_daemon(home) as daemon:
        for _ in range(ROUNDS + 1):
            async with connected("one", daemon.port, daemon.token) as client:
                mark = len(client.events)
                began = time.perf_counter()
                await client.send(type="new_session", project_dir=str(project))
                await client.until("MESSAGES_SNAPSHOT", since=mark)
                times.append((time.perf_counter() - began) * 1000)
                (name,) = {t["conversation_id"] for t in await daemon.threads() if t["followers"]}
                frame = {"type": "stop_thread", "project_dir": str(project), "id": name}
                await client.socket.send(json.dumps(frame))
                await daemon.until_status(name, "stopped")
    return times[1:]


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        times = anyio.run(measure, Path(folder).resolve())
    figure("new thread, new_session to MESSAGES_SNAPSHOT", times, "ms", "aim: 900")


if __name__ == "__main__":
    main()
