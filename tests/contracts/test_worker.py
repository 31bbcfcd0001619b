"""What every Worker and LaunchWorker promises: the fake that tests rely on, the real process."""

import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from sessions.domain.keys import ConversationId, ThreadKey, ThreadOptions
from sessions.domain.ports import LaunchFailed, LaunchWorker, Worker, WorkerLost
from sessions.infrastructure.subprocess_worker import SubprocessLauncher
from tests.support.fakes import FakeLauncher, FakeWorker
from tests.support.keepers import ENVIRON, a_launcher, a_pad, a_spare

TOKEN = "worker-token"
SCRIPTED = str(Path(__file__).parents[1] / "support/workers/scripted.py")
ECHO = (sys.executable, SCRIPTED, "echo")


class Echoing(FakeLauncher):
    """The fake, made to answer as the scripted process does."""

    @asynccontextmanager
    async def __call__(
        self, thread: ThreadKey, options: ThreadOptions, token: str
    ) -> AsyncGenerator[FakeWorker]:
        if not Path(thread.project_dir).is_dir():
            raise LaunchFailed(f"{thread.project_dir}: it does not exist")
        async with super().__call__(thread, options, token) as worker:
            send, stop = worker.send, worker.stop

            def answer(line: bytes) -> None:
                send(line)
                worker.says(json.dumps({"type": "ECHO", "line": line.decode()}).encode())

            def stopped(grace: float) -> None:
                if not worker.stops:
                    interrupt = {"type": "ECHO", "line": '{"type":"interrupt"}'}
                    worker.says(json.dumps(interrupt).encode())
                stop(grace)

            worker.send, worker.stop = answer, stopped  # type: ignore[method-assign]
            yield worker


@pytest.fixture(params=["fake", "subprocess", "spare", "keeper", "pad"])
async def launch(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[LaunchWorker]:
    if request.param == "fake":
        fake: LaunchWorker = Echoing()
        yield fake
    elif request.param == "subprocess":
        plain: LaunchWorker = SubprocessLauncher(argv=ECHO, environ={"PATH": "/usr/bin:/bin"})
        yield plain
    elif request.param == "spare":
        async with a_spare(tmp_path, "echo") as spare:
            warm: LaunchWorker = SubprocessLauncher(argv=ECHO, environ=ENVIRON, spare=spare)
            yield warm
    elif request.param == "keeper":
        kept: LaunchWorker = a_launcher(tmp_path / "keepers", ECHO)
        yield kept
    else:
        with a_pad() as pad:
            forked: LaunchWorker = a_launcher(tmp_path / "keepers", ECHO, pad)
            yield forked


@pytest.fixture
def thread(tmp_path: Path) -> ThreadKey:
    return ThreadKey(str(tmp_path), ConversationId("c1"))


async def lines_of(worker: Worker) -> list[str]:
    """All the lines until the worker is gone."""
    said: list[str] = []

    def take(batch: Sequence[bytes]) -> None:
        assert batch
        said.extend(json.loads(line)["line"] for line in batch)

    await worker.pump(take)
    return said


async def test_lines_come_back_in_order_and_end_when_the_worker_is_gone(
    launch: LaunchWorker, thread: ThreadKey
) -> None:
    with anyio.fail_after(180):
        async with launch(thread, ThreadOptions(), TOKEN) as worker:
            for number in range(100):
                worker.send(b"line %d" % number)
            worker.stop(60)
            said = await lines_of(worker)
    assert said == [*(f"line {n}" for n in range(100)), '{"type":"interrupt"}']


async def test_a_worker_that_is_being_stopped_takes_no_more(
    launch: LaunchWorker, thread: ThreadKey
) -> None:
    with anyio.fail_after(180):
        async with launch(thread, ThreadOptions(), TOKEN) as worker:
            worker.stop(60)
            with pytest.raises(WorkerLost):
                worker.send(b"late")
            await lines_of(worker)
            with pytest.raises(WorkerLost):
                worker.send(b"later")


async def test_a_worker_that_is_gone_says_why(launch: LaunchWorker, thread: ThreadKey) -> None:
    with anyio.fail_after(180):
        async with launch(thread, ThreadOptions(), TOKEN) as worker:
            worker.stop(60)
            worker.stop(120)
            await lines_of(worker)
            assert worker.exit_reason() == "exited with code 0"
            assert worker.pid > 0


async def test_a_launch_that_fails_says_where_and_why(launch: LaunchWorker) -> None:
    nowhere = ThreadKey("/no/such/dir", ConversationId("c1"))
    with pytest.raises(LaunchFailed, match=r"/no/such/dir.*does not exist"):
        async with launch(nowhere, ThreadOptions(), TOKEN):
            pytest.fail("there is no such directory")


async def test_leaving_the_block_ends_a_worker_that_nobody_stopped(
    launch: LaunchWorker, thread: ThreadKey
) -> None:
    with anyio.fail_after(180):
        async with launch(thread, ThreadOptions(), TOKEN) as worker:
            worker.send(b"x")
        with pytest.raises(WorkerLost):
            worker.send(b"y")
