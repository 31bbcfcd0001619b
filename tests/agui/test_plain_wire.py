"""The same promises on a server that lends no transport: one `send` per frame, through ASGI."""

from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from agui.browser_relay import ExtensionRelay
from agui.hello import ACK
from agui.peers import Peers
from agui.settings import BindingSettings
from agui.websocket import WebSocketEndpoint
from tests.agui.fakes import FakeThreads, live
from tests.agui.scenes import NO_EXTENSION, TOKEN, hello

SCOPE: dict[str, Any] = {"type": "websocket", "path": "/ws", "headers": []}


class AnyServer:
    """What an ASGI server does for one connection. `stuck` makes `send` wait for ever."""

    def __init__(self, threads: FakeThreads, **limits: Any) -> None:
        settings = BindingSettings(token=TOKEN, **limits)
        self.endpoint = WebSocketEndpoint(
            threads, settings, ExtensionRelay(1_000_000), Peers(threads, 1)
        )
        self.to_app: MemoryObjectSendStream[Any]
        self.from_client: MemoryObjectReceiveStream[Any]
        self.to_app, self.from_client = anyio.create_memory_object_stream[Any](100)
        self.sent: list[Any] = []
        self.stuck = False

    async def send(self, message: Any) -> None:
        if self.stuck:
            await anyio.sleep_forever()
        self.sent.append(message)

    async def run(self) -> None:
        with self.to_app, self.from_client:
            await self.endpoint(SCOPE, self.from_client.receive, self.send)

    def says(self, text: str) -> None:
        self.to_app.send_nowait({"type": "websocket.receive", "text": text})

    @property
    def frames(self) -> list[str]:
        return [message["text"] for message in self.sent if message["type"] == "websocket.send"]


def connected(threads: FakeThreads, **limits: Any) -> AnyServer:
    server = AnyServer(threads, **limits)
    server.to_app.send_nowait({"type": "websocket.connect"})
    server.says(hello(client="desktop"))
    server.says('{"type":"mark"}')
    return server


async def test_frames_arrive_in_order_and_leaving_detaches_once() -> None:
    threads = FakeThreads()
    server = connected(threads)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run)
            client = await threads.wait_for_client()
            client.deliver(b'{"n":1}', live(1))
            client.deliver('{"n":"é"}'.encode(), None)
            await anyio.wait_all_tasks_blocked()
            server.to_app.send_nowait({"type": "websocket.disconnect", "code": 1000})
    assert server.frames == [ACK.decode(), NO_EXTENSION, '{"n":1}', '{"n":"é"}']
    assert len(threads.detached) == 1


async def test_a_client_that_takes_nothing_is_given_up_on() -> None:
    threads = FakeThreads()
    server = connected(threads, write_timeout=0.05)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run)
            client = await threads.wait_for_client()
            server.stuck = True
            client.deliver(b"{}", live(1))
            await threads.wait_for(lambda: threads.detached == [client])


async def test_a_client_that_lags_is_given_up_on() -> None:
    threads = FakeThreads()
    server = connected(threads, outbox_frames=2)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run)
            client = await threads.wait_for_client()
            server.stuck = True
            for sequence in range(10):
                client.deliver(b"{}", live(sequence))
            await threads.wait_for(lambda: threads.detached == [client])


async def test_ending_the_streams_closes_with_1001() -> None:
    threads = FakeThreads()
    server = connected(threads)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run)
            client = await threads.wait_for_client()
            client.deliver(b"{}", live(1))
            tasks.start_soon(server.endpoint.end_all)
            await anyio.wait_all_tasks_blocked()
            assert server.sent[-1] == {"type": "websocket.close", "code": 1001}
            server.to_app.send_nowait({"type": "websocket.disconnect", "code": 1001})
    assert server.frames[-1] == "{}"
    assert len(threads.detached) == 1
