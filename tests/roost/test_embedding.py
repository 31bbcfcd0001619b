"""Programs that embed roost, with real processes: the example, and a daemon that is killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest

from connection.events import ConnectionEvent, ConnectionStatus, SessionEvent, SessionResynced
from connection.shapes import RunOutcome
from roost import connect
from roost.daemon.run_file import RunFile, Running
from roost.daemon.starting import STARTED
from roost.home import RoostHome
from tests.roost.conftest import Machine

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "embed.py"
PATIENCE = 180.0


@pytest.fixture
def anyio_backend() -> str:
    """What a user runs."""
    return "asyncio"


@pytest.mark.parametrize("where", [(), ("--in-process",)])
def test_the_example_runs_with_either_adapter(
    machine: Machine, tmp_path: Path, where: tuple[str, ...]
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    done = subprocess.run(
        [sys.executable, EXAMPLE, "hello", *where],
        env=machine.environ,
        cwd=project,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "You said: hello." in done.stdout
    assert done.stdout.endswith("outcome: success\n")
    if not where:
        assert machine.run("stop")[0] == 0
    assert not machine.home.daemon_json.exists()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[RoostHome]:
    """A home in which daemons are started, and none is left."""
    found = RoostHome(tmp_path / "home")
    monkeypatch.setenv("ROOST_HOME", str(found.path))
    monkeypatch.setenv("ROOST_BINDING__PORT", "0")
    yield found
    left = RunFile(found.daemon_json).look()
    if isinstance(left, Running):
        os.kill(left.record.pid, signal.SIGTERM)
    for process in STARTED:
        process.wait(PATIENCE)


async def run_and_kill(
    home: RoostHome, project: Path, task: str
) -> tuple[RunOutcome, list[ConnectionEvent]]:
    """A run whose daemon is killed in the middle, with the client attached."""
    told: list[ConnectionEvent] = []
    killed = False

    def listen(event: ConnectionEvent) -> None:
        nonlocal killed
        told.append(event)
        is_word = isinstance(event, SessionEvent) and b'"delta":"' in event.event
        if is_word and not killed:
            killed = True
            os.kill(json.loads(home.daemon_json.read_text())["pid"], signal.SIGKILL)

    with anyio.fail_after(PATIENCE):
        async with connect(project) as agent:
            agent.subscribe(listen)
            outcome = await agent.prompt_and_wait(task)
            # The conversation goes on, whatever became of that run.
            assert (await agent.prompt_and_wait("hello")).outcome == "success"
            messages = [json.loads(bytes(m)) for m in await agent.get_messages()]
    users = [m["content"] for m in messages if m["role"] == "user"]
    assert users == [task, "hello"]
    statuses = [e.status for e in told if isinstance(e, ConnectionStatus)]
    assert statuses == ["reconnecting", "connected"]
    assert sum(isinstance(e, SessionResynced) for e in told) == 1
    return outcome, told


async def test_a_killed_daemon_is_started_again_and_the_run_goes_on_to_its_end(
    home: RoostHome, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    outcome, _ = await run_and_kill(home, project, "slow 30")
    assert outcome.outcome == "success"


async def test_where_workers_end_with_their_daemon_the_end_of_the_run_is_told_as_it_was(
    home: RoostHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody saw how it ended, so nothing else is claimed."""
    monkeypatch.setenv("ROOST_WORKER__OUTLIVES_DAEMON", "false")
    project = tmp_path / "project"
    project.mkdir()
    outcome, _ = await run_and_kill(home, project, "slow 600")
    assert outcome.outcome == "unknown"
