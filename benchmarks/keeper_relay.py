"""What a keeper costs a line, beside a plain pipe: throughput, and a paced line's way."""

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import anyio

from benchmarks.report import machine
from sessions.domain.keys import ConversationId, ThreadKey, ThreadOptions
from sessions.domain.ports import LaunchWorker
from sessions.infrastructure.subprocess_worker import SubprocessLauncher
from tests.support.keepers import ENVIRON, a_launcher

LINES = 1_000_000
PACED = 1500
ROUNDS = 5
FLOOD = f"""
import sys
line = b'{{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"' + b'x' * 140 + b'"}}\\n'
block = line * 320
sys.stdin.readline()
for _ in range({LINES} // 320):
    sys.stdout.buffer.write(block)
sys.stdout.buffer.flush()
sys.stdin.read()
"""
TICK = f"""
import os, sys, time
sys.stdin.readline()
for _ in range({PACED}):
    time.sleep(0.001)
    stamp = time.perf_counter_ns()
    os.write(1, b'{{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"%d"}}\\n' % stamp)
sys.stdin.read()
"""


async def flood(launch: LaunchWorker, thread: ThreadKey) -> float:
    """Lines a second."""
    async with launch(thread, ThreadOptions(), "t") as worker:
        worker.send(b"go")
        seen, began = 0, time.perf_counter()
        with anyio.CancelScope() as enough:

            def take(batch: Sequence[bytes]) -> None:
                nonlocal seen
                seen += len(batch)
                if seen >= LINES // 320 * 320:
                    enough.cancel()

            await worker.pump(take)
        return seen / (time.perf_counter() - began)


async def paced(launch: LaunchWorker, thread: ThreadKey) -> float:
    """The median way of a line, in microseconds."""
    ways: list[float] = []
    async with launch(thread, ThreadOptions(), "t") as worker:
        worker.send(b"go")
        with anyio.CancelScope() as enough:

            def take(batch: Sequence[bytes]) -> None:
                now = time.perf_counter_ns()
                ways.extend((now - int(line.rpartition(b":")[2][1:-2])) / 1000 for line in batch)
                if len(ways) >= PACED:
                    enough.cancel()

            await worker.pump(take)
    return statistics.median(ways)


async def measure(folder: Path) -> None:
    thread = ThreadKey(str(folder), ConversationId("c"))
    for name, program, unit in (("throughput", FLOOD, "lines/s"), ("a paced line", TICK, "us")):
        argv = (sys.executable, "-c", program)
        ways: dict[str, LaunchWorker] = {
            "plain pipe": SubprocessLauncher(argv=argv, environ=ENVIRON),
            "keeper": a_launcher(folder / "keepers", argv),
        }
        found: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, launch in ways.items():
                run = flood if program is FLOOD else paced
                found[way].append(await run(launch, thread))
        plain, kept = (statistics.median(found[way]) for way in ("plain pipe", "keeper"))
        print(f"{name}: plain pipe {plain:,.0f} {unit}, keeper {kept:,.0f} {unit} (medians)")
        if unit == "us":
            print(f"  a keeper adds {kept - plain:.0f} us a line (aim: at most 100)")
        else:
            print(f"  {kept / plain:.0%} of a plain pipe's (aim: at least 80 %)")


def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, Path(folder).resolve())


if __name__ == "__main__":
    main()
