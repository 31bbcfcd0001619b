"""Clients from inside a worker: told by its token, or by their process, whatever they say."""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest

from agui.hello import BadHello
from agui.peers import Peers
from agui.process_tree import ProcessTree
from agui.websocket_client import WebSocketClient
from sessions.domain.keys import ConversationId, ThreadKey
from sessions.domain.ports import Client, ThreadView
from tests.agui.fakes import FakeThreads
from tests.agui.scenes import TOKEN, Scene, binding, closing, hello, said

A = ThreadKey("/p", ConversationId("a"))
VIEW = ThreadView(
    project_dir="/p",
    conversation_id="a",
    status="running",
    run_id="r",
    interrupts=("i",),
    followers=1,
    worker_pid=2**30,
    generation="g",
    since=0.0,
)

needs_proc = pytest.mark.skipif(
    not os.path.exists("/proc/self/stat"),  # noqa: PTH110
    reason="processes are recognised on Linux only",
)


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


def inside_of(client: Client) -> ThreadKey | None:
    assert isinstance(client, WebSocketClient)
    return client.inside


async def test_a_persons_client_is_not_inside() -> None:
    async with binding(FakeThreads(known=(VIEW,))) as scene, scene.client() as socket:
        assert inside_of(await scene.known(socket)) is None


async def test_a_workers_token_lets_in_and_says_whose_it_is() -> None:
    async with binding(FakeThreads(worker_tokens={"w": A})) as scene, scene.dial() as socket:
        await socket.send(hello(client="desktop", token="w"))
        await said(socket)
        assert inside_of(await scene.known(socket)) == A


async def test_a_workers_token_is_no_token_for_http() -> None:
    async with binding(FakeThreads(worker_tokens={"w": A})) as scene:
        stream = await anyio.connect_tcp("127.0.0.1", scene.port)
        async with stream:
            await stream.send(
                b"GET /status HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer w\r\n\r\n"
                % scene.port
            )
            with anyio.fail_after(60):
                assert (await stream.receive()).startswith(b"HTTP/1.1 401 ")


async def test_a_program_inside_a_worker_is_not_the_browsers_extension() -> None:
    """It would take the person's browser away and answer in its place."""
    threads = FakeThreads(worker_tokens={"w": A})
    async with binding(threads) as scene, scene.client("extension") as extension:
        async with scene.dial() as socket:
            await socket.send(hello(client="extension", token="w"))
            assert await closing(socket) == ([], None)
        await scene.known(extension)


DIALLER = """
import json, sys
from websockets.sync.client import connect
url, token = sys.argv[1:]
with connect(url, proxy=None, open_timeout=60) as socket:
    socket.send(json.dumps({"type": "browser_hello", "client": "desktop", "token": token}))
    try:
        socket.recv()
        socket.send('{"type":"here"}')
        sys.stdin.read()
    except Exception as exc:
        sys.exit(7)
"""


@asynccontextmanager
async def a_command_of_a_worker(
    scene: Scene, **environ: str
) -> AsyncGenerator[subprocess.Popen[bytes]]:
    """A process that dials with the daemon's own token, as an agent's shell command could."""
    process = subprocess.Popen(
        [sys.executable, "-c", DIALLER, scene.url, TOKEN],
        stdin=subprocess.PIPE,
        env=os.environ | environ,
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        scene.threads.known = (replace(VIEW, worker_pid=process.pid),) if not environ else ()
        yield process
    finally:
        process.stdin.close()
        process.kill()
        process.wait(60)


@needs_proc
async def test_the_daemons_own_token_does_not_help_a_command_of_an_agent() -> None:
    async with binding() as scene, a_command_of_a_worker(scene):
        assert inside_of(await scene.threads.wait_for_client()) == A


@needs_proc
async def test_one_that_left_the_tree_is_known_by_the_token_it_was_born_with() -> None:
    async with (
        binding(FakeThreads(worker_tokens={"w": A})) as scene,
        a_command_of_a_worker(scene, ROOST_WORKER_TOKEN="w", ROOST_BINDING__URL=scene.url),
    ):
        assert inside_of(await scene.threads.wait_for_client()) == A


@needs_proc
async def test_what_a_worker_that_is_gone_has_left_behind_does_not_get_in() -> None:
    async with binding() as scene:
        async with a_command_of_a_worker(
            scene, ROOST_WORKER_TOKEN="gone", ROOST_BINDING__URL=scene.url
        ) as process:
            with anyio.fail_after(60):
                code = await anyio.to_thread.run_sync(process.wait)
            assert code == 7
        assert scene.threads.handled == []


async def test_many_that_come_at_once_share_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look costs milliseconds, and a thousand clients may come back at once."""
    looks = 0

    def origins(tree: ProcessTree) -> dict[int, int | str]:
        nonlocal looks
        looks += 1
        return {7: 2**30, 8: "gone", 9: "w"}

    monkeypatch.setattr(ProcessTree, "origins", origins)
    peers = Peers(FakeThreads(known=(VIEW,), worker_tokens={"w": A}), 1)
    found: list[ThreadKey | None] = []

    async def ask(port: int) -> None:
        found.append(await peers.inside(port))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(ask, 7)
    assert found == [A] * 50
    assert looks <= 2
    looks = 0
    assert await peers.inside(9) == A
    assert await peers.inside(10) is None
    with pytest.raises(BadHello, match="gone"):
        await peers.inside(8)
    assert looks == 3, "a look from before a client came says nothing of it"


async def test_a_look_that_fails_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def origins(tree: ProcessTree) -> dict[int, int | str]:
        raise OSError

    monkeypatch.setattr(ProcessTree, "origins", origins)
    assert await Peers(FakeThreads(), 1).inside(7) is None
