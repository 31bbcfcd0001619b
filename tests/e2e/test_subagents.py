"""Subagents at a real daemon: followed, answered, killed, many at once; nothing is left of them."""

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from roost.demo.client import TourClient
from tests.agui.real import PATIENCE, RealDaemon, a_real_daemon, end_of_run
from tests.support.judge import Recording, judged


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many processes on a busy machine: nothing here is asserted about time."""
    monkeypatch.setattr("roost.demo.client.STEP_TIMEOUT", 120.0)


def children_of(daemon: RealDaemon, parent: str = "parent") -> list[str]:
    return [v.conversation_id for v in daemon.registry.views() if v.parent == parent]


async def row(
    client: TourClient, label: str, status: str, since: int = 0, activity: str | None = None
) -> dict[str, Any]:
    """What the parent's state says of a child, once it has this status."""
    found: list[dict[str, Any]] = []

    def has_it(event: dict[str, Any]) -> bool:
        for step in event["delta"]:
            if step["path"].startswith("/subagents"):
                value = step["value"]
                rows = value.values() if step["path"] == "/subagents" else [value]
                found.extend(
                    r
                    for r in rows
                    if (r["label"], r["status"]) == (label, status)
                    and activity in (None, r["activity"])
                )
        return bool(found)

    await client.until("STATE_DELTA", since=since, where=has_it)
    return found[-1]


def recording(name: str, client: TourClient) -> Recording:
    """What a client was sent from its one open on."""
    kinds = [event["type"] for event in client.events]
    return Recording.of(name, client.events[kinds.index("MESSAGES_SNAPSHOT") :])


async def test_an_approval_is_given_at_the_childs_thread_and_nowhere_else(tmp_path: Path) -> None:
    async with (
        a_real_daemon(tmp_path) as daemon,
        daemon.client() as person,
        daemon.client() as other,
    ):
        await daemon.follows(person, "parent")
        mark = await person.say("delegate run echo yes > made.txt", "m1")
        waiting = await row(person, "run echo yes > made.txt", "waiting", mark)
        interrupt = waiting["interrupts"][0]["id"]
        assert children_of(daemon) == [waiting["threadId"]]
        noted = person.events.index(await end_of_run(person, mark)) + 1
        await daemon.follows(other, waiting["threadId"])
        await other.until("RUN_FINISHED", since=0)
        start = len(other.events)
        await other.answer(interrupt, "resolved")
        report = await other.until("CUSTOM", since=start)
        assert report["name"] == "subagent_turn"
        assert report["value"]["success"]
        assert report["value"]["stats"]["tools_succeeded"] == 1
        await row(person, "run echo yes > made.txt", "idle", mark)
        assert (daemon.project / "made.txt").read_text() == "yes\n"
        await end_of_run(other, start)
        # The note that the child has ended gives its parent a run of its own.
        await end_of_run(person, noted)
        recordings = [recording("parent", person), recording("child", other)]
        assert set(judged(*recordings)) == {"parent", "child"}


async def test_a_worker_killed_in_a_turn_is_a_failure_that_its_parent_reads(tmp_path: Path) -> None:
    async with a_real_daemon(tmp_path) as daemon, daemon.client() as person:
        await daemon.follows(person, "parent")
        mark = await person.say("delegate slow 1000", "m1")
        await row(person, "slow 1000", "running", mark, activity="writes")
        (child,) = children_of(daemon)
        pid = _pid(daemon, child)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await row(person, "slow 1000", "idle", mark)
        await person.until(
            ("RUN_STARTED", "TEXT_MESSAGE_CONTENT"),
            since=mark,
            where=lambda e: "[Subagent Failed: slow 1000]" in str(e),
        )


async def test_a_worker_killed_before_the_turn_begins_costs_nothing(tmp_path: Path) -> None:
    """The daemon tells of such an exit; the message is sent again to the next worker."""
    async with a_real_daemon(tmp_path) as daemon, daemon.client() as person:
        await daemon.follows(person, "parent")
        mark = await person.say("delegate think", "m1")
        await row(person, "think", "idle", mark)
        (child,) = children_of(daemon)
        pid = _pid(daemon, child)
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        mark = await person.say("tell think: think again", "m2")
        result = await person.until("TOOL_CALL_RESULT", since=mark)
        assert "has it" in result["content"]
        os.kill(pid, signal.SIGKILL)
        idle = await row(person, "think", "idle", mark)
        assert idle["turns"] == 2


async def test_twenty_at_once_and_one_more_is_refused(tmp_path: Path) -> None:
    async with (
        a_real_daemon(tmp_path, ROOST_SUBAGENTS__MAX_PARALLEL="20") as daemon,
        daemon.client() as person,
    ):
        await daemon.follows(person, "parent")
        tasks = " | ".join(f"think {n}" for n in range(20))
        mark = await person.say(f"delegate and wait: {tasks}", "m1")
        result = await person.until("TOOL_CALL_RESULT", since=mark)
        assert str(result["content"]).count("[Subagent Completed: think") == 20
        await end_of_run(person, mark)
        assert len(children_of(daemon)) == 20
        mark = await person.say(f"delegate {tasks} | think 21", "m2")
        refused = await person.until("TOOL_CALL_RESULT", since=mark)
        assert "subagents.max_parallel" in refused["content"]
        await end_of_run(person, mark)
        assert len(children_of(daemon)) == 20
        # Who deletes the parent's conversation stops all of it.
        pids = [v.worker_pid for v in daemon.registry.views() if v.worker_pid]
        await person.send(
            type="stop_thread", project_dir=str(daemon.project), id="parent", subagents=True
        )
        with anyio.fail_after(PATIENCE):
            while any(v.worker_pid for v in daemon.registry.views()):  # noqa: ASYNC110
                await anyio.sleep(0.05)
        assert len(pids) == 21
        assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


async def test_a_parent_that_was_killed_finds_its_children_again(tmp_path: Path) -> None:
    """They are the daemon's: they went on, and what they came to is not lost."""
    async with a_real_daemon(tmp_path) as daemon, daemon.client() as person:
        await daemon.follows(person, "parent")
        mark = await person.say("delegate run echo yes > made.txt", "m1")
        waiting = await row(person, "run echo yes > made.txt", "waiting", mark)
        await end_of_run(person, mark)
        pid = _pid(daemon, "parent")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with anyio.fail_after(PATIENCE):
            while _pid(daemon, "parent") == pid:  # noqa: ASYNC110
                await anyio.sleep(0.05)
        async with daemon.client() as other:
            await daemon.follows(other, waiting["threadId"])
            await other.until("RUN_FINISHED", since=0)
            start = len(other.events)
            await other.answer(waiting["interrupts"][0]["id"], "resolved")
            await end_of_run(other, start)
        async with daemon.client() as again:
            await daemon.follows(again, "parent")
            await again.until(
                ("RUN_STARTED", "TEXT_MESSAGE_CONTENT"),
                since=0,
                where=lambda e: "[Subagent Completed: run echo" in str(e),
            )


async def test_an_old_child_keeps_its_list_of_tools_whoever_opens_it(tmp_path: Path) -> None:
    """The daemon has forgotten the thread; its conversation has not."""
    async with a_real_daemon(tmp_path) as daemon, daemon.client() as person:
        await daemon.follows(person, "parent")
        mark = await person.say("delegate and wait: think", "m1")
        await end_of_run(person, mark)
        (child,) = children_of(daemon)
        await person.send(
            type="stop_thread", project_dir=str(daemon.project), id="parent", subagents=True
        )
        with anyio.fail_after(PATIENCE):
            while children_of(daemon):  # noqa: ASYNC110
                await anyio.sleep(0.05)
        await daemon.follows(person, child)
        mark = await person.say("run echo no > made.txt", "m2")
        result = await person.until("TOOL_CALL_RESULT", since=mark)
        assert "no tool of this subagent" in result["content"]


def _pid(daemon: RealDaemon, conversation_id: str) -> int | None:
    views = [v for v in daemon.registry.views() if v.conversation_id == conversation_id]
    return views[0].worker_pid if views else None
