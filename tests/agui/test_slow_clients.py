"""Clients that do not read, do not answer, or read slowly: they are cut off, and nobody waits."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from socket import IPPROTO_TCP, TCP_NODELAY

import anyio
import pytest
from structlog.testing import capture_logs
from websockets.asyncio.client import ClientConnection

from agui.hello import Hello
from agui.outbox import Outbox
from agui.websocket_client import WebSocketClient
from agui.wire import TransportWire
from sessions.domain.keys import Cursor
from sessions.domain.ports import Client
from tests.agui.fakes import FakeThreads, live
from tests.agui.scenes import answered, binding, pinged, said
from tests.support.time import later

HALF_MIB = b'"' + b"x" * (512 * 1024 - 2) + b'"'


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


def stop_reading(connection: ClientConnection) -> None:
    """From now on nothing is read from the socket, not even pings."""
    connection.transport.pause_reading()


async def test_a_client_that_does_not_read_is_cut_off_and_nobody_else_notices() -> None:
    """One closed laptop must not stop a run for everybody, nor fill the memory."""
    async with binding() as scene, scene.client() as stuck, scene.client("desktop") as reading:
        slow, fast = await scene.known(stuck), await scene.known(reading)
        stop_reading(stuck)
        got = 0
        for sequence in range(3 * 64 + 16):
            slow.deliver(HALF_MIB, live(sequence))
            fast.deliver(HALF_MIB, live(sequence))
            assert len(await said(reading)) == len(HALF_MIB)
            got += 1
        assert got == 3 * 64 + 16
        await scene.threads.wait_for(lambda: slow in scene.threads.detached)
        assert scene.threads.detached == [slow]


async def test_a_small_event_does_not_wait_for_the_acknowledgement_of_the_one_before() -> None:
    """With Nagle's algorithm on, words that come one by one reach a client in lumps."""
    async with binding() as scene, scene.client() as socket:
        client = await scene.known(socket)
        assert isinstance(client, WebSocketClient)
        assert isinstance(client.wire, TransportWire)
        accepted = client.wire.connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(IPPROTO_TCP, TCP_NODELAY)


async def test_the_log_says_why_it_was_cut_off() -> None:
    with capture_logs() as logs:
        async with binding(outbox_bytes=100_000) as scene, scene.client() as stuck:
            client = await scene.known(stuck)
            stop_reading(stuck)
            for sequence in range(64):
                client.deliver(HALF_MIB, live(sequence))
            await scene.threads.wait_for(lambda: scene.threads.detached == [client])
    (ended,) = [log for log in logs if log["event"] == "client_disconnected"]
    assert ended["reason"] == "it did not keep up with its events"


async def test_what_a_client_that_keeps_up_gets_is_written_in_the_same_turn() -> None:
    """Waking a task for every client and line costs more than the write itself."""
    async with binding() as scene, scene.client() as socket:
        client = await scene.known(socket)
        assert isinstance(client, WebSocketClient)
        await anyio.wait_all_tasks_blocked()
        client.deliver_row([(b'{"n":1}', live(1)), (b'{"n":2}', live(2))])
        assert not client.outbox
        assert await said(socket) == '{"n":1}'
        client.deliver(b'{"n":3}', live(3))
        client.deliver_row([(b'{"n":4}', live(4))])
        assert client.outbox
        assert [await said(socket) for _ in range(3)] == ['{"n":2}', '{"n":3}', '{"n":4}']


async def test_the_write_deadline_holds_also_for_what_was_written_at_once() -> None:
    """No later event comes to notice that the client took nothing of this one."""
    async with binding(write_timeout=0.2) as scene, scene.client() as stuck:
        client = await scene.known(stuck)
        stop_reading(stuck)
        await anyio.wait_all_tasks_blocked()
        client.deliver_row([(HALF_MIB, live(sequence)) for sequence in range(16)])
        await scene.threads.wait_for(lambda: scene.threads.detached == [client])


async def test_a_client_that_takes_nothing_for_the_write_deadline_is_cut_off() -> None:
    """Its answers are exempt from the limits, so that only time tells."""
    async with binding(write_timeout=0.2) as scene, scene.client() as stuck:
        client = await scene.known(stuck)
        stop_reading(stuck)
        for _ in range(16):
            client.deliver(HALF_MIB, None)
        await scene.threads.wait_for(lambda: scene.threads.detached == [client])


async def test_a_client_that_does_not_answer_pings_is_cut_off() -> None:
    """A close frame would wait behind what it does not read, and it would stay for ever."""
    async with binding(write_timeout=3600) as scene, scene.client() as stuck:
        client = await scene.known(stuck)
        stop_reading(stuck)
        for _ in range(16):
            client.deliver(HALF_MIB, None)
        await pinged(client, 20)
        later(20)
        await scene.threads.wait_for(lambda: scene.threads.detached == [client])


async def test_a_client_that_answers_pings_stays() -> None:
    async with binding() as scene, scene.client() as quiet:
        client = await scene.known(quiet)
        for _ in range(8):
            await pinged(client, 20)
            await answered(client)
            assert not scene.threads.detached
        client.deliver(b"{}", live(1))
        assert await said(quiet) == "{}"


async def test_a_client_that_lets_its_answers_pile_up_is_not_read_from() -> None:
    """Else asking for snapshots without reading them would fill the memory."""
    answers = 0

    def answer(client: Client, frame: bytes) -> None:
        nonlocal answers
        if frame == b'"more"':
            answers += 1
            client.deliver(HALF_MIB, None)

    threads = FakeThreads(on_frame=answer)
    async with binding(threads, outbox_bytes=2 * 2**20) as scene, scene.client() as greedy:
        await scene.known(greedy)
        stop_reading(greedy)
        for _ in range(100):
            await greedy.send('"more"')
        await scene.threads.wait_for(lambda: answers >= 3)
        await anyio.sleep(0.2)  # nothing can announce that nothing more happens
        assert answers < 10
        greedy.transport.resume_reading()
        for _ in range(100):
            assert len(await said(greedy)) == len(HALF_MIB)


async def test_hanging_up_in_the_middle_of_a_decision_never_calls_back() -> None:
    """`deliver` runs inside the registry's own loops: a detach from there would change them."""
    async with binding(outbox_frames=1, outbox_bytes=10) as scene, scene.client() as stuck:
        client = await scene.known(stuck)
        stop_reading(stuck)
        for sequence in range(40):
            client.deliver(HALF_MIB, live(sequence))
        assert isinstance(client, WebSocketClient)
        assert client.hung_up is not None
        assert scene.threads.detached == []
        await scene.threads.wait_for(lambda: scene.threads.detached == [client])


async def test_stopping_does_not_wait_for_a_client_that_does_not_read() -> None:
    with anyio.fail_after(60):
        async with binding(farewell_timeout=0.1) as scene, scene.client() as stuck:
            client = await scene.known(stuck)
            stop_reading(stuck)
            for _ in range(32):
                client.deliver(HALF_MIB, None)
            stuck.transport.abort()
            with suppress(Exception):
                await stuck.recv()


class WriteOnlyWire:
    """A wire that a test lets through, frame by frame."""

    def __init__(self) -> None:
        self.written: list[list[bytes]] = []
        self.aborted = False
        self.gate = anyio.Event()

    @property
    def encode(self) -> Callable[[bytes], bytes]:
        return bytes

    def encode_row(self, events: Sequence[tuple[bytes, Cursor]]) -> bytes | None:
        return b"".join(frame for frame, _ in events)

    def keeps_up(self) -> bool:
        return False

    def write_now(self, frames: list[bytes]) -> None: ...

    async def write(self, frames: list[bytes]) -> None:
        self.written.append(frames)
        await self.gate.wait()

    def abort(self) -> None:
        self.aborted = True


async def test_all_that_comes_during_a_write_goes_into_the_next_one() -> None:
    wire = WriteOnlyWire()
    said_hello = Hello(kind="desktop", protocol_version=2, attributes={})
    client = WebSocketClient(said_hello, wire, Outbox(100, 100), anyio.CancelScope())
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.write_out)
            client.deliver(b"1", live(1))
            await anyio.wait_all_tasks_blocked()
            for frame in (b"2", b"3", b"4"):
                client.deliver(frame, live(2))
            client.end()
            wire.gate.set()
    assert wire.written == [[b"1"], [b"2", b"3", b"4"]]
