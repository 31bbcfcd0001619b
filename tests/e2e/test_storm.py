"""Clients that are cut at random in the middle of runs lose nothing and see nothing twice."""

import random
from pathlib import Path

import anyio
import pytest

from roost.demo.daemon import a_daemon
from roost.home import RoostHome
from tests.support.storm import SETTINGS, Storm


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_cut_clients_show_what_the_worker_says_after_every_run(tmp_path: Path) -> None:
    home, project = RoostHome(tmp_path / "home"), tmp_path / "project"
    home.path.mkdir()
    project.mkdir()
    cuts = compared = conversations = 0
    with anyio.fail_after(300):
        async with a_daemon(home, **SETTINGS) as daemon:
            # On a busy machine clients come back so late that one conversation is not enough.
            while cuts < 100 or compared < 60:
                conversations += 1
                name = f"storm-{conversations}"
                storm = Storm(daemon, str(project), name, 200, random.Random(conversations))
                await storm.run(clients=10, runs=60)
                assert storm.wrong == []
                cuts += storm.cuts
                compared += storm.runs_compared
