"""From a worker's line to its clients: latency when paced, throughput under load.

Each figure stands beside the same for a bare relay, measured in the same run, and is taken twice:
with workers that are plain children of the daemon, as those of a bare relay are, and under keepers,
the default on Linux. "Per core" is frames delivered per second of the daemon's own processor time.
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
Measured = tuple[dict[str, Any], float]
WAYS = {"plain": {"ROOST_WORKER__OUTLIVES_DAEMON": "false"}, "kept": dict[str, str]()}
_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def run_clients(pid: int, port: int, token: str, clients: int, message: str) -> Measured:
    """What the clients saw, and the processor time that process took since all of them joined."""
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "benchmarks.relay_parts.clients"),
            *(str(port), token, str(clients), message),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout
        running.stdout.readline()
        before = processor_seconds(pid)
        said, _ = running.communicate("go\n", timeout=120)
        return dict(json.loads(said)), processor_seconds(pid) - before


def bare(clients: int, message: str) -> Measured:
    """The same for a bare relay."""
    relay = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.relay_parts.bare", str(clients), message],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert relay.stdout
    port = int(relay.stdout.readline())
    measured = run_clients(relay.pid, port, "-", clients, message)
    relay.wait(30)
    return measured


async def roost(home: RoostHome, way: str, clients: int, message: str) -> Measured:
    """The same for the daemon."""
    home.path.mkdir()
    worker = json.dumps([sys.executable, "-m", "benchmarks.relay_parts.worker"])
    settings = {
        "ROOST_WORKER__COMMAND": worker,
        "PYTHONPATH": str(Path.cwd()),
        # Nobody is to be cut for being slow here: what is measured is the daemon.
        "ROOST_BINDING__OUTBOX_FRAMES": "100000000",
        "ROOST_BINDING__OUTBOX_BYTES": "4000MiB",
        **WAYS[way],
    }
    async with a_daemon(home, **settings) as daemon:
        return await anyio.to_thread.run_sync(
            run_clients, daemon.process.pid, daemon.port, daemon.token, clients, message
        )


async def measure(root: Path) -> None:
    for clients, lines in ((3, 3000), (25, 3000), (100, 600)):
        await paced(root, clients, f"paced {lines} {1000 if clients < 100 else 200}")
    for clients, lines in ((3, 600_000), (10, 300_000), (25, 150_000), (100, 60_000)):
        await flooded(root, clients, f"flood {lines}")


async def paced(root: Path, clients: int, message: str) -> None:
    """Latency, and processor time a line, when lines come one by one."""
    _, lines, rate = message.split()
    ours = {way: _Paced() for way in WAYS}
    floor = _Paced()
    for number in range(ROUNDS):
        for way, found in ours.items():
            home = RoostHome(root / f"p{clients}-{number}-{way}")
            found.add(*await roost(home, way, clients, message), int(lines))
        floor.add(*bare(clients, message), int(lines))
    for way, found in ours.items():
        name = f"line to client, {rate} lines/s, {clients} clients, {way}"
        for what, unit in (("p50", "us"), ("p99", "us"), ("processor", "us a line")):
            values, base = getattr(found, what), getattr(floor, what)
            ratio = f"{median(values) / median(base):.2f} x a bare relay ({median(base):.0f})"
            figure(f"{name}, {what}", values, unit, ratio)


class _Paced:
    """What the rounds of one paced run measured."""

    def __init__(self) -> None:
        self.p50: list[float] = []
        self.p99: list[float] = []
        self.processor: list[float] = []

    def add(self, said: dict[str, Any], seconds: float, lines: int) -> None:
        latencies = sorted(said["latencies"])
        self.p50.append(latencies[len(latencies) // 2])
        self.p99.append(latencies[len(latencies) * 99 // 100])
        self.processor.append(max(seconds, 1 / _TICKS) / lines * 1e6)


async def flooded(root: Path, clients: int, message: str) -> None:
    """Frames delivered when the worker writes as fast as it can."""
    per_core: dict[str, list[float]] = {way: [] for way in WAYS}
    wall: dict[str, list[float]] = {way: [] for way in WAYS}
    bare_core: list[float] = []
    for number in range(ROUNDS):
        for way in WAYS:
            home = RoostHome(root / f"f{clients}-{number}-{way}")
            said, cpu = await roost(home, way, clients, message)
            per_core[way].append(said["frames"] / cpu)
            wall[way].append(said["frames"] / said["seconds"])
        said, cpu = bare(clients, message)
        bare_core.append(said["frames"] / cpu)
    for way in WAYS:
        ratio = f"{median(per_core[way]) / median(bare_core):.2f} x a bare relay"
        name = f"delivered frames, {clients} clients, {way}"
        figure(f"{name}, per core", per_core[way], "/s", ratio)
        figure(f"{name}, by the clock", wall[way], "/s")


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, Path(folder).resolve())


if __name__ == "__main__":
    main()
