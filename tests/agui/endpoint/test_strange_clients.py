"""Clients that are quiet, slow, one too many, or odd, in front of a fake registry."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream
from structlog.testing import capture_logs

from agui.settings import BindingSettings
from sessions.domain.frames import bare_error
from sessions.domain.ports import Client
from tests.agui.fakes import FakeThreads, live
from tests.agui.scenes import TOKEN, Scene, binding
from tests.support.scenes import run_finished, run_started, snapshot

PIECE = b'{"type":"RAW","event":"' + b"x" * 512 * 1024 + b'"}'


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


def threads_that_run() -> FakeThreads:
    """Every input becomes a run that has begun, and says nothing more."""

    def answer(client: Client, frame: bytes) -> None:
        kind = json.loads(frame)["type"]
        if kind == "resume_conversation":
            client.deliver(snapshot(), None)
        elif kind == "run_agent_input":
            client.deliver(run_started("r1"), live(1))

    return FakeThreads(on_frame=answer)


@asynccontextmanager
async def posted(scene: Scene, thread: str = "c1", **members: Any) -> AsyncGenerator[SocketStream]:
    """A run that was asked for; nothing of the answer has been read."""
    given: dict[str, Any] = {"threadId": thread, "runId": "r1", "messages": [], **members}
    given["forwardedProps"] = {"project_dir": "/work"}
    # Python writes an infinity in a way that is no JSON: a number out of range stands for it.
    body = json.dumps(given).replace("Infinity", "1e999")
    head = (
        f"POST /agui/agent/default/run HTTP/1.1\r\nHost: 127.0.0.1:{scene.port}\r\n"
        f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    async with await anyio.connect_tcp("127.0.0.1", scene.port) as stream:
        await stream.send((head + body).encode())
        yield stream


async def until(stream: SocketStream, words: bytes) -> bytes:
    said = b""
    with anyio.fail_after(120):
        while words not in said:
            said += await stream.receive()
    return said


async def follower(scene: Scene, number: int) -> Client:
    """The client behind the run that was asked for as the n-th."""

    def found() -> list[Client]:
        return [c for c, frame in scene.threads.handled if b"run_agent_input" in frame]

    await scene.threads.wait_for(lambda: len(found()) > number)
    return found()[number]


async def test_a_silent_stream_is_kept_alive_and_goes_on() -> None:
    """Proxies and front ends take a silent connection for a dead one."""
    assert BindingSettings(token="t").keep_alive_interval == 15.0
    settings: dict[str, Any] = {"own_worker": False, "keep_alive_interval": 0.05}
    async with binding(threads_that_run(), **settings) as scene, posted(scene) as stream:
        client = await follower(scene, 0)
        said = await until(stream, b": keep-alive\n\n")
        assert b"RUN_STARTED" in said
        client.deliver(run_finished("r1"), live(2))
        assert b"RUN_FINISHED" in await until(stream, b"0\r\n\r\n")


async def test_a_reader_that_takes_nothing_is_cut_and_another_goes_on() -> None:
    """It is noticed with what comes next, which is a keep-alive at the latest."""
    settings: dict[str, Any] = {"own_worker": False, "write_timeout": 0.3}
    settings["keep_alive_interval"] = 0.2
    with capture_logs() as logs:
        async with (
            binding(threads_that_run(), **settings) as scene,
            posted(scene),
            posted(scene, "c2") as reading,
        ):
            stuck, going = await follower(scene, 0), await follower(scene, 1)
            for sequence in range(2, 34):
                stuck.deliver(PIECE, live(sequence))
            await scene.threads.wait_for(lambda: scene.threads.detached == [stuck])
            going.deliver(run_finished("r1"), live(2))
            assert b"RUN_FINISHED" in await until(reading, b"0\r\n\r\n")
    reasons = [log["reason"] for log in logs if log["event"] == "http_stream_ended"]
    assert reasons == ["it took nothing for the whole write deadline", "the run ended"]


async def test_one_request_too_many_is_told_to_come_again() -> None:
    def refuse(client: Client, frame: bytes) -> None:
        client.deliver(bare_error("256 requests wait", "too_many_waiting"), None)

    threads = FakeThreads(on_frame=refuse)
    async with binding(threads, own_worker=False) as scene, posted(scene) as stream:
        said = await until(stream, b"too_many_waiting")
        assert said.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: 5\r\n" in said
    assert len(threads.detached) == 1


async def test_a_state_that_cannot_be_read_is_refused_before_anything_is_run() -> None:
    threads = threads_that_run()
    state = {"a": float("inf")}
    async with binding(threads, own_worker=False) as scene, posted(scene, state=state) as stream:
        said = await until(stream, b"bad_input")
        assert said.startswith(b"HTTP/1.1 400 ")
    assert threads.frames == []


async def test_a_version_of_any_length_is_a_version() -> None:
    for version in ("9" * 5000, "0" * 5000, "1.0", "x"):
        threads = threads_that_run()
        async with (
            binding(threads, own_worker=False) as scene,
            posted(scene, protocolVersion=version) as stream,
        ):
            assert b"RUN_STARTED" in await until(stream, b"\n\n")
