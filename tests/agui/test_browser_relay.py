"""The relay on the clock (a virtual one) and on real sockets."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest

from agui.browser_relay import ExtensionRelay
from agui.hello import Hello
from agui.outbox import Outbox
from agui.websocket_client import WebSocketClient
from sessions.domain.keys import ConversationId, Cursor, ThreadKey
from sessions.domain.ports import BrowserRelay
from tests.agui.scenes import ACK, binding, closing, hello, said
from tests.agui.test_browser_turns import command, result
from tests.support.time import virtual_time

_conforms: type[BrowserRelay] = ExtensionRelay

on_sockets = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class ListWire:
    """A wire that keeps what is written."""

    @property
    def encode(self) -> Callable[[bytes], bytes]:
        return bytes

    def encode_row(self, events: Sequence[tuple[bytes, Cursor]]) -> bytes | None:
        return None

    def keeps_up(self) -> bool:
        return False

    def write_now(self, frames: list[bytes]) -> None: ...

    async def write(self, frames: list[bytes]) -> None: ...

    def abort(self) -> None: ...


def a_client(kind: Any, version: str | None = None) -> WebSocketClient:
    attributes = {} if version is None else {"extension_version": version}
    said_hello = Hello(kind=kind, protocol_version=2, attributes=attributes)
    return WebSocketClient(said_hello, ListWire(), Outbox(100, 10_000), anyio.CancelScope())


def got(client: WebSocketClient) -> list[dict[str, Any]]:
    return [json.loads(frame) for frame in client.outbox.take()]


@virtual_time
async def test_a_silent_browser_costs_a_caller_its_own_deadline_and_no_more() -> None:
    relay = ExtensionRelay(1000)
    relay.join(a_client("extension"))
    ends: dict[str, float] = {}
    begin = anyio.current_time()

    async def forward(id_: str, **members: Any) -> None:
        answer = json.loads(await relay.forward(command(id_, **members)))
        assert answer["id"] == id_
        ends[id_] = anyio.current_time() - begin

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: forward("a", timeout_ms=2000))
        tasks.start_soon(lambda: forward("b", timeout_ms=1000))
        tasks.start_soon(lambda: forward("c"))
    assert ends == pytest.approx({"b": 6, "a": 7, "c": 35})


@virtual_time
async def test_a_caller_that_leaves_keeps_the_turn_and_the_next_gets_it_at_that_deadline() -> None:
    relay = ExtensionRelay(1000)
    extension = a_client("extension")
    relay.join(extension)
    begin = anyio.current_time()
    answers: list[bytes] = []
    async with anyio.create_task_group() as tasks:
        with anyio.move_on_after(1):
            await relay.forward(command("a", timeout_ms=10_000))

        async def second() -> None:
            answers.append(await relay.forward(command("b")))

        tasks.start_soon(second)
        while len(extension.outbox._frames) < 2:  # noqa: ASYNC110, SLF001 # pyright: ignore
            await anyio.sleep(0.5)
        assert anyio.current_time() - begin == pytest.approx(15, abs=0.6)
        relay.take_result(extension, result("b"))
    assert answers == [result("b")]


@virtual_time
async def test_everyone_else_hears_of_each_coming_and_going() -> None:
    relay = ExtensionRelay(1000)
    desktop = a_client("desktop")
    relay.join(desktop)
    first, second = a_client("extension", "1"), a_client("extension", "2")
    relay.join(first)
    relay.join(second)
    relay.leave(first)
    relay.leave(second)
    shape = {"type": "browser_extension_status", "protocol_version": 1}
    assert got(desktop) == [
        {**shape, "connected": False},
        {**shape, "connected": True, "extension_version": "1"},
        {**shape, "connected": True, "extension_version": "2"},
        {**shape, "connected": False},
    ]
    assert got(first) == got(second) == []


def status_of(frame: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(frame)
    assert told.pop("type") == "browser_extension_status"
    assert told.pop("protocol_version") == 1
    return told


@on_sockets
async def test_a_desktop_that_comes_later_hears_of_the_extension_first() -> None:
    async with binding() as scene, scene.client("extension"), scene.dial() as socket:
        await socket.send(hello(client="desktop"))
        assert await said(socket) == ACK
        assert status_of(await said(socket)) == {"connected": True, "extension_version": "1.2.3"}


@on_sockets
async def test_a_desktop_hears_of_an_extension_that_comes_and_goes() -> None:
    async with binding() as scene, scene.client() as desktop:
        async with scene.client("extension"):
            assert status_of(await said(desktop))["connected"] is True
        assert status_of(await said(desktop)) == {"connected": False}


@on_sockets
async def test_a_command_of_a_client_is_answered_on_its_connection_only() -> None:
    async with binding() as scene, scene.client("extension") as extension:
        async with scene.client("browser") as asks, scene.client() as other:
            await asks.send(command("a").decode())
            assert json.loads(await said(extension))["id"] == "a"
            await extension.send(result("a").decode())
            assert await said(asks) == result("a").decode()
            (await scene.known(other)).deliver(b'"next"', None)
            assert await said(other) == '"next"'
        assert all(b"browser_" not in frame for frame in scene.threads.frames)


@on_sockets
async def test_a_hello_without_a_kind_serves_as_the_extension() -> None:
    async with binding() as scene, scene.dial() as socket, scene.client() as asks:
        await socket.send(hello(client=None))
        assert await said(socket) == ACK
        assert status_of(await said(asks))["connected"] is True
        await asks.send(command("a").decode())
        assert json.loads(await said(socket))["id"] == "a"


@on_sockets
async def test_without_an_extension_the_error_names_the_port() -> None:
    async with binding() as scene, scene.client() as asks:
        await asks.send(command("a").decode())
        answer = json.loads(await said(asks))
        assert answer["id"] == "a"
        assert str(scene.port) in answer["error"]
        assert "token" in answer["error"]


@on_sockets
async def test_a_second_extension_takes_over_and_the_first_is_closed() -> None:
    async with binding() as scene, scene.client("extension") as first, scene.client() as asks:
        await asks.send(command("a").decode())
        await said(first)
        async with scene.client("extension") as second:
            assert status_of(await said(asks))["connected"] is True
            assert "replaced" in json.loads(await said(asks))["error"]
            assert await closing(first) == ([], 4001)
            await asks.send(command("b").decode())
            assert json.loads(await said(second))["id"] == "b"


@on_sockets
@pytest.mark.parametrize("kind", ["desktop", "browser"])
async def test_no_other_kind_replaces_the_extension(kind: str) -> None:
    async with (
        binding() as scene,
        scene.client("extension") as extension,
        scene.client(kind) as asks,
    ):
        await asks.send(command("a").decode())
        assert json.loads(await said(extension))["id"] == "a"


@on_sockets
async def test_a_wrong_hello_does_not_replace_the_extension() -> None:
    async with binding() as scene, scene.client("extension") as extension:
        async with scene.dial() as socket:
            await socket.send(hello(client="extension", token="wrong"))
            assert await closing(socket) == ([], None)
        async with scene.client() as asks:
            await asks.send(command("a").decode())
            assert json.loads(await said(extension))["id"] == "a"


@on_sockets
async def test_a_command_of_the_extension_itself_goes_to_the_registry() -> None:
    async with binding() as scene, scene.client("extension") as extension:
        await extension.send(command("a").decode())
        await scene.threads.wait_for(lambda: scene.threads.frames == [command("a")])


@on_sockets
@pytest.mark.parametrize("kind", ["extension", "desktop"])
async def test_a_result_that_nobody_waits_for_goes_nowhere(kind: str) -> None:
    async with binding() as scene, scene.client(kind) as socket:
        await socket.send(result("zzz").decode())
        await scene.known(socket)
        assert len(scene.threads.frames) == 1  # the mark


@on_sockets
async def test_a_text_that_only_mentions_a_command_is_none_of_the_relays_business() -> None:
    frame = json.dumps({"type": "run_agent_input", "input": {"x": {"type": "browser_command"}}})
    async with binding() as scene, scene.client() as socket:
        await socket.send(frame)
        await scene.threads.wait_for(lambda: scene.threads.frames == [frame.encode()])


@on_sockets
async def test_a_program_inside_a_worker_does_not_command_the_browser() -> None:
    async with binding() as scene, scene.client("extension"):
        key = ThreadKey("/p", ConversationId("c"))
        scene.threads.worker_tokens["w"] = key
        async with scene.dial() as socket:
            await socket.send(hello(client="desktop", token="w"))
            await said(socket)
            await said(socket)
            await socket.send(command("a").decode())
            assert "may not command the browser" in json.loads(await said(socket))["error"]
