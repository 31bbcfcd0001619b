"""From a worker's line to its clients: latency when paced, throughput under load.

Each figure stands beside the same for a bare relay, measured in the same run. "Per core" is frames
delivered per second of the daemon's own processor time.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio

from benchmarks.report import figure, machine
from roost.demo.daemon import a_daemon
from roost.home import RoostHome

ROUNDS = 5
_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def run_clients(port: int, token: str, clients: int, message: str) -> dict[str, Any]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.relay_parts.clients"),
            *(str(port), token, str(clients), message),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return dict(json.loads(done.stdout))


def bare(clients: int, message: str) -> tuple[dict[str, Any], float]:
    """What the bare relay does, and the processor time it took."""
    relay = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.relay_parts.bare", str(clients), message],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert relay.stdout
    port = int(relay.stdout.readline())
    before = processor_seconds(relay.pid)
    said = run_clients(port, "-", clients, message)
    after = processor_seconds(relay.pid)
    relay.wait(30)
    return said, after - before


async def roost(home: RoostHome, clients: int, message: str) -> tuple[dict[str, Any], float]:
    """What the daemon does, and the processor time it took."""
    worker = json.dumps([sys.executable, "-m", "benchmarks.relay_parts.worker"])
    settings = {
        "ROOST_WORKER__COMMAND": worker,
        "PYTHONPATH": str(Path.cwd()),
        # Nobody is to be cut for being slow here: what is measured is the daemon.
        "ROOST_BINDING__OUTBOX_FRAMES": "100000000",
        "ROOST_BINDING__OUTBOX_BYTES": "4000MiB",
    }
    async with a_daemon(home, **settings) as daemon:
        pid = daemon.process.pid
        before = processor_seconds(pid)
        said = await anyio.to_thread.run_sync(
            run_clients, daemon.port, daemon.token, clients, message
        )
        return said, processor_seconds(pid) - before


async def measure(root: Path) -> None:
    for clients, message in ((3, "paced 3000 1000"), (10, "paced 3000 1000")):
        ours: list[float] = []
        floor: list[float] = []
        for number in range(ROUNDS):
            home = RoostHome(root / f"p{clients}-{number}")
            home.path.mkdir()
            ours.append(median((await roost(home, clients, message))[0]["latencies"]))
            floor.append(median(bare(clients, message)[0]["latencies"]))
        ratio = f"{median(ours) / median(floor):.2f} x a bare relay ({median(floor):.0f} us)"
        figure(f"line to client, 1,000 lines/s, {clients} clients", ours, "us", ratio)
    for clients, message in ((1, "flood 600000"), (10, "flood 300000"), (100, "flood 60000")):
        per_core: list[float] = []
        wall: list[float] = []
        bare_core: list[float] = []
        for number in range(ROUNDS):
            home = RoostHome(root / f"f{clients}-{number}")
            home.path.mkdir()
            said, cpu = await roost(home, clients, message)
            per_core.append(said["frames"] / cpu)
            wall.append(said["frames"] / said["seconds"])
            said, cpu = bare(clients, message)
            bare_core.append(said["frames"] / cpu)
        ratio = f"{median(per_core) / median(bare_core):.2f} x a bare relay"
        figure(f"delivered frames, {clients} clients, per core", per_core, "/s", ratio)
        figure(f"delivered frames, {clients} clients, by the clock", wall, "/s")


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, Path(folder).resolve())


if __name__ == "__main__":
    main()
