"""A thousand SIGKILLs over daemon, pad, keepers, workers and what these started: what is left?"""

import tempfile
import time
from pathlib import Path

from benchmarks.report import machine
from tests.support.kills import kill_at_random

KILLS = 1000


def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        killing = kill_at_random(Path(folder), KILLS, threads=6, seed=time.time_ns())
    kills = ", ".join(f"{count} of {role}" for role, count in sorted(killing.kills.items()))
    print(f"{sum(killing.kills.values())} kills in {time.monotonic() - began:.0f} s: {kills}")
    print("processes left: 0; bystanders hit: 0 (either would have ended this with an error)")
    print(
        f"longest without an owner, while a daemon lived: {killing.longest_orphan:.2f} s (aim: 5)"
    )


if __name__ == "__main__":
    main()
