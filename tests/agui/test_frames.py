"""Frames between a client and the registry on real sockets."""

import json
from collections.abc import AsyncIterator
from contextlib import suppress

import anyio
import pytest
from websockets.exceptions import ConnectionClosed

from sessions.domain.ports import Client
from tests.agui.fakes import FakeThreads, live
from tests.agui.scenes import binding, closing, said


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


@pytest.mark.parametrize(
    "frame", ['{"type":"ping"}', '{"type":"zzz"}', '{"type":"ZZZ"}', "no json", "", '"é\U0001f600"']
)
async def test_frames_reach_the_registry_as_they_came_and_get_no_answer(frame: str) -> None:
    """What a frame means, and whether it is one, is the registry's to say."""
    async with binding() as scene, scene.client() as socket:
        await socket.send(frame)
        client = await scene.known(socket)
        assert scene.threads.frames[0] == frame.encode()
        client.deliver(b"{}", None)
        assert await said(socket) == "{}"


@pytest.mark.parametrize("size", [2, 125, 126, 127, 65_535, 65_536, 3_000_000])
async def test_delivered_bytes_arrive_as_they_are_at_every_client(size: int) -> None:
    frame = b"'" + b"x" * (size - 2) + b"'"
    async with binding() as scene, scene.client() as one, scene.client("desktop") as two:
        for client in (await scene.known(one), await scene.known(two)):
            client.deliver(frame, live(1))
        assert (await said(one)).encode() == frame
        assert (await said(two)).encode() == frame


async def test_what_is_delivered_at_once_arrives_in_order_one_frame_each() -> None:
    frames = [b'{"n":%d}' % n for n in range(1000)]
    async with binding() as scene, scene.client() as socket:
        client = await scene.known(socket)
        for n, frame in enumerate(frames):
            client.deliver(frame, live(n) if n % 3 else None)
        assert [(await said(socket)).encode() for _ in frames] == frames


async def test_events_in_a_row_arrive_in_order_one_frame_each() -> None:
    async with binding() as scene, scene.client() as one, scene.client() as two:
        clients = [await scene.known(one), await scene.known(two)]
        row = [(json.dumps(n).encode(), live(n)) for n in range(300)]
        for client in clients:
            client.deliver(b'"before"', live(0))
            client.deliver_row(row)
            client.deliver(b'"after"', None)
        for socket in (one, two):
            assert await said(socket) == '"before"'
            assert [await said(socket) for _ in row] == [str(n) for n in range(300)]
            assert await said(socket) == '"after"'


async def test_a_burst_larger_than_the_outbox_reaches_a_client_that_reads() -> None:
    """One read of a worker's output can hold more lines than the outbox has room for."""
    frames = [b'{"n":%d}' % n for n in range(5000)]
    async with binding(outbox_frames=100) as scene, scene.client() as socket:
        client = await scene.known(socket)
        for n, frame in enumerate(frames):
            client.deliver(frame, live(n))
        assert [(await said(socket)).encode() for _ in frames] == frames


async def test_a_client_that_leaves_is_detached_exactly_once() -> None:
    async with binding() as scene:
        async with scene.client() as socket:
            client = await scene.known(socket)
        await scene.threads.wait_for(lambda: scene.threads.detached != [])
        assert scene.threads.detached == [client]
    assert scene.threads.detached == [client]


async def test_a_client_whose_connection_breaks_is_detached_exactly_once() -> None:
    async with binding() as scene:
        async with scene.client() as socket:
            client = await scene.known(socket)
            socket.transport.abort()
            await scene.threads.wait_for(lambda: scene.threads.detached != [])
        assert scene.threads.detached == [client]


async def test_delivering_to_a_client_that_is_gone_does_nothing() -> None:
    async with binding() as scene:
        async with scene.client() as socket:
            client = await scene.known(socket)
        await scene.threads.wait_for(lambda: scene.threads.detached != [])
        client.deliver(b"{}", live(1))
        client.deliver(b"{}", None)


async def test_a_binary_message_closes_with_1003() -> None:
    async with binding() as scene, scene.client() as socket:
        client = await scene.known(socket)
        await socket.send(b"\x00")
        assert await closing(socket) == ([], 1003)
        await scene.threads.wait_for(lambda: scene.threads.detached == [client])


async def test_a_frame_over_the_limit_closes_with_1009_and_never_reaches_the_registry() -> None:
    async with binding(max_frame_bytes=100_000) as scene, scene.client() as socket:
        await socket.send("x" * 100_000)
        client = await scene.known(socket)
        await socket.send("x" * 5_000_000)
        assert await closing(socket) == ([], 1009)
        await scene.threads.wait_for(lambda: scene.threads.detached == [client])
        assert [len(frame) for frame in scene.threads.frames if frame[:1] == b"x"] == [100_000]


async def test_a_frame_in_fragments_over_the_limit_closes_with_1009() -> None:
    async def pieces() -> AsyncIterator[str]:
        for _ in range(100):
            yield "x" * 2_000

    async with binding(max_frame_bytes=100_000) as scene, scene.client() as socket:
        with anyio.fail_after(60):
            with suppress(ConnectionClosed):
                await socket.send(pieces())
        assert await closing(socket) == ([], 1009)


async def test_invalid_utf_8_closes_with_1007() -> None:
    async with binding() as scene, scene.client() as socket:
        client = await scene.known(socket)
        await socket.send(b"\xff\xfe", text=True)
        assert await closing(socket) == ([], 1007)
        await scene.threads.wait_for(lambda: scene.threads.detached == [client])


async def test_an_error_in_the_registry_ends_that_connection_only() -> None:
    def fail(client: Client, frame: bytes) -> None:
        if frame == b'"boom"':
            raise ZeroDivisionError

    threads = FakeThreads(on_frame=fail)
    async with binding(threads) as scene, scene.client() as other, scene.client() as socket:
        client = await scene.known(socket)
        await socket.send('"boom"')
        await closing(socket)
        await threads.wait_for(lambda: threads.detached == [client])
        (await scene.known(other)).deliver(b"{}", None)
        assert await said(other) == "{}"


async def test_stopping_writes_what_waits_then_closes_with_1001_and_detaches() -> None:
    async with binding() as scene, scene.client() as socket:
        client = await scene.known(socket)
        ended = anyio.Event()

        async def read() -> None:
            assert await closing(socket) == (["{}"], 1001)
            ended.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            client.deliver(b"{}", live(1))
            client.end()  # type: ignore[attr-defined] # pyright: ignore
            with anyio.fail_after(60):
                await ended.wait()
    assert scene.threads.detached == [client]
