"""A daemon is killed while a subagent waits for a person: its parent follows it at the next one."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from websockets.asyncio.client import connect

from roost.demo.client import TourClient
from tests.roost.conftest import PATIENCE, Machine
from tests.support.ports import a_port_to_keep

TASK = "run echo yes > made.txt"


@pytest.fixture
def anyio_backend() -> str:
    """The client library runs on asyncio."""
    return "asyncio"


@asynccontextmanager
async def following(port: int, project: Path, thread: str) -> AsyncGenerator[TourClient]:
    url = f"ws://127.0.0.1:{port}/ws"
    async with connect(url, proxy=None, max_size=None, open_timeout=PATIENCE) as socket_:
        client = TourClient("desktop", socket_)
        await client.send(type="browser_hello", client="desktop", token="t", protocol_version=2)
        async with anyio.create_task_group() as reading:
            reading.start_soon(client.read)
            await client.send(type="resume_conversation", project_dir=str(project), id=thread)
            await client.until("MESSAGES_SNAPSHOT", since=0)
            yield client
            reading.cancel_scope.cancel()


def waiting_thread(event: dict[str, Any]) -> str | None:
    """The child that waits, by a patch of its parent's state."""
    for step in event["delta"]:
        value = step["value"]
        if step["path"].startswith("/subagents"):
            rows = value.values() if step["path"] == "/subagents" else [value]
            for row in rows:
                if row["status"] == "waiting":
                    return str(row["threadId"])
    return None


@pytest.mark.parametrize("outlives", ["true", "false"])
async def test_a_parent_follows_its_child_at_the_next_daemon(
    outlives: str, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With keepers both go on; without, both end, and the child's question is still on disk."""
    monkeypatch.setattr("roost.demo.client.STEP_TIMEOUT", 180.0)
    project = tmp_path / "project"
    project.mkdir()
    # The workers dial the same address again, so it has to be the same one.
    port = a_port_to_keep()
    settings = {
        "ROOST_BINDING__TOKEN": "t",
        "ROOST_BINDING__PORT": str(port),
        "ROOST_WORKER__OUTLIVES_DAEMON": outlives,
    }
    daemon = machine.daemon(**settings)
    async with following(port, project, "parent") as person:
        mark = await person.say(f"delegate {TASK}", "m1")
        told = await person.until(
            "STATE_DELTA", since=mark, where=lambda e: bool(waiting_thread(e))
        )
        child = waiting_thread(told)
        assert child is not None
        await person.until("RUN_FINISHED", since=mark)
    daemon.kill()
    await anyio.to_thread.run_sync(daemon.communicate)
    machine.daemon(**settings)
    async with following(port, project, "parent") as person:
        async with following(port, project, child) as other:
            asked = await other.until("RUN_FINISHED", since=0)
            await other.answer(asked["outcome"]["interrupts"][0]["id"], "resolved")
        await person.until(
            ("RUN_STARTED", "TEXT_MESSAGE_CONTENT"),
            since=0,
            where=lambda e: f"[Subagent Completed: {TASK}]" in str(e),
        )
    assert (project / "made.txt").read_text() == "yes\n"
