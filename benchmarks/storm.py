"""Ten thousand cuts in the middle of runs: how many views differ from the worker's afterwards."""

import random
import tempfile
import time
from pathlib import Path

import anyio

from benchmarks.report import machine
from roost.demo.daemon import a_daemon
from roost.home import RoostHome
from tests.support.storm import SETTINGS, Storm

CUTS = 10_000


async def measure(root: Path) -> None:
    home, project = RoostHome(root / "home"), root / "project"
    home.path.mkdir()
    project.mkdir()
    cuts = compared = conversations = 0
    wrong: list[str] = []
    chance = random.Random(11)
    async with a_daemon(home, **SETTINGS) as daemon:
        while cuts < CUTS:
            conversations += 1
            name = f"storm-{conversations}"
            storm = Storm(daemon, str(project), name, CUTS - cuts, chance)
            await storm.run(clients=20, runs=100)
            cuts += storm.cuts
            compared += storm.runs_compared
            wrong += storm.wrong
    print(f"cuts: {cuts:,}, in {conversations} conversations; views compared: {compared:,}")
    print(f"views that lost or doubled something: {len(wrong)}")
    for what in wrong[:5]:
        print(f"  {what}")


def main() -> None:
    print(machine())
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, Path(folder).resolve())
    print(f"took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
