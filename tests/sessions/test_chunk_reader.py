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
    got = b""
    with anyio.fail_after(30):
        for part in (b"one\n", b"two\n", b"three\n"):
            pipe.write(part)
            got += await reader.wait() or b""
        pipe.end()
        assert await reader.wait() == b""
    assert got == b"one\ntwo\nthree\n"
    reader.close()


async def test_a_wait_that_is_cancelled_loses_nothing(pipe: Pipe, reader: ChunkReader) -> None:
    with anyio.move_on_after(0):
        await reader.wait()
    pipe.write(b"kept")
    await anyio.wait_all_tasks_blocked()
    with anyio.fail_after(30):
        assert await reader.wait() == b"kept"
    reader.close()


async def test_what_nobody_takes_stays_in_the_pipe(pipe: Pipe, reader: ChunkReader) -> None:
    """A worker that floods while its thread is busy waits, instead of filling the memory."""
    with anyio.move_on_after(0):
        await reader.wait()
    os.set_blocking(pipe.write_end, False)
    taken = 0
    for _ in range(20):
        try:
            while True:
                taken += os.write(pipe.write_end, b"x" * 65536)
        except BlockingIOError:
            await anyio.lowlevel.checkpoint()
    assert taken <= 3 * 65536
    got = 0
    with anyio.fail_after(30):
        while got < taken:
            got += len(await reader.wait() or b"")
    assert got == taken
    reader.close()


async def test_an_interrupt_wakes_who_waits_and_the_rest_can_be_read(
    pipe: Pipe, reader: ChunkReader
) -> None:
    """Somebody else may hold the other end for ever: the reader must not wait for its end."""
    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(30):
            tasks.start_soon(_interrupt_once_waited, reader)
            assert await reader.wait() is None
            assert await reader.wait() is None
    pipe.write(b"last words")
    assert reader.read_now() == b"last words"
    assert reader.read_now() is None
    reader.close()


async def test_a_closed_reader_leaves_the_descriptor_alone(pipe: Pipe, reader: ChunkReader) -> None:
    with anyio.move_on_after(0):
        await reader.wait()
    reader.close()
    reader.close()
    pipe.write(b"for somebody else")
    await anyio.wait_all_tasks_blocked()
    assert os.read(pipe.read_end, 100) == b"for somebody else"


async def _interrupt_once_waited(reader: ChunkReader) -> None:
    await anyio.wait_all_tasks_blocked()
    reader.interrupt()
