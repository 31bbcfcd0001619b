"""Browser commands of real workers, through the registry and the relay, to an extension."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from roost.demo.client import TourClient
from tests.agui.real import RealDaemon, a_real_daemon, end_of_run

WORKER = Path(__file__).parent / "workers" / "browsing.py"
COMMAND = shlex.join([sys.executable, "-S", str(WORKER)])


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


async def told(client: TourClient, since: int) -> str:
    """What the run that began here said in the end."""
    await end_of_run(client, since)
    spoken = (e["delta"] for e in client.events[since:] if e["type"] == "TEXT_MESSAGE_CONTENT")
    return str(next(spoken))


async def browses(daemon: RealDaemon, client: TourClient, thread: str) -> int:
    await daemon.follows(client, thread)
    return await client.say("look", "m1")


async def answers(extension: TourClient, command_id: str, title: str) -> None:
    await extension.send(
        type="browser_result",
        id=command_id,
        url="https://x",
        title=title,
        content="",
        events=[],
        error="",
    )


async def test_two_workers_ask_and_the_browser_sees_the_second_after_the_first(
    tmp_path: Path,
) -> None:
    async with (
        a_real_daemon(tmp_path, ROOST_WORKER__COMMAND=COMMAND) as daemon,
        daemon.client("extension") as extension,
        daemon.client() as one,
        daemon.client() as two,
    ):
        first = await browses(daemon, one, "one")
        asked = await extension.until("browser_command", since=0)
        assert asked == {
            "type": "browser_command", "id": "one-1", "action": "tabs", "timeout_ms": 300_000,
        }  # fmt: skip
        second = await browses(daemon, two, "two")
        await two.until("RUN_STARTED", since=second)
        mark = len(extension.events)
        await answers(extension, "one-1", "first page")
        assert await told(one, first) == "first page"
        asked = await extension.until("browser_command", since=mark)
        assert asked["id"] == "two-1"
        await answers(extension, "two-1", "second page")
        assert await told(two, second) == "second page"
        for client in (one, two):
            assert not [e for e in client.events if e["type"].startswith("browser_c")]
            assert not [e for e in client.events if e["type"] == "browser_result"]


async def test_a_worker_is_told_at_once_that_there_is_no_browser(tmp_path: Path) -> None:
    async with (
        a_real_daemon(tmp_path, ROOST_WORKER__COMMAND=COMMAND) as daemon,
        daemon.client() as client,
    ):
        text = await told(client, await browses(daemon, client, "one"))
        assert "no browser extension is connected" in text
        assert str(daemon.port) in text


async def test_a_browser_that_goes_away_fails_what_it_was_running(tmp_path: Path) -> None:
    async with (
        a_real_daemon(tmp_path, ROOST_WORKER__COMMAND=COMMAND) as daemon,
        daemon.client() as client,
    ):
        async with daemon.client("extension") as extension:
            mark = await browses(daemon, client, "one")
            command = await extension.until("browser_command", since=0)
            assert json.dumps(command)
        assert "disconnected" in await told(client, mark)
