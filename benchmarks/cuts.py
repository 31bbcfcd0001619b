"""Ten thousand cuts: three clients on live runs behind a proxy that cuts, stalls, splits, joins.

In the end every client has to show what was said, to the letter: 0 lost, 0 doubled. The cuts are
split over sessions, each drawn from a seed of its own, with small and large limits.

    python -m benchmarks.cuts [cuts] [first seed]
"""

import math
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import structlog

from benchmarks.report import machine
from tests.support.cut_storm import CutStorm

# Short ones, so that what is compared, and copied at each return, stays small.
CUTS_OF_A_SESSION = 50
AT_ONCE = 4


async def measure(folder: Path, seeds: range, ended: list[CutStorm]) -> None:
    """Let so many sessions rage, some at once."""
    left: Iterator[int] = iter(seeds)

    async def in_turn() -> None:
        for seed in left:
            room = folder / str(seed)
            room.mkdir()
            storm = CutStorm(room, seed, CUTS_OF_A_SESSION)
            await storm.rage()
            ended.append(storm)
            for what in storm.wrong:
                print(f"  seed {seed}: {what[:500]}", flush=True)

    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(in_turn)


def main(cuts: int, first: int) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    print(machine(), flush=True)
    seeds = range(first, first + math.ceil(cuts / CUTS_OF_A_SESSION))
    ended: list[CutStorm] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="roost-cuts-") as folder:
        anyio.run(measure, Path(folder), seeds, ended)
    print(
        f"{sum(storm.cuts for storm in ended):,} cuts of three clients, {len(ended)} sessions"
        f" (seeds {seeds.start} to {seeds.stop - 1}), in {time.monotonic() - began:,.0f} s:"
        f" {sum(storm.snapshots for storm in ended):,} returns by snapshot,"
        f" {sum(len(storm.wrong) for storm in ended)} views that lost or doubled something"
    )
    if any(storm.wrong for storm in ended):
        sys.exit(1)


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 10_000,
        int(sys.argv[2]) if len(sys.argv) > 2 else 0,
    )
