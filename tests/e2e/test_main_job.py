"""The main job on real processes: what followers record is judged by the published AG-UI client."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from roost.demo.client import TourClient, connected
from roost.demo.daemon import TourDaemon, a_daemon
from roost.home import RoostHome
from tests.support.judge import Recording, judged


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the binding's server is asyncio's, and the WebSocket client is


@dataclass(frozen=True, slots=True)
class Place:
    daemon: TourDaemon
    home: RoostHome
    project: Path

    @asynccontextmanager
    async def client(self, name: str) -> AsyncGenerator[TourClient]:
        async with connected(name, self.daemon.port, self.daemon.token) as client:
            yield client

    async def opens(self, client: TourClient, conversation: str = "c1") -> int:
        """Open the thread; returns where the recording of this open begins."""
        mark = len(client.events)
        snapshot = await client.open(str(self.project), conversation)
        return client.events.index(snapshot, mark)


@asynccontextmanager
async def a_place(tmp_path: Path, **settings: str) -> AsyncGenerator[Place]:
    home = RoostHome(tmp_path / "home")
    home.path.mkdir()
    project = tmp_path / "project"
    project.mkdir()
    with anyio.fail_after(300):
        async with a_daemon(home, **settings) as daemon:
            yield Place(daemon, home, project)


async def ended(client: TourClient, mark: int, outcome: str = "success") -> dict[str, Any]:
    """The end of a run, with this outcome."""
    return await client.until(
        "RUN_FINISHED", since=mark, where=lambda e: e["outcome"]["type"] == outcome
    )


async def asked(client: TourClient, mark: int) -> list[str]:
    """The ids of what a run ended by asking for."""
    end = await ended(client, mark, "interrupt")
    return [interrupt["id"] for interrupt in end["outcome"]["interrupts"]]


async def after(client: TourClient, mark: int, kind: str, count: int) -> None:
    """Wait until so many events of a type have come."""
    for _ in range(count):
        event = await client.until(kind, since=mark)
        mark = client.events.index(event, mark) + 1


def shown(messages: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    """What a person sees of messages."""
    return [(m["id"], m["role"], (m.get("content"), m.get("toolCalls"))) for m in messages]


def test_the_demo_is_as_promised(tmp_path: Path) -> None:
    """The README's first command, as a newcomer runs it."""
    environ = {**os.environ, "ROOST_HOME": str(tmp_path / "untouched"), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "roost", "demo"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exactly once" in done.stdout
    assert list(tmp_path.iterdir()) == [], "the tour leaves nothing behind"


async def test_every_follower_of_a_long_story_is_told_a_stream_that_verifies(
    tmp_path: Path,
) -> None:
    """Text, reasoning, calls, an approval, a decline, a cancel; joiners in the middle of all."""
    async with a_place(tmp_path) as place, place.client("full") as full:
        (place.project / "notes.txt").write_text("one\ntwo\n")
        recordings: list[Recording] = []
        start = await place.opens(full)
        async with place.client("late") as late, place.client("later") as later:
            mark = await full.say("read notes.txt\nthink", "m1")
            await after(full, mark, "TEXT_MESSAGE_CONTENT", 2)
            late_start = await place.opens(late)
            await ended(full, mark)

            mark = await full.say("run echo a\nrun echo b", "m2")
            both = await asked(full, mark)
            later_start = await place.opens(later)
            mark = len(full.events)
            await later.send(
                type="run_agent_input",
                input={
                    "messages": [],
                    "resume": [
                        {"interruptId": both[0], "status": "resolved"},
                        {"interruptId": both[-1], "status": "cancelled"},
                    ],
                },
            )
            await ended(full, mark)

            # Long enough for joiners who are held up on their way.
            mark = await full.say("slow 50", "m3-0")
            async with AsyncExitStack() as stack:
                joiners: list[tuple[TourClient, int]] = []
                for number in range(2):
                    await after(full, mark, "TEXT_MESSAGE_CONTENT", 2 + 4 * number)
                    joiner = await stack.enter_async_context(
                        place.client(f"in the middle {number}")
                    )
                    joiners.append((joiner, await place.opens(joiner)))
                await ended(full, mark)
                for joiner, joined in joiners:
                    await ended(joiner, joined)
                    recordings.append(Recording.of(joiner.name, joiner.events[joined:]))

            mark = await full.say("slow 600", "m3-2")
            await after(full, mark, "TEXT_MESSAGE_CONTENT", 10)
            async with place.client("in the middle 2") as joiner:
                joined = await place.opens(joiner)
                await joiner.send(type="interrupt")
                await ended(full, mark, "cancelled")
                await ended(joiner, joined, "cancelled")
                recordings.append(Recording.of(joiner.name, joiner.events[joined:]))
            await ended(late, late_start, "cancelled")
            await ended(later, later_start, "cancelled")
            async with place.client("last") as last:
                last_start = await place.opens(last)
                final = last.events[last_start]["messages"]
            recordings += [
                Recording.of("full", full.events[start:]),
                Recording.of("late", late.events[late_start:]),
                Recording.of("later", later.events[later_start:]),
            ]
        verdicts = judged(*recordings)
        assert set(verdicts) >= {"full", "late", "later", "in the middle 2"}
        for name in ("full", "late", "later", "in the middle 2"):
            assert shown(verdicts[name].messages) == shown(final), name
        assert verdicts["full"].state == verdicts["late"].state == verdicts["later"].state


async def test_a_worker_killed_in_a_run_costs_the_run_and_nothing_else(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place, place.client("full") as full:
        start = await place.opens(full)
        mark = await full.say("slow 600", "m1")
        # Past the greeting, a second into words that come ten a second.
        await after(full, mark, "TEXT_MESSAGE_CONTENT", 35)
        (thread,) = await place.daemon.threads()
        os.kill(thread["worker_pid"], signal.SIGKILL)
        error = await full.until("RUN_ERROR", since=mark)
        started = await full.until("RUN_STARTED", since=mark)
        assert error["runId"] == started["runId"]
        assert "exited mid-run" in error["message"]

        async with place.client("after") as other:
            again = await place.opens(other)
            kept = other.events[again]["messages"]
            assert [m["role"] for m in kept] == ["user", "assistant"]
            streamed = "".join(
                e["delta"] for e in full.events[mark:] if e["type"] == "TEXT_MESSAGE_CONTENT"
            )
            # Partial text is written at least every quarter of a second.
            assert kept[1]["content"]
            assert streamed.startswith(kept[1]["content"].rstrip())
            mark = await full.say("slow 1", "m2")
            await ended(full, mark)
            await ended(other, again)
            recordings = [
                Recording.of("full", full.events[start:]),
                Recording.of("after", other.events[again:]),
            ]
        judged(*recordings)


async def test_a_decision_outlives_the_daemon_that_was_killed(tmp_path: Path) -> None:
    """kill -9 of daemon and worker; the next daemon's first client answers, and it runs once."""
    home, project = RoostHome(tmp_path / "home"), tmp_path / "project"
    home.path.mkdir()
    project.mkdir()
    with anyio.fail_after(300):
        async with a_daemon(home) as first:
            place = Place(first, home, project)
            async with place.client("one") as one:
                await place.opens(one)
                mark = await one.say("run echo ran >> count.txt", "m1")
                (waiting,) = await asked(one, mark)
                (thread,) = await first.threads()
                first.process.kill()
                os.kill(thread["worker_pid"], signal.SIGKILL)
                await first.process.wait()
        assert not (project / "count.txt").exists()
        async with a_daemon(home) as second:
            place = Place(second, home, project)
            async with place.client("two") as two:
                start = await place.opens(two)
                assert await asked(two, start) == [waiting]
                mark = len(two.events)
                await two.answer(waiting, "resolved")
                await two.answer(waiting, "resolved")
                await ended(two, mark)
                assert (project / "count.txt").read_text() == "ran\n"
                judged(Recording.of("two", two.events[start:]))


async def test_stop_thread_ends_the_run_as_cancelled_and_the_command_it_ran(
    tmp_path: Path,
) -> None:
    async with a_place(tmp_path, ROOST_AGENT__MODE="auto") as place, place.client("c") as client:
        start = await place.opens(client)
        mark = await client.say("run sleep 300 & echo $! > pid; wait", "m1")
        await client.until("TOOL_CALL_END", since=mark)
        pid_file = place.project / "pid"
        while not pid_file.exists() or not pid_file.read_text().strip():  # noqa: ASYNC110
            await anyio.sleep(0.02)
        pid = int(pid_file.read_text())
        await client.send(type="stop_thread", project_dir=str(place.project), id="c1")
        await ended(client, mark, "cancelled")
        await place.daemon.until_status("c1", "stopped")
        with anyio.fail_after(60):
            while Path(f"/proc/{pid}").exists():  # noqa: ASYNC110
                await anyio.sleep(0.02)
        judged(Recording.of("c", client.events[start:]))


async def test_a_stopped_daemon_leaves_no_process(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        pids: list[int] = []
        async with place.client("c") as client:
            for name in ("a", "b", "c"):
                await place.opens(client, name)
            mark = await client.say("slow 100", "m1")
            await after(client, mark, "TEXT_MESSAGE_CONTENT", 2)
            pids = [t["worker_pid"] for t in await place.daemon.threads()]
            assert len(set(pids)) == 3
            assert await place.daemon.end() == 0
        assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
        conversations = place.home.conversations(str(place.project))
        last = json.loads((conversations / "c.jsonl").read_text().splitlines()[-1])
        assert last, "the history ends with a whole line"
