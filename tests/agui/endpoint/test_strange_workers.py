"""A worker that is not ours: what leaves over HTTP is the protocol all the same."""

import json
import sys
from pathlib import Path

import pytest

from tests.agui.endpoint.front_end import a_front_end
from tests.agui.real import a_real_daemon
from tests.support.stream_judge import StreamJudge

STRANGER = Path(__file__).parents[1] / "workers" / "stranger.py"
COMMAND = {"ROOST_WORKER__COMMAND": json.dumps([sys.executable, str(STRANGER)])}


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


async def test_its_runs_have_the_ids_that_were_asked_for_and_its_chunks_are_whole(
    tmp_path: Path, judge: StreamJudge
) -> None:
    async with a_real_daemon(tmp_path, **COMMAND) as daemon, a_front_end(daemon) as front:
        body = await front.run("one")
        assert body.types == [
            "RUN_STARTED",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "RUN_FINISHED",
        ]
        for event in (body.events[0], body.events[-1]):
            assert (event["threadId"], event["runId"]) == ("t1", "r1")
        verdict = judge(body.raw)
        assert verdict.problems == []
        assert [m["content"] for m in verdict.messages] == ["1: one"]


async def test_of_a_history_whose_ids_it_does_not_know_only_the_new_end_is_taken(
    tmp_path: Path,
) -> None:
    async with a_real_daemon(tmp_path, **COMMAND) as daemon, a_front_end(daemon) as front:
        await front.run("one")
        messages = [
            {"id": "m-r1", "role": "user", "content": "one"},
            {"id": "m-2", "role": "assistant", "content": "1: one"},
            {"id": "new", "role": "user", "content": "two"},
        ]
        body = await front.run(runId="r2", messages=messages)
        said = "".join(e.get("delta", "") for e in body.events)
        assert said == "1: two"


@pytest.mark.parametrize(
    ("text", "code"), [("orphan", "bad_worker_stream"), ("vanish", "worker_exit")]
)
async def test_a_run_that_it_spoils_ends_with_one_error_and_the_next_one_works(
    tmp_path: Path, text: str, code: str
) -> None:
    async with a_real_daemon(tmp_path, **COMMAND) as daemon, a_front_end(daemon) as front:
        body = await front.run(text)
        assert body.types == ["RUN_STARTED", "RUN_ERROR"]
        assert body.events[-1]["code"] == code
        assert "runId" not in body.events[-1], "the protocol has no such member"
        assert (await front.run("again", runId="r2")).types[-1] == "RUN_FINISHED"


async def test_an_idle_thread_of_it_is_told_from_its_snapshot(tmp_path: Path) -> None:
    async with a_real_daemon(tmp_path, **COMMAND) as daemon, a_front_end(daemon) as front:
        await front.run("one")
        told = await front.connect(runId="look")
        assert told.types == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
        assert [m["content"] for m in told.events[1]["messages"]] == ["one", "1: one"]
