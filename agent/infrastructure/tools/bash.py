"""Bash: run a shell command in the project dir, in a process group of its own.

Whatever ends the call (its end, the timeout, a stop, the worker's end) kills what is left of the
group; when the worker itself is killed, a guard inside the group does it, which sees a pipe close
that only the worker holds. A child left in the background that holds the output open changes
nothing: the call ends with the shell, and what is in the pipe by then is the output.
"""

import contextlib
import math
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import anyio
from anyio.abc import Process
from msgspec import Meta

from agent.domain.allow import Subject
from agent.domain.approval import Effect
from agent.domain.ports import Job, Tell, ToolResult, ToolSpec, silent
from agent.tool_arguments import Arguments, read_arguments, schema_of

LONGEST_TIMEOUT = 600.0
# What is kept of an output: a model is given far less. The head tells what began, the tail how it
# ended.
MAX_OUTPUT = 8 * 1024 * 1024
_READ = 64 * 1024
_LONGEST_LABEL = 60
# After the shell ended: what is in the pipe is read within this time, and no longer waited for.
_DRAIN = 0.2


# $1 is the command. The guard is started before, and is none of the command's own jobs: `wait` in a
# command does not wait for it.
_GUARDED = (
    "(read -r -u {fd} _; kill -KILL -- -$$) </dev/null >/dev/null 2>&1 &"
    ' exec {fd}<&-; exec bash -c "$1"'
)


class _Arguments(Arguments):
    command: Annotated[str, Meta(description="The command, for `bash -c`.", min_length=1)]
    timeout: (
        Annotated[float, Meta(description="Seconds until it is killed; at most 600.", gt=0, le=600)]
        | None
    ) = None
    description: Annotated[
        str, Meta(description="What it is for, in a few words; shown to the user.", max_length=200)
    ] = ""
    run_in_background: Annotated[
        bool,
        Meta(
            description="Go on without waiting. It has no timeout then unless one is given, and"
            " its result comes as a message when it ends."
        ),
    ] = False


class Bash:
    """The tool."""

    def __init__(self, project_dir: Path, environ: Mapping[str, str], timeout: float) -> None:
        self._project_dir = project_dir
        self._environ = dict(environ)
        self._timeout = timeout
        self.spec = ToolSpec(
            name="Bash",
            description=(
                "Run a shell command in the project's folder and return what it prints (stdout and"
                " stderr together). Each call is a shell of its own and begins in that folder. It"
                " has no input, so it must not ask for any. A command that exits with another code"
                " than 0 counts as failed. It is killed after"
                f" {timeout:.0f} seconds unless another timeout is given; so is everything it left"
                " in the background, when it ends. Prefer Read, Grep and Glob for looking at files."
            ),
            parameters=schema_of(_Arguments),
            effect=Effect.RUNS,
        )

    def prepare(self, arguments: bytes) -> "_Call | _Background":
        found = read_arguments(_Arguments, arguments)
        timeout = min(found.timeout or self._timeout, LONGEST_TIMEOUT)
        if found.run_in_background:
            timeout = found.timeout or math.inf
        call = _Call(found.command, timeout, self._project_dir, self._environ)
        return _Background(call, found.description) if found.run_in_background else call


@dataclass(frozen=True, slots=True)
class _Call:
    command: str
    timeout: float
    project_dir: Path
    environ: Mapping[str, str]

    @property
    def summary(self) -> str:
        return self.command

    def subject(self) -> Subject | None:
        return Subject("command", self.command)

    async def run(self, tell: Tell = silent) -> ToolResult:
        guard, held = os.pipe()
        try:
            return await self._run(guard, tell)
        finally:
            os.close(guard)
            os.close(held)

    async def _run(self, guard: int, tell: Tell) -> ToolResult:
        try:
            process = await anyio.open_process(
                ["bash", "-c", _GUARDED.format(fd=guard), "bash", self.command],
                pass_fds=(guard,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self.project_dir,
                env=self.environ,
                start_new_session=True,
            )
        except FileNotFoundError:
            error = "The command could not be started: there is no bash in the worker's PATH."
            return ToolResult(success=False, error=error)
        except OSError as exc:
            error = f"The command could not be started: {exc.strerror or exc}."
            return ToolResult(success=False, error=error)
        output = _Output(tell)
        # No await until the try: a stop in that gap would leave the process behind.
        try:
            tell.runs_as(process.pid)
            with anyio.move_on_after(self.timeout) as deadline:
                await _collect(process, output)
            if deadline.cancelled_caught:
                _kill_group(process.pid)
                error = f"Killed after {self.timeout:g} seconds, the timeout."
                return ToolResult(success=False, output=output.text(), error=error)
            return _result(process.returncode, output.text())
        finally:
            _kill_group(process.pid)
            with anyio.move_on_after(5, shield=True):
                await process.aclose()


@dataclass(frozen=True, slots=True)
class _Background:
    """The same command, for whoever has a place for work that goes on."""

    call: _Call
    description: str

    @property
    def summary(self) -> str:
        return f"{self.call.command} (in the background)"

    def subject(self) -> Subject | None:
        return self.call.subject()

    async def run(self, tell: Tell = silent) -> ToolResult:
        label = " ".join((self.description or self.call.command).split())
        if len(label) > _LONGEST_LABEL:
            label = label[: _LONGEST_LABEL - 1] + "…"
        job = Job(
            kind="shell",
            label=label,
            description=self.description,
            detail=self.call.command,
            work=self.call.run,
        )
        output = "It runs in the background; its result comes as a message when it ends."
        return ToolResult(success=True, output=output, job=job)


class _Output:
    """The output's head and tail, in bounded memory."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        self._tell(data)
        room = MAX_OUTPUT // 2 - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if (over := len(self._tail) - MAX_OUTPUT // 2) > 0:
            del self._tail[:over]
            self._dropped += over

    def text(self) -> str:
        note = f"\n[... {self._dropped} bytes left out ...]\n".encode() if self._dropped else b""
        return (bytes(self._head) + note + bytes(self._tail)).decode("utf-8", "replace")


async def _collect(process: Process, output: _Output) -> None:
    """Read until the shell has ended, and then only what is there."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, process, output)
        await process.wait()
        tasks.cancel_scope.deadline = anyio.current_time() + _DRAIN


async def _read(process: Process, output: _Output) -> None:
    assert process.stdout is not None
    with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            output.add(await process.stdout.receive(_READ))


def _result(code: int | None, output: str) -> ToolResult:
    if code == 0:
        return ToolResult(success=True, output=output)
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return ToolResult(success=False, output=output, error=f"Ended by {name}.")
    return ToolResult(success=False, output=output, error=f"Exit code {code}.")


def _kill_group(pid: int) -> None:
    # The new session made the pid the group's id; who is left of it is ours.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
