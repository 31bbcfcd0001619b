"""The published clients, unmodified, against the real daemon: this is what the endpoint is for."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.agui.real import RealDaemon, a_real_daemon
from tests.agui.scenes import TOKEN
from tests.support.judge import node_program

_PROGRAM = Path(__file__).parents[2] / "judge" / "front_ends.mjs"
HTTP_AGENTS = ("1.0.0", "0.0.59")


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


@dataclass(frozen=True, slots=True)
class Held:
    """What a front end holds at the end."""

    problems: list[str]
    failure: str | None
    outcomes: list[str]
    events: list[str]
    messages: list[dict[str, Any]]
    state: Any

    @property
    def said(self) -> str:
        """All that the agent said."""
        return " ".join(m["content"] for m in self.messages if m["role"] == "assistant")


async def front_end(
    daemon: RealDaemon, client: str, *steps: dict[str, Any], thread: str = "t1"
) -> Held:
    given = {
        "client": client,
        "base": f"http://127.0.0.1:{daemon.port}",
        "token": TOKEN,
        "project": str(daemon.project),
        "thread": thread,
        "steps": steps,
    }
    done = await anyio.run_process(
        [node_program(), str(_PROGRAM), json.dumps(given)],
        env={"PATH": os.environ["PATH"]},
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    held = Held(**json.loads(done.stdout))
    assert (held.problems, held.failure) == ([], None)
    return held


@pytest.mark.parametrize("client", [*HTTP_AGENTS, "copilotkit"])
async def test_a_front_end_talks_and_has_the_whole_conversation(
    tmp_path: Path, client: str
) -> None:
    async with a_real_daemon(tmp_path) as daemon:
        held = await front_end(daemon, client, {"say": "hello"}, {"say": "think"})
        assert held.outcomes == ["success", "success"]
        assert "You said: hello." in held.said
        assert held.state["queue"] == []
        assert [m["role"] for m in held.messages if m["role"] == "user"] == ["user", "user"]


@pytest.mark.parametrize("client", HTTP_AGENTS)
async def test_a_front_end_is_asked_and_its_answers_count(tmp_path: Path, client: str) -> None:
    async with a_real_daemon(tmp_path) as daemon:
        held = await front_end(
            daemon,
            client,
            {"say": "run echo it ran > yes.txt"},
            {"answer": "resolved"},
            {"say": "run echo it ran > no.txt"},
            {"answer": "cancelled"},
        )
        assert held.outcomes == ["interrupt", "success"] * 2
        assert (daemon.project / "yes.txt").exists()
        assert not (daemon.project / "no.txt").exists()


@pytest.mark.parametrize("client", HTTP_AGENTS)
async def test_the_front_ends_own_tool_is_called_and_its_result_is_read(
    tmp_path: Path, client: str
) -> None:
    async with a_real_daemon(tmp_path) as daemon:
        steps = ({"say": 'use setColour {"colour":"red"}'}, {"tool": "painted red"})
        held = await front_end(daemon, client, *steps)
        assert held.outcomes == ["success", "success"]
        assert "setColour worked: painted red" in held.said


async def test_copilotkit_runs_its_own_tool_and_goes_on_by_itself(tmp_path: Path) -> None:
    async with a_real_daemon(tmp_path) as daemon:
        held = await front_end(daemon, "copilotkit", {"say": "use setColour {}"})
        assert held.outcomes == ["success", "success"]
        assert "setColour worked: painted" in held.said


async def test_copilotkit_finds_the_conversation_again_when_it_starts_cold(tmp_path: Path) -> None:
    """A reload of the page."""
    async with a_real_daemon(tmp_path) as daemon:
        first = await front_end(daemon, "copilotkit", {"say": "hello"})
        again = await front_end(daemon, "copilotkit", {"connect": True})
        assert [m["id"] for m in again.messages] == [m["id"] for m in first.messages]
        assert again.said == first.said
        assert again.state == first.state
