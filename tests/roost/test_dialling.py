"""Dialling a daemon: the hello that our own clients say."""

import json
import socket

import pytest

from agui.websocket_client import WebSocketClient
from roost.dialling import HelloRefused, dial
from tests.agui.scenes import TOKEN, binding


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_it_passes_kind_and_version_and_talks_both_ways() -> None:
    async with binding() as scene, dial("127.0.0.1", scene.port, TOKEN) as dialled:
        assert json.loads(await dialled.recv())["type"] == "browser_extension_status"
        await dialled.send('{"type":"list_models"}')
        await scene.threads.wait_for(lambda: bool(scene.threads.handled))
        client, frame = scene.threads.handled[0]
        assert isinstance(client, WebSocketClient)
        assert (client.hello.kind, client.hello.protocol_version) == ("desktop", 2)
        assert json.loads(frame) == {"type": "list_models"}
        client.deliver(b'{"type":"models"}', None)
        assert json.loads(await dialled.recv()) == {"type": "models"}


async def test_attributes_do_not_take_the_place_of_what_the_hello_says() -> None:
    attributes = {"client": "desktop", "token": "another", "extension_version": "1.2.3"}
    async with (
        binding() as scene,
        dial("127.0.0.1", scene.port, TOKEN, "extension", attributes),
    ):
        async with dial("127.0.0.1", scene.port, TOKEN) as other:
            status = json.loads(await other.recv())
        assert (status["connected"], status["extension_version"]) == (True, "1.2.3")


async def test_a_wrong_token_is_told_as_what_it_is() -> None:
    async with binding() as scene:
        with pytest.raises(HelloRefused, match="token"):
            async with dial("127.0.0.1", scene.port, "wrong"):
                pass


async def test_nobody_there_is_an_error_of_the_system() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # Nobody listens on it, and nobody else can have it.
        port = bound.getsockname()[1]
        with pytest.raises(OSError):
            async with dial("127.0.0.1", port, TOKEN):
                pass
