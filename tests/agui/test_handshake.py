"""The handshake on real sockets: who gets in, what they are told, and what the others are not."""

import json

import pytest
from structlog.testing import capture_logs

from agui.websocket_client import WebSocketClient
from tests.agui.scenes import ACK, NO_EXTENSION, TOKEN, binding, closing, hello, said


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


async def test_an_extension_gets_exactly_the_ack() -> None:
    async with binding() as scene, scene.dial() as socket:
        await socket.send(hello(client="extension"))
        assert await said(socket) == ACK
        client = await scene.known(socket)
        client.deliver(b'{"type":"next"}', None)
        assert await said(socket) == '{"type":"next"}'  # nothing came in between


@pytest.mark.parametrize("kind", ["desktop", "browser"])
async def test_other_kinds_hear_of_the_extension_right_after_the_ack(kind: str) -> None:
    """The desktop app expects it as its first frame."""
    async with binding() as scene, scene.dial() as socket:
        await socket.send(hello(client=kind))
        assert await said(socket) == ACK
        assert await said(socket) == NO_EXTENSION


@pytest.mark.parametrize("kind", [None, "toaster", 7])
async def test_an_absent_or_unknown_kind_is_an_extension(kind: object) -> None:
    async with binding() as scene, scene.dial() as socket:
        await socket.send(hello(client=kind))
        assert await said(socket) == ACK
        client = await scene.known(socket)
        assert isinstance(client, WebSocketClient)
        assert client.hello.kind == "extension"


@pytest.mark.parametrize("version", [None, 1, 99, "2", True, 2.5])
async def test_any_version_gets_in_with_one_warning(version: object) -> None:
    with capture_logs() as logs:
        async with binding() as scene, scene.dial() as socket:
            await socket.send(hello(protocol_version=version))
            assert await said(socket) == ACK
    assert len([log for log in logs if log["log_level"] == "warning"]) == 1


async def test_our_own_version_is_no_warning() -> None:
    with capture_logs() as logs:
        async with binding() as scene, scene.dial() as socket:
            await socket.send(hello())
            await said(socket)
    assert [log for log in logs if log["log_level"] == "warning"] == []


async def test_text_members_are_attributes_and_the_token_is_not() -> None:
    async with binding() as scene, scene.dial() as socket:
        await socket.send(hello(extension_version="1.2", flavour="x", n=3))
        await said(socket)
        client = await scene.known(socket)
        assert isinstance(client, WebSocketClient)
        assert client.hello.attributes == {"extension_version": "1.2", "flavour": "x"}


@pytest.mark.parametrize(
    "first",
    [
        hello(token="guessed"),
        hello(token=""),
        hello(token=None),
        hello(token=5),
        hello(token="\ud800"),
        hello(token=TOKEN + "x"),
        hello(type="new_session"),
        hello(type=None),
        "not json",
        "[]",
        "7",
        "[" * 50_000,
        hello(padding="x" * 70_000),
        b"binary",
    ],
)
async def test_a_wrong_hello_is_answered_with_nothing_at_all(first: str | bytes) -> None:
    """Whoever guesses tokens must not learn what was wrong, and no log may hold the guess."""
    with capture_logs() as logs:
        async with binding() as scene, scene.dial() as socket:
            await socket.send(first)
            assert await closing(socket) == ([], None)
            assert scene.threads.handled == []
            assert scene.threads.detached == []
    (warning,) = [log for log in logs if log["log_level"] == "warning"]
    assert warning["event"] == "hello_refused"
    assert TOKEN not in json.dumps(warning)
    assert "guessed" not in json.dumps(warning)


async def test_frames_sent_along_with_a_wrong_hello_reach_nobody() -> None:
    async with binding() as scene:
        async with scene.dial() as socket:
            await socket.send(hello(token="wrong"))
            await socket.send('{"type":"new_session"}')
            assert await closing(socket) == ([], None)
        assert scene.threads.handled == []


async def test_no_hello_in_time_is_answered_with_nothing_at_all() -> None:
    with capture_logs() as logs:
        async with binding(hello_timeout=0.05) as scene, scene.dial() as socket:
            assert await closing(socket) == ([], None)
    assert [log["reason"] for log in logs if log["event"] == "hello_refused"] == [
        "no hello came in time"
    ]


async def test_a_client_that_leaves_before_its_hello_was_never_there() -> None:
    async with binding() as scene:
        async with scene.dial():
            pass
        async with scene.client() as socket:
            await scene.known(socket)
        assert len({id(client) for client in scene.threads.detached}) <= 1


async def test_frames_behind_the_hello_wait_for_the_ack() -> None:
    async with binding() as scene, scene.dial() as socket:
        await socket.send(hello())
        await socket.send('{"type":"early"}')
        assert await said(socket) == ACK
        await scene.threads.wait_for(lambda: scene.threads.frames == [b'{"type":"early"}'])
