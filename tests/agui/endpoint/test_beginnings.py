"""Between an input and its run: two at once, a stop, a client that leaves."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from agui.endpoint.agents import Agent
from agui.endpoint.beginnings import Beginnings
from agui.endpoint.refusal import Refused
from sessions.domain.keys import ThreadKey
from sessions.domain.ports import ThreadView
from sessions.domain.settings import RegistrySettings
from tests.agui.endpoint.front_end import Body, FrontEnd, a_front_end
from tests.agui.endpoint.staged import Stage, Staged, a_staged_endpoint
from tests.support.scenes import READY, line, run_asked, run_finished, run_started

THREAD = ThreadKey.parse("/work/project", "t1")


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


def cancelled(run_id: str) -> bytes:
    return line("RUN_FINISHED", threadId="t1", runId=run_id, outcome={"type": "cancelled"})


async def read(front: FrontEnd, given: dict[str, Any], read_bodies: list[Body]) -> None:
    async with front.streams("run", given) as body:
        read_bodies.append(body)
        await body.rest()


async def test_of_two_inputs_at_once_one_runs_and_the_other_is_refused_at_once() -> None:
    """The second would run behind the first: a message sent twice by a page would count twice."""
    stage = Stage(begins_runs=False)
    async with a_staged_endpoint(stage) as daemon, a_front_end(daemon) as front:
        bodies: list[Body] = []
        refused: list[tuple[int, dict[str, Any]]] = []

        async def ask(run_id: str) -> None:
            given = front.input("hello", runId=run_id)
            async with front.streams("run", given) as body:
                if body.status == 200:
                    bodies.append(body)
                    await body.rest()
                else:
                    refused.append((body.status, await body.json()))
                    # The one that runs has not even begun: nobody had to wait for it.
                    (given,) = stage.inputs()
                    daemon.worker.says(run_started(given["runId"]), run_finished(given["runId"]))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "r1")
            tasks.start_soon(ask, "r2")
        (given,) = stage.inputs()
        assert [body.events[0]["runId"] for body in bodies] == [given["runId"]]
        ((status, told),) = refused
        assert (status, told["code"], told["runId"]) == (409, "run_active", given["runId"])


async def test_an_input_that_failed_to_begin_is_in_nobodys_way() -> None:
    stage = Stage()
    stage.answers["run_agent_input"] = (line("RUN_ERROR", message="No.", code="bad_input"),)
    async with a_staged_endpoint(stage) as daemon, a_front_end(daemon) as front:
        for run_id in ("r1", "r2"):
            status, told = await front.refused("run", front.input("x", runId=run_id))
            assert (status, told["code"], told["error"]) == (422, "bad_input", "No.")
        assert [given["runId"] for given in stage.inputs()] == ["r1", "r2"]


async def test_a_stop_ends_what_has_not_begun_yet() -> None:
    """Whoever changes his mind while the worker starts would see the run begin all the same."""
    stage = Stage(is_ready=False)
    async with a_staged_endpoint(stage) as daemon, a_front_end(daemon) as front:
        answers: list[tuple[int, dict[str, Any]]] = []

        async def ask() -> None:
            answers.append(await front.refused("run", front.input("hello")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await stage.until(lambda: bool(stage.workers))
            assert await front.refused("stop/t1", {"runId": "other"}) == (200, NOTHING)
            assert await front.refused("stop/t1", {"runId": "r1"}) == (200, {"stopped": True})
            daemon.worker.says(READY)
        ((status, told),) = answers
        assert (status, told["code"]) == (409, "stopped")
        assert stage.inputs() == []


NOTHING = {"stopped": False, "message": "No run is open on this thread."}


async def test_a_stop_behind_an_input_ends_its_run_as_soon_as_there_is_one() -> None:
    stage = Stage(begins_runs=False)
    async with a_staged_endpoint(stage) as daemon, a_front_end(daemon) as front:
        bodies: list[Body] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, front, front.input("hello"), bodies)
            await stage.until(lambda: bool(stage.inputs()))
            assert await front.refused("stop/t1", {}) == (200, {"stopped": True})
            daemon.worker.says(run_started("r1"))
            await stage.until(lambda: stage.taken[-1]["type"] == "interrupt")
            daemon.worker.says(cancelled("r1"))
        assert bodies[0].events[-1]["outcome"] == {"type": "cancelled"}


async def test_a_stop_of_what_is_not_there_launches_nothing_and_says_so() -> None:
    async with a_staged_endpoint() as daemon, a_front_end(daemon) as front:
        assert await front.refused("stop/t1", {}) == (200, NOTHING)
        assert daemon.stage.launches == []
        async with front.streams("run", front.input("hello")) as body:
            await body.until("RUN_STARTED")
            daemon.worker.says(run_asked("i1"))
            await body.rest()
        assert await front.refused("stop/t1", {}) == (200, NOTHING), "a decision waits on"
        assert daemon.registry.views()[0].interrupts == ("i1",)
        daemon.worker.exit("exited with code 0")
        assert await front.refused("stop/t1", {}) == (200, NOTHING)


@pytest.mark.parametrize("phase", ["launching", "asked", "in a message", "at the end"])
async def test_a_client_that_leaves_takes_nothing_with_it(phase: str) -> None:
    stage = Stage(is_ready=phase != "launching", begins_runs=False)
    bodies: list[Body] = []
    async with a_staged_endpoint(stage) as daemon, a_front_end(daemon) as front:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, front, front.input("hello"), bodies)
            await stage.until(lambda: bool(stage.workers))
            if phase != "launching":
                await stage.until(lambda: bool(stage.inputs()))
            if phase in ("in a message", "at the end"):
                daemon.worker.says(run_started("r1"), line("TEXT_MESSAGE_START", messageId="m"))
                await until(daemon, lambda view: view.run_id == "r1")
            if phase == "at the end":
                daemon.worker.says(line("TEXT_MESSAGE_END", messageId="m"), run_finished("r1"))
            tasks.cancel_scope.cancel()
        if phase == "launching":
            daemon.worker.says(READY)
            await stage.until(lambda: bool(stage.inputs()))
        if phase in ("launching", "asked"):
            daemon.worker.says(run_started("r1"))
        if phase != "at the end":
            await until(daemon, lambda view: view.run_id == "r1")
        await until(daemon, lambda view: view.followers == 0)
        assert [frame["type"] for frame in stage.taken].count("interrupt") == 0


async def until(daemon: Staged, is_so: Callable[[ThreadView], bool]) -> None:
    """Wait until the only thread's view is like that."""
    changed = anyio.Event()
    end = daemon.registry.watch(lambda key, view: changed.set())
    try:
        with anyio.fail_after(120):
            while not any(map(is_so, daemon.registry.views())):
                changed = anyio.Event()
                await changed.wait()
    finally:
        end()


async def test_what_an_agent_is_set_to_is_what_its_threads_are_launched_with() -> None:
    review = Agent(project_dir="/work/review", model="openai:m", mode="plan", instructions="Read.")
    async with (
        a_staged_endpoint(agents={"review": review}) as daemon,
        a_front_end(daemon) as front,
    ):
        named = FrontEnd(front.http, "", "review")
        async with named.streams("run", named.input("hello", forwardedProps={})) as body:
            await body.until("RUN_STARTED")
        ((thread, options),) = daemon.stage.launches
        assert thread.project_dir == "/work/review"
        assert (options.model, options.mode) == ("openai:m", "plan")
        assert options.custom_instructions == "Read."


async def test_more_than_may_wait_is_told_to_come_again() -> None:
    stage = Stage(is_ready=False)
    few = RegistrySettings(max_waiting=2)
    async with a_staged_endpoint(stage, few) as daemon, a_front_end(daemon) as front:
        bodies: list[Body] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, front, front.input("hello"), bodies)
            await until(daemon, lambda view: view.followers == 1)
            status, told = await front.refused("run", front.input("hello", runId="r2"))
            assert (status, told["code"]) == (429, "too_many_waiting")
            daemon.worker.says(READY)
            await stage.until(lambda: bool(stage.inputs()))
            daemon.worker.says(run_finished("r1"))
        assert bodies[0].types[-1] == "RUN_FINISHED"


def test_what_was_handed_over_is_alone_until_it_is_over() -> None:
    beginnings = Beginnings()
    with beginnings.of(THREAD, "r1") as one, beginnings.of(THREAD, "r2") as other:
        beginnings.hand_over(THREAD, one)
        with pytest.raises(Refused):
            beginnings.hand_over(THREAD, other)
        assert not beginnings.stop(THREAD, "r3")
    assert not beginnings.stop(THREAD, None)
    with beginnings.of(THREAD, "r2") as other:
        beginnings.hand_over(THREAD, other)
