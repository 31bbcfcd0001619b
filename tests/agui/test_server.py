"""The port: who may knock, what is served, and how it stops."""

import http.client
import json
import socket
from collections.abc import Mapping

import anyio
import anyio.to_thread
import pytest
from websockets.exceptions import InvalidStatus

from agui.server import PortTaken, listen
from agui.settings import BindingSettings
from sessions.domain.ports import ThreadView
from tests.agui.fakes import FakeThreads
from tests.agui.scenes import TOKEN, binding, closing
from tests.support.ports import a_port_to_keep


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


async def get(
    port: int, path: str, headers: Mapping[str, str], method: str = "GET"
) -> tuple[int, bytes]:
    """One request, with exactly these headers on top of a good Host."""

    def request() -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request(method, path, headers=dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    with anyio.fail_after(60):
        return await anyio.to_thread.run_sync(request)


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        ("chrome-extension://abc", True),
        ("moz-extension://abc", True),
        ("safari-web-extension://abc", True),
        ("http://127.0.0.1:{port}", True),
        ("http://localhost:{port}", True),
        ("http://127.0.0.1", False),
        ("http://localhost:1", False),
        ("https://localhost:{port}", False),
        ("null", False),
        ("https://evil/?chrome-extension://", False),
    ],
)
async def test_the_origin_decides_before_the_upgrade(origin: str | None, allowed: bool) -> None:
    async with binding() as scene:
        headers = {"Origin": origin.format(port=scene.port)} if origin else {}
        if allowed:
            async with scene.client(additional_headers=headers):
                return
        with pytest.raises(InvalidStatus) as refused:
            async with scene.dial(additional_headers=headers):
                pass
        assert refused.value.response.status_code == 403
        assert scene.threads.handled == []


async def test_a_foreign_host_is_refused_before_the_upgrade() -> None:
    """A name of an attacker's that points to 127.0.0.1 must not get in."""
    async with binding() as scene:
        reader = await anyio.connect_tcp("127.0.0.1", scene.port)
        async with reader:
            await reader.send(
                b"GET /ws HTTP/1.1\r\nHost: evil.example:80\r\nUpgrade: websocket\r\n"
                b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            with anyio.fail_after(60):
                assert (await reader.receive()).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("path", ["/", "/ws", "/nothing", "/statuses", "/agui", "/artifacts/x/y"])
async def test_other_paths_are_404(path: str) -> None:
    async with binding() as scene:
        status, _ = await get(scene.port, path, {})
        assert status == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": f"Bearer {TOKEN}"}, 200),
        ({"Authorization": f"bearer {TOKEN}"}, 200),
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Authorization": TOKEN}, 401),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "https://evil"}, 403),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "evil:80"}, 400),
    ],
)
async def test_status_needs_host_origin_and_token(headers: dict[str, str], status: int) -> None:
    async with binding() as scene:
        assert (await get(scene.port, "/status", headers))[0] == status


async def test_status_only_takes_get() -> None:
    async with binding() as scene:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert (await get(scene.port, "/status", headers, "POST"))[0] == 405


async def test_status_tells_the_threads_with_ages() -> None:
    view = ThreadView(
        project_dir="/p",
        conversation_id="c",
        status="waiting",
        run_id="r",
        interrupts=("i",),
        followers=2,
        worker_pid=7,
        generation="g",
        since=anyio.current_time() - 60,
    )
    async with binding(FakeThreads(known=(view,))) as scene:
        _, body = await get(scene.port, "/status", {"Authorization": f"Bearer {TOKEN}"})
    told = json.loads(body)
    (thread,) = told["threads"]
    assert 60 <= thread.pop("for_seconds") < 3600
    assert thread == {
        "project_dir": "/p",
        "conversation_id": "c",
        "status": "waiting",
        "run_id": "r",
        "interrupts": ["i"],
        "followers": 2,
        "worker_pid": 7,
        "generation": "g",
        "parent": None,
        "answered_by": None,
        "is_answering": False,
    }
    assert told["version"] == "9.9.9"
    assert told["protocol_version"] == 2


def test_a_taken_port_is_one_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=rf"127\.0\.0\.1:{port} .*ROOST_BINDING__PORT"):
            listen(port)


@pytest.mark.parametrize("token", ["", "  "])
def test_an_empty_token_never_gets_as_far_as_listening(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        BindingSettings(token=token)


async def test_the_port_is_free_again_after_a_stop() -> None:
    async with binding(port=a_port_to_keep()) as scene, scene.client() as client:
        await scene.known(client)
    async with binding(port=scene.port) as again, again.client():
        pass


async def test_a_stop_ends_the_streams_before_it_returns() -> None:
    """Who stops the workers afterwards must not meet a client that would be told of it."""
    codes: list[int | None] = []
    async with anyio.create_task_group() as tasks:
        async with binding() as scene:
            connected = anyio.Event()

            async def client() -> None:
                async with scene.client() as socket:
                    await scene.known(socket)
                    connected.set()
                    codes.append((await closing(socket))[1])

            tasks.start_soon(client)
            with anyio.fail_after(60):
                await connected.wait()
        assert len(scene.threads.detached) == 1
    assert codes == [1001]
