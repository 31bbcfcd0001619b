"""Connections that say nothing: they are ended in time, and there are not too many of them."""

from contextlib import AsyncExitStack, suppress

import anyio
import pytest
from anyio.abc import SocketStream
from websockets.exceptions import InvalidStatus

from tests.agui.scenes import Scene, binding, closing, hello, said
from tests.support.time import later


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


async def connected(scene: Scene) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", scene.port)


async def with_an_answer(scene: Scene) -> SocketStream:
    """A connection whose first request was answered: on a busy machine it may come too late."""
    with anyio.fail_after(60):
        while True:
            stream = await connected(scene)
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await stream.send(b"GET /none HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % scene.port)
                assert (await stream.receive()).startswith(b"HTTP/1.1 404 ")
                return stream
            await stream.aclose()


async def rest(stream: SocketStream) -> bytes:
    """What still comes before the other side closes."""
    received = b""
    with anyio.fail_after(60):
        try:
            async for data in stream:
                received += data
        except anyio.BrokenResourceError:
            pass
    return received


@pytest.mark.parametrize("beginning", [b"", b"GET /status HTTP/1.1\r\nHost: x\r\nX-Slow: "])
async def test_one_that_never_finishes_asking_is_ended(beginning: bytes) -> None:
    async with binding(header_timeout=0.2) as scene, await connected(scene) as stream:
        if beginning:
            await stream.send(beginning)
        assert await rest(stream) == b""


async def test_one_that_drips_its_request_is_ended_all_the_same() -> None:
    async with binding(header_timeout=0.3) as scene, await connected(scene) as stream:
        await stream.send(b"GET / HTTP/1.1\r\n")
        with anyio.fail_after(60), pytest.raises(anyio.BrokenResourceError):
            while True:
                await stream.send(b"X-Drip: 1\r\n")
                await anyio.sleep(0.05)


async def test_a_second_request_must_be_finished_in_time_too() -> None:
    async with binding(header_timeout=0.3) as scene, await with_an_answer(scene) as stream:
        await stream.send(b"GET /none HTT")
        await rest(stream)


async def test_a_websocket_outlives_that_deadline() -> None:
    async with binding(header_timeout=10) as scene, scene.client() as socket:
        client = await scene.known(socket)
        later(11)
        await anyio.wait_all_tasks_blocked()
        client.deliver(b'"here"', None)
        assert await said(socket) == '"here"'


async def test_too_many_silent_connections_are_refused_and_the_others_go_on() -> None:
    async with (
        binding(most_strangers=5) as scene,
        scene.client() as socket,
        AsyncExitStack() as held,
    ):
        for _ in range(5):
            await held.enter_async_context(await connected(scene))
        async with await connected(scene) as one_more:
            assert (await rest(one_more)).startswith(b"HTTP/1.1 503 ")
        await scene.known(socket)
        await held.aclose()
        with anyio.fail_after(60):
            while True:
                async with await connected(scene) as again:
                    await again.send(b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % scene.port)
                    if (await again.receive()).startswith(b"HTTP/1.1 404 "):
                        break


async def test_too_many_that_do_not_say_hello_are_refused() -> None:
    async with binding(most_strangers=2) as scene:
        async with scene.dial() as one, scene.dial() as two:
            with pytest.raises(InvalidStatus, match="403"):
                async with scene.dial():
                    pass
            for stranger in (one, two):
                await stranger.send(hello(token="wrong"))
                assert await closing(stranger) == ([], None)
        async with scene.client() as socket:
            await scene.known(socket)
