"""A real worker: `async with worker(...) as it`. It is killed, with its group, when that ends."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import msgspec
from anyio.abc import Process

from tests.agent.support.fakes import Line

# A real process imports a real library on a machine that does other things too.
PATIENCE = 180


@dataclass(slots=True)
class Place:
    """Where workers of one test live."""

    home: Path
    project: Path
    env: dict[str, str] = field(default_factory=dict[str, str])

    def history(self, conversation_id: str = "c") -> Path:
        return next(self.home.glob(f"projects/*/conversations/{conversation_id}.jsonl"))

    def environment(self) -> dict[str, str]:
        ours = ("ROOST_", "OPENAI_", "PYTHONDONTWRITEBYTECODE")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        # A server of a test answers what the test asks, and is not asked for titles.
        ours_now = {"ROOST_HOME": str(self.home), "ROOST_AGENT__TITLES": "false"}
        return {**kept, **ours_now, "PWD": str(self.project), **self.env}


def a_place(folder: Path, **env: str) -> Place:
    project = folder / "project"
    project.mkdir(exist_ok=True)
    return Place(folder / "home", project, env)


@dataclass(slots=True)
class WorkerProcess:
    """What a test says to a worker, and what it read from it."""

    process: Process
    lines: list[Line] = field(default_factory=list[Line])
    raw: list[bytes] = field(default_factory=list[bytes])
    stderr: bytearray = field(default_factory=bytearray)
    _rest: bytes = b""

    async def send(self, **frame: object) -> None:
        await self.send_raw(msgspec.json.encode(frame))

    async def send_raw(self, line: bytes) -> None:
        assert self.process.stdin is not None
        with anyio.fail_after(PATIENCE):
            await self.process.stdin.send(line + b"\n")

    async def ask(self, text: str, message_id: str = "m1", run_id: str | None = None) -> None:
        message = {"id": message_id, "role": "user", "content": text}
        await self.send(type="run_agent_input", input={"runId": run_id, "messages": [message]})

    async def answer(self, *interrupt_ids: str, status: str = "resolved") -> None:
        resume = [{"interruptId": each, "status": status} for each in interrupt_ids]
        await self.send(type="run_agent_input", input={"resume": resume})

    async def next_line(self) -> Line:
        assert self.process.stdout is not None
        with anyio.fail_after(PATIENCE):
            while b"\n" not in self._rest:
                try:
                    self._rest += await self.process.stdout.receive(1 << 16)
                except anyio.EndOfStream:
                    raise AssertionError(f"the worker ended: {self.stderr.decode()}") from None
        line, _, self._rest = self._rest.partition(b"\n")
        self.raw.append(line)
        self.lines.append(msgspec.json.decode(line))
        return self.lines[-1]

    async def wait_for(self, is_it: Callable[[Line], bool]) -> Line:
        while True:
            line = await self.next_line()
            if is_it(line):
                return line

    async def wait_end(self) -> Line:
        return await self.wait_for(
            lambda line: (
                line["type"] == "RUN_FINISHED" or (line["type"] == "RUN_ERROR" and "runId" in line)
            )
        )

    async def snapshot(self) -> list[dict[str, object]]:
        await self.send(type="resume_conversation", id="c")
        line = await self.wait_for(lambda line: line["type"] == "MESSAGES_SNAPSHOT")
        return msgspec.convert(line["messages"], list[dict[str, object]])

    async def end_stdin(self) -> int:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        with anyio.fail_after(PATIENCE):
            return await self.process.wait()

    async def kill(self) -> None:
        self.process.kill()
        with anyio.fail_after(PATIENCE):
            await self.process.wait()


async def until(holds: Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait for what sends no event: a file, the end of a process that is not ours."""
    with anyio.fail_after(patience):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.02)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "roost", "headless", *arguments]


@asynccontextmanager
async def worker(
    place: Place, *arguments: str, conversation_id: str = "c", largest_file: int | None = None
) -> AsyncGenerator[WorkerProcess]:
    """A worker that serves, its first line read. ``largest_file`` (KiB) plays a full disk."""
    argv = command("--serve", "--require-approval", "--session-id", conversation_id, *arguments)
    if largest_file is not None:
        argv = ["bash", "-c", f'ulimit -f {largest_file}; exec "$@"', "bash", *argv]
    process = await anyio.open_process(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=place.project,
        env={**place.environment(), "ROOST_LOGGING__STDERR_JSON": "true"},
        start_new_session=True,
    )
    it = WorkerProcess(process)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_drain, process, it.stderr)
            await it.next_line()
            yield it
            tasks.cancel_scope.cancel()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.move_on_after(5, shield=True):
            await process.aclose()


async def _drain(process: Process, into: bytearray) -> None:
    assert process.stderr is not None
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        while True:
            into += await process.stderr.receive()
