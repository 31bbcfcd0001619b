"""Many clients at once, and what the daemon's end makes of them."""

from contextlib import AsyncExitStack
from functools import partial

import anyio
import pytest
from anyio.abc import TaskStatus

from tests.agui.endpoint.front_end import Body, FrontEnd, a_front_end
from tests.agui.endpoint.staged import Stage, a_staged_endpoint
from tests.support.scenes import line, run_finished

CONNECTS = 200
STREAMS = 100


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


async def test_two_hundred_connects_at_once_are_each_told_the_whole_run() -> None:
    """A page that a whole team has open reconnects from everywhere when the network is back."""
    pieces = [line("TEXT_MESSAGE_CONTENT", messageId="m", delta=f"{n} ") for n in range(50)]
    async with a_staged_endpoint() as daemon, a_front_end(daemon) as front:
        bodies: list[Body] = []

        async def look(number: int) -> None:
            async with front.streams("connect", front.input(runId=f"look{number}")) as body:
                bodies.append(body)
                await body.rest()

        async with front.streams("run", front.input("hello")) as first:
            await first.until("RUN_STARTED")
            daemon.worker.says(line("TEXT_MESSAGE_START", messageId="m"))
            await first.until("TEXT_MESSAGE_START")
            async with anyio.create_task_group() as tasks:
                for number in range(CONNECTS):
                    tasks.start_soon(look, number)
                opens = CONNECTS + 1
                asked = "resume_conversation"
                await daemon.stage.until(
                    lambda: [f["type"] for f in daemon.stage.taken].count(asked) == opens
                )
                daemon.worker.says(*pieces, line("TEXT_MESSAGE_END", messageId="m"))
                daemon.worker.says(run_finished("r1"))
            events = await first.rest()
        assert len(bodies) == CONNECTS
        said = "".join(event.get("delta", "") for event in events)
        for body in bodies:
            assert (body.types[0], body.types[-1]) == ("RUN_STARTED", "RUN_FINISHED")
            # What was said before it joined is in a real worker's snapshot.
            assert said.endswith("".join(event.get("delta", "") for event in body.events))
        while daemon.registry.views()[0].followers:
            await anyio.lowlevel.checkpoint()


async def test_a_stop_of_the_daemon_ends_a_hundred_streams_cleanly() -> None:
    ends: list[list[str]] = []

    async def look(front: FrontEnd, number: int, *, task_status: TaskStatus[None]) -> None:
        async with front.streams("connect", front.input(runId=f"look{number}")) as body:
            await body.until("MESSAGES_SNAPSHOT")
            task_status.started()
            await body.rest()  # the body has its end: it is not cut off
            ends.append(body.types)

    kept = AsyncExitStack()
    async with kept, anyio.create_task_group() as tasks, a_staged_endpoint() as daemon:
        front = await kept.enter_async_context(a_front_end(daemon))
        async with front.streams("run", front.input("hello")) as body:
            await body.until("RUN_STARTED")
        async with anyio.create_task_group() as opening:
            for number in range(STREAMS):
                opening.start_soon(tasks.start, partial(look, front, number))
    assert ends == [["RUN_STARTED", "MESSAGES_SNAPSHOT"]] * STREAMS


async def test_requests_that_wait_when_the_daemon_stops_are_refused_and_told_why() -> None:
    stage = Stage(is_ready=False)
    refused: list[tuple[int, str]] = []
    async with AsyncExitStack() as kept, anyio.create_task_group() as tasks:

        async def ask(front: FrontEnd, number: int) -> None:
            given = front.input("hello", runId=f"r{number}")
            status, told = await front.refused("run" if number % 2 else "connect", given)
            refused.append((status, told["code"]))

        async with a_staged_endpoint(stage) as daemon:
            front = await kept.enter_async_context(a_front_end(daemon))
            for number in range(20):
                tasks.start_soon(ask, front, number)
            while not (views := daemon.registry.views()) or views[0].followers < 20:
                await anyio.lowlevel.checkpoint()
    assert refused == [(503, "shutting_down")] * 20
