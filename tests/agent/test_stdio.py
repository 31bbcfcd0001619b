"""Lines in and out of a worker: any length, in order, never stuck, never without a bound."""

import contextlib
import itertools
import os
from collections.abc import Generator

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.ports import Lines
from agent.infrastructure.stdio import BACKLOG_FOR_RUNS, LineSplitter, StdinLines, StdoutLines
from tests.agent.support.fakes import FakeLog


@pytest.fixture
def pipe() -> Generator[tuple[int, int]]:
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        for fd in (reading, writing):
            with contextlib.suppress(OSError):
                os.close(fd)


@given(lines=st.lists(st.binary(max_size=30)), cuts=st.lists(st.integers(0, 400)))
def test_however_the_bytes_arrive_the_lines_are_the_same(
    lines: list[bytes], cuts: list[int]
) -> None:
    clean = [line.replace(b"\n", b"") for line in lines]
    data = b"".join(line + b"\n" for line in clean)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    splitter = LineSplitter()
    found = [
        line for start, end in itertools.pairwise(places) for line in splitter.feed(data[start:end])
    ]
    assert found == [line.strip() for line in clean if line.strip()]


def test_a_line_over_the_limit_is_dropped_and_reading_goes_on() -> None:
    splitter = LineSplitter(limit=10)
    assert splitter.feed(b"x" * 8) == []
    assert splitter.feed(b"x" * 8) == []
    assert splitter.feed(b"x\nok\n" + b"y" * 11 + b"\nend\n") == [b"ok", b"end"]
    assert splitter.dropped == 2


async def test_a_line_of_sixteen_mebibytes_is_read_whole(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    line = b"x" * (16 * 1024 * 1024)

    def write() -> None:
        rest = memoryview(line + b"\nend\n")
        while rest:
            rest = rest[os.write(writing, rest) :]
        os.close(writing)

    found: list[bytes] = []
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, write)
            async for batch in StdinLines(reading, FakeLog()):
                found += batch
    assert [len(each) for each in found] == [len(line), 3]


async def test_a_file_as_stdin_ends_where_it_ends(tmp_path: object) -> None:
    path = f"{tmp_path}/input"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(fd, b"one\ntwo\n")
    os.lseek(fd, 0, os.SEEK_SET)
    with anyio.fail_after(60):
        assert [batch async for batch in StdinLines(fd, FakeLog())] == [[b"one", b"two"]]
    os.close(fd)


async def test_lines_wait_for_a_slow_reader_in_order_and_the_run_waits_with_them(
    pipe: tuple[int, int],
) -> None:
    reading, writing = pipe
    out = StdoutLines(writing)
    port: Lines = out
    lines = [str(number).encode() * 1000 for number in range(1000)]
    assert sum(map(len, lines)) > BACKLOG_FOR_RUNS
    size = sum(len(line) + 1 for line in lines)
    got = bytearray()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(out.serve)
            for line in lines:
                port.write(line)
            with anyio.move_on_after(0.05) as waited:
                await port.wait_writable()
            assert waited.cancelled_caught

            async def read() -> None:
                while len(got) < size:
                    await anyio.wait_readable(reading)
                    got.extend(os.read(reading, 65536))
                tasks.cancel_scope.cancel()

            tasks.start_soon(read)
            await port.wait_writable()
            await out.flush()
    assert bytes(got).split(b"\n")[:-1] == lines


async def test_a_closed_stdout_is_told_and_never_raises(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    out = StdoutLines(writing)
    os.close(reading)
    out.write(b"anybody?")
    with anyio.fail_after(60):
        await out.closed.wait()
        await out.wait_writable()
        await out.flush()
    out.write(b"nobody.")


async def test_a_reader_that_goes_while_lines_wait_ends_the_writer_quietly(
    pipe: tuple[int, int],
) -> None:
    reading, writing = pipe
    out = StdoutLines(writing)
    for _ in range(10):
        out.write(b"x" * 100_000)
    os.close(reading)
    with anyio.fail_after(60):
        await out.serve()
        await out.flush()
    assert out.closed.is_set()
