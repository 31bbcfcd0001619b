"""The published clients, unmodified, against the real daemon: this is what the endpoint is for."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.agent.support.openai_server import OpenAIServer, Stream, openai_server, text
from tests.agui.endpoint.conftest import Served
from tests.agui.endpoint.front_end import Host
from tests.agui.real import a_real_daemon
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


async def front_end(daemon: Host, client: str, *steps: dict[str, Any], **brings: Any) -> Held:
    given = {
        "client": client,
        "base": f"http://127.0.0.1:{daemon.port}",
        "token": TOKEN,
        "project": str(daemon.project),
        "thread": getattr(daemon, "thread", "t1"),
        "steps": steps,
        **brings,
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
    served: Served, client: str
) -> None:
    held = await front_end(served, client, {"say": "hello"}, {"say": "think"})
    assert held.outcomes == ["success", "success"]
    assert "You said: hello." in held.said
    assert held.state["queue"] == []
    assert [m["role"] for m in held.messages if m["role"] == "user"] == ["user", "user"]


@pytest.mark.parametrize("client", HTTP_AGENTS)
async def test_a_front_end_is_asked_and_its_answers_count(served: Served, client: str) -> None:
    held = await front_end(
        served,
        client,
        {"say": "run echo it ran > yes.txt"},
        {"answer": "resolved"},
        {"say": "run echo it ran > no.txt"},
        {"answer": "cancelled"},
    )
    assert held.outcomes == ["interrupt", "success"] * 2
    assert (served.project / "yes.txt").exists()
    assert not (served.project / "no.txt").exists()


@pytest.mark.parametrize("client", HTTP_AGENTS)
async def test_the_front_ends_own_tool_is_called_and_its_result_is_read(
    served: Served, client: str
) -> None:
    steps = ({"say": 'use setColour {"colour":"red"}'}, {"tool": "painted red"})
    held = await front_end(served, client, *steps)
    assert held.outcomes == ["success", "success"]
    assert "setColour worked: painted red" in held.said


BRINGS: dict[str, Any] = {
    "tools": ["setColour", "setSize", "Bash"],
    "context": [{"description": "The page", "value": "Invoices"}],
    "properties": {"tier": "gold-17"},
    "state": {"theme": "dark"},
}


def both_tools() -> Stream:
    """The model calls both of the front end's tools in one answer."""
    calls = [
        {
            "index": n,
            "id": f"c{n}",
            "type": "function",
            "function": {"name": name, "arguments": "{}"},
        }
        for n, name in enumerate(("setColour", "setSize"))
    ]
    return Stream(tuple({"tool_calls": [call]} for call in calls), "tool_calls")


def with_model(server: OpenAIServer) -> dict[str, str]:
    return {
        "ROOST_AGENT__MODEL": "openai:local",
        "ROOST_AGENT__TITLES": "false",
        "ROOST_PROVIDERS__OPENAI__BASE_URL": server.url,
        "ROOST_PROVIDERS__OPENAI__API_KEY": "sk-test",
    }


def results(request: dict[str, Any]) -> list[str]:
    """What a model is told of the two calls before."""
    return [m["content"] for m in request["messages"] if m["role"] == "tool"][-2:]


async def test_what_a_front_end_brings_reaches_the_model_and_a_name_of_ours_stays_ours(
    tmp_path: Path,
) -> None:
    """A page, or somebody who got into one, must not make our Bash harmless."""
    clients = [*HTTP_AGENTS, "copilotkit"]
    # CopilotKit answers by itself, when both have run.
    answers = ({"tool": "painted", "of": 0, "more": True}, {"tool": "painted"})
    with openai_server(*[both_tools(), text("Done.")] * len(clients)) as server:
        async with a_real_daemon(tmp_path, **with_model(server)) as daemon:
            for client in clients:
                steps = [{"say": "paint it"}, *(answers if client in HTTP_AGENTS else ())]
                held = await front_end(daemon, client, *steps, **BRINGS)
                assert held.outcomes == ["success", "success"]
                assert held.state["theme"] == "dark"
        for first, second in zip(server.requests[::2], server.requests[1::2], strict=True):
            told = json.dumps(first["messages"])
            for words in ("The page: Invoices", "theme", "dark", "gold-17"):
                assert words in told
            offered = [tool["function"] for tool in first["tools"]]
            assert {"setColour", "setSize"} <= {tool["name"] for tool in offered}
            (bash,) = [tool for tool in offered if tool["name"] == "Bash"]
            assert bash["description"] != "Paints the page."
            assert results(second) == ["painted", "painted"]


async def test_a_call_that_is_not_answered_is_not_run_and_its_result_may_still_come(
    tmp_path: Path,
) -> None:
    steps = ({"say": "paint it"}, {"tool": "red", "of": 0}, {"tool": "large", "of": 1})
    with openai_server(*[both_tools(), text("One."), text("Two.")] * 2) as server:
        async with a_real_daemon(tmp_path, **with_model(server)) as daemon:
            for client in HTTP_AGENTS:
                held = await front_end(daemon, client, *steps, **BRINGS)
                assert held.outcomes == ["success"] * 3
        for partly, wholly in zip(server.requests[1::3], server.requests[2::3], strict=True):
            assert results(partly)[0] == "red"
            assert "Not run" in results(partly)[1]
            assert results(wholly) == ["red", "large"]


async def test_copilotkit_runs_its_own_tool_and_goes_on_by_itself(served: Served) -> None:
    held = await front_end(served, "copilotkit", {"say": "use setColour {}"})
    assert held.outcomes == ["success", "success"]
    assert "setColour worked: painted" in held.said


async def test_copilotkit_finds_the_conversation_again_when_it_starts_cold(served: Served) -> None:
    """A reload of the page."""
    first = await front_end(served, "copilotkit", {"say": "hello"})
    again = await front_end(served, "copilotkit", {"connect": True})
    assert [m["id"] for m in again.messages] == [m["id"] for m in first.messages]
    assert again.said == first.said
    assert again.state == first.state
