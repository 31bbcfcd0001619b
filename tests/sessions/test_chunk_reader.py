"""How a worker's pipe is read, on either event loop."""

import os
from collections.abc import Generator

import anyio
import pytest

from sessions.infrastructure.chunk_reader import ChunkReader, chunk_reader


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Pipe:
    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)

    def write(self, data: bytes) -> None:
        os.write(self.write_end, data)

    def end(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def close(self) -> None:
        self.end()
        os.close(self.read_end)


@pytest.fixture
def pipe() -> Generator[Pipe]:
    made = Pipe()
    yield made
    made.close()


@pytest.fixture
async def reader(pipe: Pipe) -> ChunkReader:
    return chunk_reader(pipe.read_end)


async def test_chunks_come_in_order_and_then_the_end(pipe: Pipe, reader: ChunkReader) -> None:
    got: list[bytes] = []
    parts = [b"one\n", b"two\n", b"three\n"]

    def take(chunk: bytes) -> None:
        got.append(chunk)
        if parts:
            pipe.write(parts.pop(0))
        else:
            pipe.end()

    pipe.write(parts.pop(0))
    with anyio.fail_after(30):
        await reader.each(take)
    assert got == [b"one\n", b"two\n", b"three\n"]
    reader.close()


async def test_a_call_that_is_cancelled_loses_nothing(pipe: Pipe, reader: ChunkReader) -> None:
    got: list[bytes] = []
    with anyio.move_on_after(0):
        await reader.each(got.append)
    pipe.write(b"kept")
    await anyio.wait_all_tasks_blocked()
    assert not got
    with anyio.CancelScope() as enough, anyio.fail_after(30):

        def take(chunk: bytes) -> None:
            got.append(chunk)
            enough.cancel()

        await reader.each(take)
    assert got == [b"kept"]
    reader.close()


async def test_others_get_their_turn_between_two_chunks(pipe: Pipe, reader: ChunkReader) -> None:
    """A worker that floods must not keep the loop to itself."""
    turns: list[str] = []

    async def somebody_else() -> None:
        while True:
            turns.append("else")
            await anyio.lowlevel.checkpoint()

    def take(chunk: bytes) -> None:
        turns.append("chunk")
        if turns.count("chunk") < 5:
            pipe.write(b"more")
        else:
            pipe.end()

    pipe.write(b"first")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(somebody_else)
        with anyio.fail_after(30):
            await reader.each(take)
        tasks.cancel_scope.cancel()
    assert turns.count("chunk") == 5
    # One turn each; in which order within a turn, no loop promises.
    assert turns.count("else") >= 4
    reader.close()


async def test_what_a_taker_raises_ends_the_reading(pipe: Pipe, reader: ChunkReader) -> None:
    def take(chunk: bytes) -> None:
        raise ZeroDivisionError

    pipe.write(b"bad")
    with anyio.fail_after(30), pytest.raises(ZeroDivisionError):
        await reader.each(take)
    pipe.write(b"next")
    await anyio.wait_all_tasks_blocked()
    assert reader.read_now() == b"next"
    reader.close()


async def test_an_interrupt_wakes_who_waits_and_the_rest_can_be_read(
    pipe: Pipe, reader: ChunkReader
) -> None:
    """Somebody else may hold the other end for ever: the reader must not wait for its end."""
    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(30):
            tasks.start_soon(_interrupt_once_waited, reader)
            await reader.each(_never)
            await reader.each(_never)
    pipe.write(b"last words")
    assert reader.read_now() == b"last words"
    assert reader.read_now() is None
    reader.close()


async def test_a_closed_reader_leaves_the_descriptor_alone(pipe: Pipe, reader: ChunkReader) -> None:
    with anyio.move_on_after(0):
        await reader.each(_never)
    reader.close()
    reader.close()
    pipe.write(b"for somebody else")
    await anyio.wait_all_tasks_blocked()
    assert os.read(pipe.read_end, 100) == b"for somebody else"


def _never(chunk: bytes) -> None:
    raise AssertionError(f"nothing was to come, and this did: {chunk!r}")


async def _interrupt_once_waited(reader: ChunkReader) -> None:
    await anyio.wait_all_tasks_blocked()
    reader.interrupt()
