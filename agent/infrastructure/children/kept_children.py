"""OpenChild without a daemon: `roost headless --keep-alive` as a process of our own.

Its stdin is the leash. When it ends, because we left the child or because we are gone, however we
went, the process ends, with all that it started. It says one line a turn; it can ask nobody.
"""

import os
import signal
import subprocess
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import anyio
import msgspec
from anyio.abc import Process

from agent.domain.lineage import ChildThread
from agent.domain.ports import Log
from agent.domain.subagents import Asked, Began, Broke, ChildLost, News, Settled
from agent.infrastructure.children.news import read_report
from agent.infrastructure.stdio import LineSplitter

LONGEST_LINE = 10 * 2**20
# How long a process may take to end by itself once its stdin has.
_PARTING = 10.0
_REAPING = 5.0
_READ = 64 * 1024


@dataclass(frozen=True, slots=True)
class KeptChildren:
    """Runs `command` for each child, with an environment made from ours."""

    command: Sequence[str]
    environ: Mapping[str, str]
    log: Log
    longest_line: int = LONGEST_LINE
    children_last: bool = False

    @asynccontextmanager
    async def __call__(self, thread: ChildThread, *, is_known: bool) -> AsyncGenerator["KeptChild"]:
        """Start the process; leaving the block ends it, and its group. Raises ChildLost."""
        try:
            process = await anyio.open_process(
                [*self.command, *_arguments(thread)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None,
                cwd=thread.project_dir,
                env=_environment(self.environ, thread),
                start_new_session=True,
            )
        except OSError as exc:
            where = f"in {thread.project_dir}: {exc.strerror}"
            raise ChildLost(f"It could not be started {where}.") from exc
        # No await until the try: a cancellation in that gap would leave a process behind.
        child = KeptChild(process, self)
        try:
            if is_known:
                child.settle()
            yield child
        finally:
            await _end(process)


class KeptChild:
    """One process. Made by KeptChildren."""

    def __init__(self, process: Process, made_by: KeptChildren) -> None:
        self._process = process
        self._made_by = made_by
        self._splitter = LineSplitter(made_by.longest_line)
        self._news: deque[News] = deque()
        self._is_over = False

    def settle(self) -> None:
        """It was open before, in another process, and does nothing now."""
        self._news.append(Settled(""))

    async def send(self, message_id: str, text: str) -> None:
        message = {"id": message_id, "role": "user", "content": text}
        lane = {"roost.lane": "follow_up"}
        await self._say(
            {"type": "run_agent_input", "input": {"messages": [message], "forwardedProps": lane}}
        )
        self._news.append(Began())

    async def interrupt(self) -> None:
        await self._say({"type": "interrupt"})

    async def stop(self) -> None:
        """Leaving it ends it."""

    def __aiter__(self) -> AsyncIterator[News]:
        return self

    async def __anext__(self) -> News:
        while not self._news:
            if self._is_over:
                raise StopAsyncIteration
            self._news += await self._read()
        return self._news.popleft()

    async def _read(self) -> list[News]:
        """The news of what it says next; none at its end."""
        assert self._process.stdout is not None
        try:
            data = await self._process.stdout.receive(_READ)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            self._is_over = True
            return []
        news: list[News] = []
        for line in self._splitter.feed(data):
            found = read_report(line)
            if found is None:
                self._made_by.log("warning", "subagent_line_ignored", bytes=len(line))
                continue
            news += found
            # Nobody can answer it there; whoever answers needs its conversation for themselves.
            self._is_over = self._is_over or any(isinstance(each, Asked) for each in found)
        if self._splitter.dropped:
            self._is_over = True
            most = self._made_by.longest_line // 2**20
            news.append(Broke(f"It was ended, because it wrote a line of more than {most} MiB."))
        return news

    async def _say(self, frame: dict[str, object]) -> None:
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(msgspec.json.encode(frame) + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as exc:
            raise ChildLost("Its process has ended.") from exc


async def _end(process: Process) -> None:
    """End its stdin, wait, and see to it. Nothing of its group is left."""
    with anyio.move_on_after(_PARTING, shield=True):
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            assert process.stdin is not None
            await process.stdin.aclose()
        await process.wait()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with anyio.move_on_after(_REAPING, shield=True):
        await process.aclose()


def _arguments(thread: ChildThread) -> list[str]:
    arguments = ["headless", "--keep-alive", "--session-id", thread.conversation_id]
    if thread.model is not None:
        arguments += ["--model", thread.model]
    if thread.mode is not None:
        arguments += ["--mode", thread.mode]
    return arguments


def _environment(environ: Mapping[str, str], thread: ChildThread) -> dict[str, str]:
    """What a daemon would start the worker of that thread with, less the way to a daemon."""
    made = {
        name: value
        for name, value in environ.items()
        if not (name.startswith("ROOST_") and name.endswith("TOKEN"))
        and not name.startswith("ROOST_SUBAGENT__")
        and name != "ROOST_BINDING__URL"
    }
    lineage = thread.lineage
    made["PWD"] = thread.project_dir
    made["ROOST_SUBAGENT__PARENT"] = lineage.parent
    made["ROOST_SUBAGENT__DEPTH"] = str(lineage.depth)
    made["ROOST_SUBAGENT__TOOLS"] = ",".join(lineage.tools)
    made["ROOST_INVOKED_BY"] = "agent"
    if thread.instructions is not None:
        made["ROOST_AGENT__CUSTOM_INSTRUCTIONS"] = thread.instructions
    if thread.max_turns is not None:
        made["ROOST_AGENT__MAX_TURNS"] = str(thread.max_turns)
    return made
