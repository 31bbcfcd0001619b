"""The real port and the real registry, over workers that a test speaks for: no processes."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from agui.browser_relay import ExtensionRelay
from agui.server import Binding, listen
from agui.settings import BindingSettings
from sessions.domain.keys import ThreadKey, ThreadOptions
from sessions.domain.settings import RegistrySettings
from sessions.registry import Registry
from tests.agui.scenes import TOKEN
from tests.support.fakes import FakeLauncher, FakeWorker
from tests.support.scenes import PROJECT, READY, line, run_started, snapshot

MIB = 2**20
PATIENCE = 120.0
# Above what any kernel gives: the port looks whether a client descends from a worker.
_NO_PID = 5_000_000
Frame = dict[str, Any]


class StagedWorker(FakeWorker):
    """Does what the stage is set to when a line comes, and what the test makes it say."""

    def __init__(self, pid: int, stage: "Stage") -> None:
        super().__init__(pid)
        self._stage = stage
        if stage.is_ready:
            self.says(READY)

    def send(self, line: bytes) -> None:
        super().send(line)
        self._stage.took(self, json.loads(line))


class Stage(FakeLauncher):
    """What workers do by themselves. A test changes it, and speaks for them otherwise."""

    def __init__(
        self,
        *,
        is_ready: bool = True,
        begins_runs: bool = True,
        snapshot_: bytes | None = snapshot(),
    ) -> None:
        """A worker that is not ready is being launched, for everybody else."""
        super().__init__()
        self.is_ready = is_ready
        self.answers: dict[str, tuple[bytes, ...]] = {}
        """What is said when a frame of a type comes."""
        if snapshot_ is not None:
            self.answers["resume_conversation"] = (snapshot_,)
        self.begins_runs = begins_runs
        self.taken: list[Frame] = []
        """All that workers were sent, in order."""
        self._news = anyio.Event()

    @asynccontextmanager
    async def __call__(
        self, thread: ThreadKey, options: ThreadOptions, token: str
    ) -> AsyncGenerator[FakeWorker]:
        self.launches.append((thread, options))
        self.tokens.append(token)
        await anyio.lowlevel.checkpoint()
        worker = StagedWorker(_NO_PID + len(self.workers), self)
        self.workers.append(worker)
        self._tell()
        try:
            yield worker
        finally:
            worker.exit("exited with code 0")

    def took(self, worker: FakeWorker, frame: Frame) -> None:
        kind = frame["type"]
        if kind in self.answers:
            if answers := self.answers[kind]:
                worker.says(*answers)
        elif kind == "command":
            data = {"known": False}
            worker.says(line("command_result", id=frame["id"], success=True, data=data))
        elif kind == "run_agent_input" and self.begins_runs:
            worker.says(run_started(frame["input"]["runId"]))
        self.taken.append(frame)
        self._tell()

    def inputs(self) -> list[Frame]:
        return [frame["input"] for frame in self.taken if frame["type"] == "run_agent_input"]

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something that came to a worker, or a new worker, makes it so."""
        with anyio.fail_after(PATIENCE):
            while not is_so():
                self._news = anyio.Event()
                await self._news.wait()

    def _tell(self) -> None:
        self._news.set()


@dataclass(frozen=True, slots=True)
class Staged:
    """One port, its registry, and the workers behind it."""

    port: int
    registry: Registry
    stage: Stage
    project: Path = Path(PROJECT)

    @property
    def worker(self) -> FakeWorker:
        return self.stage.worker


@asynccontextmanager
async def a_staged_endpoint(
    stage: Stage | None = None, registry: RegistrySettings | None = None, **changed: Any
) -> AsyncGenerator[Staged]:
    stage = stage or Stage()
    threads = Registry(stage, registry or RegistrySettings())
    settings = replace(BindingSettings(token=TOKEN, port=0, farewell_timeout=60.0), **changed)
    relay = ExtensionRelay(longest_result=MIB)
    with listen(0) as listener:
        async with threads.serving():
            async with Binding(threads, settings, "9", relay).serving(listener) as port:
                yield Staged(port, threads, stage)
            threads.hurry()
