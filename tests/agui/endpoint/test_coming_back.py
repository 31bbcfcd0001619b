"""Who names a place that is not there, or not theirs, is told the thread as it is."""

from functools import partial

import anyio
import pytest

from sessions.domain.settings import RegistrySettings
from tests.agui.endpoint.front_end import a_front_end
from tests.agui.endpoint.staged import Stage, a_staged_endpoint
from tests.support.scenes import line, run_finished

RING = 4


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


@pytest.mark.parametrize("place", ["gone", "to come", "another's"])
async def test_a_place_that_cannot_be_replayed_is_answered_with_the_open_run(place: str) -> None:
    """Opened a second time, it would be answered a second time, in the middle of the run."""
    async with (
        a_staged_endpoint(registry=RegistrySettings(ring_events=RING)) as daemon,
        a_front_end(daemon) as front,
        front.streams("run", front.input("hello")) as body,
    ):
        pieces = [line("CUSTOM", name="x.y", value=n) for n in range(2 * RING)]
        daemon.worker.says(*pieces)
        await body.until("CUSTOM", 2 * RING)
        generation, _, last = str(body.ids[-1]).rpartition(":")
        named = {
            "gone": f"{generation}:{int(last) - RING - 1}",
            "to come": f"{generation}:{int(last) + 1}",
            "another's": f"{'0' * len(generation)}:{last}",
        }
        headers = {"last-event-id": named[place]}
        async with front.streams("connect", front.input(runId="look"), headers) as joined:
            await joined.until("MESSAGES_SNAPSHOT")
            daemon.worker.says(run_finished("r1"))
            await joined.rest()
        assert joined.types == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
        opens = [f["type"] for f in daemon.stage.taken].count("resume_conversation")
        assert opens == 2, "once for the run, once for who came back"


async def test_a_worker_reads_no_thread_of_others_by_naming_a_place_in_it() -> None:
    async with (
        a_staged_endpoint() as daemon,
        a_front_end(daemon) as front,
        front.streams("run", front.input("secret")) as body,
        front.streams("run", front.input("its own", threadId="t2")) as own,
    ):
        await body.until("RUN_STARTED")
        await own.until("RUN_STARTED")
        token = daemon.stage.tokens[1]
        headers = {"last-event-id": str(body.ids[0]), "authorization": f"Bearer {token}"}
        status, refused = await front.refused("connect", front.input(), **headers)
        assert (status, refused["code"]) == (403, "not_allowed")


@pytest.mark.parametrize("begins_runs", [True, False])
async def test_a_worker_stops_no_thread_of_others(begins_runs: bool) -> None:
    stage = Stage(begins_runs=begins_runs)
    async with (
        a_staged_endpoint(stage) as daemon,
        a_front_end(daemon) as front,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(front.run, "somebody's")
        await stage.until(lambda: len(stage.inputs()) == 1)
        own = front.input("its own", threadId="t2")
        tasks.start_soon(partial(front.refused, "run", own))
        await stage.until(lambda: len(stage.inputs()) == 2)
        headers = {"authorization": f"Bearer {stage.tokens[1]}"}
        status, told = await front.refused("stop/t1", {}, **headers)
        if begins_runs:
            assert (status, told["code"]) == (403, "not_allowed")
        else:
            assert told["stopped"] is False
        assert "interrupt" not in [frame["type"] for frame in stage.taken]
        tasks.cancel_scope.cancel()
