"""How long a request waits for what: a worker, a run, the next event. On a virtual clock."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from agui.endpoint.agents import Agent
from agui.endpoint.beginnings import Beginnings
from agui.endpoint.event_stream import EventStream, Stalled
from agui.endpoint.follower import HttpFollower
from agui.endpoint.refusal import Refused
from agui.endpoint.run_input import read_run_input
from agui.endpoint.streaming import connect, run
from agui.endpoint.visit import visiting
from agui.settings import BindingSettings
from agui.uvicorn_http import EXTENSION
from sessions.domain.keys import ThreadKey
from sessions.domain.settings import RegistrySettings
from sessions.registry import Registry
from tests.agui.endpoint.staged import Stage
from tests.support.scenes import line, run_finished, run_started
from tests.support.time import virtual_time

pytestmark = virtual_time
KEY = ThreadKey.parse("/work/project", "t1")
GIVEN = read_run_input(b'{"threadId":"t1","runId":"r1","messages":[],"protocolVersion":"1.0"}')


@dataclass
class Request:
    """One request without a network: what it is answered with, and when."""

    registry: Registry
    stage: Stage
    written: list[tuple[float, bytes]] = field(default_factory=list[tuple[float, bytes]])

    async def _send(self, message: Any) -> None:
        self.written.append((anyio.current_time(), message.get("body", b"")))

    async def _receive(self) -> Any:
        await anyio.sleep_forever()

    async def made(self, what: Callable[..., Any], *more: Any) -> None:
        follower = HttpFollower(None, 1024, 2**20)
        stream = EventStream({}, self._send, 10)
        settings = BindingSettings(token="t")
        with visiting(self.registry, follower, KEY) as visit:
            if what is run:
                await run(visit, GIVEN, Agent(), stream, self._receive, settings, Beginnings())
            else:
                await connect(visit, GIVEN, Agent(), None, stream, self._receive, settings)

    async def run(self) -> None:
        await self.made(run)

    async def connect(self) -> None:
        await self.made(connect)

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.written)


@asynccontextmanager
async def a_request(stage: Stage, **settings: Any) -> AsyncGenerator[Request]:
    registry = Registry(stage, RegistrySettings(**settings))
    async with registry.serving():
        yield Request(registry, stage)
        registry.hurry()


async def test_a_silent_stream_says_every_fifteen_seconds_that_it_lives() -> None:
    """Proxies and front ends take a silent connection for a dead one."""
    async with a_request(Stage()) as request, anyio.create_task_group() as tasks:
        tasks.start_soon(request.run)
        await anyio.sleep(1)
        begun, _ = request.written[-1]
        request.stage.worker.says(line("CUSTOM", name="x.y", value=1))
        await anyio.sleep(50)
        alive = [at for at, data in request.written if data == b": keep-alive\n\n"]
        assert [round(at - begun - 1) for at in alive] == [15, 30, 45], "from the last event on"
        request.stage.worker.says(run_finished("r1"))
    assert request.body.endswith(b'"outcome":{"type":"success"}}\n\n')


@pytest.mark.parametrize("made", [Request.run, Request.connect])
async def test_a_worker_that_sends_no_conversation_is_waited_for_as_on_every_binding(
    made: Callable[[Request], Any],
) -> None:
    async with a_request(Stage(snapshot_=None)) as request:
        began = anyio.current_time()
        with pytest.raises(Refused) as refused:
            await made(request)
        assert (refused.value.status, refused.value.code) == (503, "snapshot_timeout")
        assert round(anyio.current_time() - began) == 90
        assert request.written == []
        assert request.stage.inputs() == [], "nothing was run"


async def test_an_input_that_its_worker_does_not_begin_is_given_up_and_the_next_may_come() -> None:
    async with a_request(Stage(begins_runs=False)) as request:
        began = anyio.current_time()
        with pytest.raises(Refused) as refused:
            await request.run()
        assert (refused.value.status, refused.value.code) == (503, "no_answer")
        assert round(anyio.current_time() - began) == 100


async def test_a_slow_worker_is_waited_for_and_nothing_of_its_run_is_lost() -> None:
    stage = Stage(snapshot_=None, begins_runs=False)
    stage.answers["command"] = ()
    found = line("command_result", id="find_run", success=True, data={"known": False})
    async with a_request(stage) as request:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(request.run)
            await anyio.sleep(80)
            stage.worker.says(line("MESSAGES_SNAPSHOT", messages=[]), found)
            await anyio.sleep(90)
            request.stage.worker.says(run_started("r1"))
            await anyio.sleep(3600)
            request.stage.worker.says(run_finished("r1"))
        assert request.body.count(b"keep-alive") in (239, 240)
        assert request.body.count(b"RUN_FINISHED") == 1


@pytest.mark.parametrize("point", ["before its snapshot", "before its run", "in its run"])
async def test_a_worker_that_dies_is_told_at_once_wherever_it_was(point: str) -> None:
    stage = Stage(begins_runs=False)
    if point == "before its snapshot":
        del stage.answers["resume_conversation"]
    async with a_request(stage) as request:
        began = anyio.current_time()
        refused: list[Refused] = []

        async def ask() -> None:
            try:
                await request.run()
            except Refused as exc:
                refused.append(exc)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.sleep(1)
            if point == "in its run":
                stage.worker.says(run_started("r1"))
            await anyio.sleep(1)
            stage.worker.exit("was killed by SIGKILL")
        assert anyio.current_time() - began < 3
        if point == "in its run":
            assert request.body.count(b"RUN_ERROR") == 1
            assert b'"code":"worker_exit"' in request.body
        else:
            assert (refused[0].status, refused[0].code) == (503, "worker_exit")
            assert request.written == []


class Trickling:
    """A connection whose client takes a byte now and then."""

    waiting = 2**20

    def buffered(self) -> int:
        self.waiting -= 1
        return self.waiting

    def abort(self) -> None:
        raise NotImplementedError


async def test_who_takes_a_byte_now_and_then_is_waited_for_until_it_was_given_up() -> None:
    """A slow client may take its time. One that too much piled up for holds nothing any longer."""

    async def send(message: Any) -> None:
        await anyio.sleep_forever()

    stream = EventStream({"extensions": {EXTENSION: Trickling()}}, send, 10)
    given_up = False
    with anyio.move_on_after(3600) as hour:
        await stream.write(b"x", lambda: given_up)
    assert hour.cancelled_caught
    given_up = True
    began = anyio.current_time()
    with pytest.raises(Stalled):
        await stream.write(b"x", lambda: given_up)
    assert round(anyio.current_time() - began) == 10
