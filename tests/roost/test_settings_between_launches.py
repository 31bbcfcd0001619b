"""Settings that change between two launches: the pad that has the old ones is replaced."""

import json
from pathlib import Path

import anyio
import pytest
from websockets.asyncio.client import connect

from roost.daemon.processes import find_processes
from tests.roost.conftest import PATIENCE, Machine

SETTINGS = {"ROOST_BINDING__TOKEN": "t"}


@pytest.fixture
def anyio_backend() -> str:
    """The client library runs on asyncio."""
    return "asyncio"


async def mode_of_a_new_worker(machine: Machine, project: Path, conversation: str) -> str:
    """What is in force there: the answer to a mode that there is not."""
    url = f"ws://127.0.0.1:{machine.record()['port']}/ws"
    async with connect(url, proxy=None, open_timeout=PATIENCE) as client:
        await client.send('{"type":"browser_hello","token":"t","protocol_version":2}')
        opening = {"project_dir": str(project), "id": conversation}
        await client.send(json.dumps({"type": "resume_conversation"} | opening))
        await client.send(json.dumps({"type": "set_mode", "mode": "none of ours"}))
        with anyio.fail_after(PATIENCE):
            while True:
                said = json.loads(await client.recv())
                if said["type"] == "mode":
                    return str(said["mode"])


async def another_warm_pad(machine: Machine, pid: int | None) -> int:
    """Wait for one; it says in the log that it is warm."""
    with anyio.fail_after(3 * PATIENCE):
        while True:
            for line in machine.log():
                if line["event"] == "launch_pad_warm" and line["launch_pad_pid"] != pid:
                    return int(line["launch_pad_pid"])
            await anyio.sleep(0.02)


async def test_the_next_worker_has_the_new_settings_and_the_next_pad_too(
    machine: Machine, tmp_path: Path
) -> None:
    """A worker with yesterday's mode would be a riddle to whoever has just changed it."""
    machine.home.path.mkdir()
    machine.home.config.write_text("agent:\n  mode: plan\n")
    machine.daemon(**SETTINGS)
    assert await mode_of_a_new_worker(machine, tmp_path, "a") == "plan"
    first = await another_warm_pad(machine, None)
    assert await mode_of_a_new_worker(machine, tmp_path, "b") == "plan"
    machine.home.config.write_text("agent:\n  mode: auto\n")
    # The old pad sees it when it is asked, and ends: this one is started afresh, that one forked.
    assert await mode_of_a_new_worker(machine, tmp_path, "c") == "auto"
    second = await another_warm_pad(machine, first)
    assert await mode_of_a_new_worker(machine, tmp_path, "d") == "auto"
    shown = find_processes(machine.home.path, machine.home.keepers)
    assert [p.pid for p in shown if p.role == "launch pad"] == [second]
