"""A daemon on demand, for who has lost the race to start one."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from agent.infrastructure.process import process_start
from roost.daemon.lock import daemon_lock
from roost.daemon.run_file import DaemonRecord, RunFile
from roost.daemon.starting import DaemonUnreachable, OnDemand
from roost.home import RoostHome
from tests.support.time import virtual_time

pytestmark = virtual_time

RECORD = DaemonRecord(
    pid=os.getpid(),
    process_start=process_start(os.getpid()),
    started_at="2026-11-01T00:00:00+00:00",
    host="127.0.0.1",
    port=1,
    socket=None,
    version="1",
    protocol_version=2,
)


@dataclass(slots=True)
class Loser:
    """A daemon that finds another one's lock, and ends."""

    looked_at: anyio.Event = field(default_factory=anyio.Event)
    returncode: int = 1

    def poll(self) -> int:
        self.looked_at.set()
        return self.returncode


@pytest.fixture
def home(tmp_path: Path) -> RoostHome:
    return RoostHome(tmp_path / "home")


@pytest.fixture
def loser(monkeypatch: pytest.MonkeyPatch) -> Loser:
    found = Loser()

    def start(on_demand: OnDemand) -> Loser:
        return found

    monkeypatch.setattr(OnDemand, "_start", start)
    return found


async def test_who_lost_the_race_waits_for_a_winner_that_takes_long(
    home: RoostHome, loser: Loser
) -> None:
    """On a machine that is busy a daemon may take ten seconds from its lock to its run file."""
    run_file = RunFile(home.daemon_json)
    with daemon_lock(home.daemon_lock, run_file):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(OnDemand(home, {}).ensure)
            await loser.looked_at.wait()
            await anyio.sleep(10)
            run_file.write(RECORD)


async def test_a_winner_that_never_serves_is_not_waited_for_for_ever(
    home: RoostHome, loser: Loser
) -> None:
    began = anyio.current_time()
    with (
        daemon_lock(home.daemon_lock, RunFile(home.daemon_json)),
        pytest.raises(DaemonUnreachable, match="ended with 1"),
    ):
        await OnDemand(home, {}).ensure()
    assert 30 <= anyio.current_time() - began < 40


async def test_without_a_winner_the_end_is_told_soon(home: RoostHome, loser: Loser) -> None:
    with daemon_lock(home.daemon_lock, RunFile(home.daemon_json)):
        pass
    began = anyio.current_time()
    with pytest.raises(DaemonUnreachable, match="ended with 1"):
        await OnDemand(home, {}).ensure()
    assert anyio.current_time() - began < 10
