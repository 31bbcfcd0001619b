"""LaunchWorker as a plain subprocess: a command in a process group of its own, behind pipes.

A worker is gone when its process is: what is buffered is drained, its group is killed, then its
lines end; a grandchild that holds the pipe changes nothing. Stopping is a sequence: an `interrupt`
line and the end of its stdin, the grace, SIGTERM, two seconds, SIGKILL.

The pipes are bare file descriptors, because "drained" has to mean exactly that: read until the
kernel says it holds no more, without waiting for an end of file that may never come.
"""

import errno
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import structlog
from anyio.abc import Process

from sessions.domain.keys import ThreadKey, ThreadOptions
from sessions.domain.ports import LaunchFailed, TakeLines, WorkerLost
from sessions.domain.splitter import LineSplitter, LineTooLong
from sessions.infrastructure.chunk_reader import chunk_reader
from sessions.infrastructure.environment import worker_environment
from sessions.infrastructure.open_files import restore_open_files
from sessions.infrastructure.pipes import Pipes
from sessions.infrastructure.spare_order import Order, told_order
from sessions.infrastructure.stderr_log import StderrLog
from sessions.infrastructure.warm_spare import Spare, WarmSpare

log = structlog.stdlib.get_logger()

MIB = 1024 * 1024
# What may wait for a worker that does not read: a full line of 16 MiB, and as much again.
_INBOX_BYTES = 32 * MIB
_INBOX_LINES = 4096
# Between SIGTERM and SIGKILL (design, section 13, item 8).
_TERM_GRACE = 2.0
# What is read after the process is gone: all that a pipe can hold. More comes from somebody else.
_DRAIN_BYTES = MIB
# How long the killed process may take to be reaped before the launcher gives up on it.
_REAP_TIMEOUT = 5.0
_INTERRUPT = b'{"type":"interrupt"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class SubprocessLauncher:
    """Runs `argv` plus the arguments of the thread, in the thread's project dir."""

    argv: Sequence[str]
    environ: Mapping[str, str]
    write_timeout: float = 10.0
    """How long a worker may leave its full stdin unread before it is ended."""
    max_line_bytes: int = 256 * MIB
    open_files: int | None = None
    """The soft limit of open files that the worker gets back, when the daemon raised its own."""
    spare: WarmSpare | None = None
    """What a worker of ours is made of at once, when there is one."""

    @asynccontextmanager
    async def __call__(
        self, thread: ThreadKey, options: ThreadOptions, token: str
    ) -> AsyncGenerator["SubprocessWorker"]:
        """Run the worker; leaving the block ends it and its whole group. Raises LaunchFailed."""
        arguments = arguments_of(thread, options)
        environ = worker_environment(self.environ, thread, options, token)
        spare = self._spare_for(thread)
        if spare is not None:
            process, pipes = spare.process, spare.pipes
        else:
            process, pipes = await self._start([*self.argv, *arguments], environ, thread)
        # No await until the try: a cancellation in that gap would leak a live process.
        stderr = StderrLog(process.pid)
        try:
            pipes.close_childs()
            if self.open_files is not None:
                restore_open_files(process.pid, self.open_files)
            worker = SubprocessWorker(process, pipes, stderr, self)
            if spare is not None:
                worker.become(Order(thread.project_dir, tuple(arguments), environ))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(worker.write_inbox)
                tasks.start_soon(worker.collect_stderr)
                tasks.start_soon(worker.watch_exit)
                tasks.start_soon(worker.carry_out_stop)
                try:
                    yield worker
                finally:
                    worker.leave()
                    tasks.cancel_scope.cancel()
        finally:
            _signal_group(process, signal.SIGKILL)
            with anyio.move_on_after(_REAP_TIMEOUT, shield=True):
                await process.wait()
            stderr.close()
            pipes.close()

    def _spare_for(self, thread: ThreadKey) -> Spare | None:
        """None also where a fresh start would fail, since that says why."""
        folder = thread.project_dir
        if self.spare is None or not (Path(folder).is_dir() and os.access(folder, os.X_OK)):
            return None
        return self.spare.take()

    async def _start(
        self, argv: list[str], environ: dict[str, str], thread: ThreadKey
    ) -> tuple[Process, Pipes]:
        try:
            pipes = Pipes.make()
        except OSError as exc:
            raise LaunchFailed(f"no pipes could be made for a worker: {exc.strerror}") from exc
        try:
            process = await anyio.open_process(
                argv,
                stdin=pipes.child_stdin,
                stdout=pipes.child_stdout,
                stderr=pipes.child_stderr,
                cwd=thread.project_dir,
                env=environ,
                start_new_session=True,
            )
        except (OSError, ValueError) as exc:
            pipes.close()
            raise LaunchFailed(why_not(argv[0], thread.project_dir, exc)) from exc
        return process, pipes


class SubprocessWorker:
    """A running worker. Made by the launcher, whose tasks run its coroutines."""

    def __init__(
        self,
        process: Process,
        pipes: Pipes,
        stderr: StderrLog,
        launcher: SubprocessLauncher,
    ) -> None:
        self.pid = process.pid
        self._process = process
        self._pipes = pipes
        self._stdout = chunk_reader(pipes.stdout)
        self._write_timeout = launcher.write_timeout
        self._splitter = LineSplitter(launcher.max_line_bytes)
        self._inbox: deque[bytes] = deque()
        self._inbox_bytes = 0
        self._inbox_filled = anyio.Event()
        self._is_deaf = False
        self._drainable = _DRAIN_BYTES
        self._stop_deadline: float | None = None
        self._stop_changed = anyio.Event()
        self._exited = anyio.Event()
        self._stderr = stderr
        self._failure: str | None = None

    # The port

    def send(self, line: bytes) -> None:
        """Put a line into the inbox. Raises WorkerLost."""
        if self._exited.is_set():
            raise WorkerLost("it has just exited")
        if self._stop_deadline is not None:
            raise WorkerLost("it is being stopped")
        if self._is_deaf:
            raise WorkerLost("it has closed its input")
        is_full = len(self._inbox) >= _INBOX_LINES or self._inbox_bytes + len(line) > _INBOX_BYTES
        if self._inbox and is_full:
            raise WorkerLost("it does not read what it was sent before")
        self._put(line)

    def stop(self, grace: float) -> None:
        """Begin the stop sequence, or hurry it."""
        deadline = anyio.current_time() + grace
        if self._stop_deadline is None:
            self._put(_INTERRUPT)
        elif deadline >= self._stop_deadline:
            return
        self._stop_deadline = deadline
        self._stop_changed.set()
        self._inbox_filled.set()

    def remember(self, note: bytes, idle_since: float | None) -> None:
        """It ends with this daemon: there will be nobody to read a note."""

    async def pump(self, take: TakeLines) -> None:
        """Hand over the lines, until the process is gone and its pipe is drained."""

        def take_chunk(chunk: bytes) -> None:
            if batch := self._split(chunk):
                take(batch)

        if not self._exited.is_set():
            await self._stdout.each(take_chunk)
            # It may have closed its stdout and still live, but has nothing more to say.
            await self._exited.wait()
        while self._drainable > 0 and (chunk := self._stdout.read_now()):
            self._drainable -= len(chunk)
            take_chunk(chunk)
        if self._splitter.unfinished:
            log.warning("unfinished_line_dropped", bytes=self._splitter.unfinished)

    def exit_reason(self) -> str:
        """Why the lines ended."""
        if self._failure is not None:
            return self._failure
        code = self._process.returncode
        if code is None:
            return "did not end"
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"

    def become(self, order: Order) -> None:
        """Tell a warm spare whose worker it is, before anything else."""
        self._put(told_order(order))

    # Coroutines that the launcher runs

    async def write_inbox(self) -> None:
        """Write out the inbox, one line after the other; at a stop, close stdin behind it."""
        fd = self._pipes.stdin
        while True:
            while self._inbox:
                line = self._inbox.popleft()
                self._inbox_bytes -= len(line)
                if not await self._write(fd, line + b"\n"):
                    return
            if self._stop_deadline is not None:
                self._pipes.close_stdin()
                return
            self._inbox_filled = anyio.Event()
            await self._inbox_filled.wait()

    async def collect_stderr(self) -> None:
        """Hand stderr over to the log, line by line."""
        fd = self._pipes.stderr
        while True:
            await anyio.wait_readable(fd)
            if not self._stderr.read_from(fd):
                return

    async def watch_exit(self) -> None:
        """Wait for the process; what it leaves behind in its group ends with it."""
        await self._process.wait()
        _signal_group(self._process, signal.SIGKILL)
        self._stderr.read_from(self._pipes.stderr)
        self._exited.set()
        # Whoever holds the other end may hold it for ever: the reader must not wait for its end.
        self._stdout.interrupt()

    def leave(self) -> None:
        """The block is left: nothing goes in any more, and nothing is read."""
        self._exited.set()
        self._stdout.close()

    async def carry_out_stop(self) -> None:
        """Once a stop was asked for: the grace, SIGTERM, two seconds, SIGKILL."""
        await self._stop_changed.wait()
        while (left := self._time_left()) > 0:
            self._stop_changed = anyio.Event()
            with anyio.move_on_after(left):
                await self._stop_changed.wait()
        _signal_group(self._process, signal.SIGTERM)
        await anyio.sleep(_TERM_GRACE)
        _signal_group(self._process, signal.SIGKILL)

    # Smaller steps

    def _put(self, line: bytes) -> None:
        self._inbox.append(line)
        self._inbox_bytes += len(line)
        self._inbox_filled.set()

    def _time_left(self) -> float:
        assert self._stop_deadline is not None
        return self._stop_deadline - anyio.current_time()

    def _split(self, chunk: bytes) -> list[bytes]:
        try:
            return self._splitter.feed(chunk)
        except LineTooLong as exc:
            self._fail(f"wrote {exc}")
            self._drainable = 0
            self._stdout.interrupt()
            return []

    async def _write(self, fd: int, line: bytes) -> bool:
        """Write all of it, or learn that nobody reads. Progress renews the deadline."""
        view = memoryview(line)
        while view:
            try:
                written = os.write(fd, view)
            except BlockingIOError:
                with anyio.move_on_after(self._write_timeout) as scope:
                    await anyio.wait_writable(fd)
                if scope.cancelled_caught:
                    self._fail(f"did not read its input for {self._write_timeout:g} s")
                    return False
            except OSError:
                # It closed its stdin, or it is gone, which its exit will tell.
                self._is_deaf = True
                return False
            else:
                view = view[written:]
        return True

    def _fail(self, reason: str) -> None:
        """The worker breaks the protocol: there is nothing left to ask it."""
        self._failure = f"was ended, because it {reason}"
        log.warning("worker_ended", worker_pid=self.pid, reason=reason)
        _signal_group(self._process, signal.SIGKILL)


def arguments_of(thread: ThreadKey, options: ThreadOptions) -> list[str]:
    """The worker's command line behind the configured command (design, section 3)."""
    arguments = ["headless", "--serve", "--require-approval"]
    arguments += ["--session-id", thread.conversation_id]
    if options.model is not None:
        arguments += ["--model", options.model]
    if options.mode is not None:
        arguments += ["--mode", options.mode]
    return arguments


def why_not(command: str, project_dir: str, exc: Exception) -> str:
    """Say which of the two it was: the command, or the directory."""
    cause = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    where = f"no worker could be started in {project_dir}"
    path = Path(project_dir)
    try:
        if not path.exists():
            return f"{where}: it does not exist"
        if not path.is_dir():
            return f"{where}: it is no folder"
    except OSError:
        # Such as a name that is longer than any file system takes.
        return f"{where}: {cause}"
    if not os.access(path, os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        return f"{where}: it can't be entered ({cause})"
    if isinstance(exc, OSError) and exc.errno in (errno.E2BIG, errno.ENOMEM, errno.EAGAIN):
        return f"{where}: {cause}; is a thread option (such as system_prompt) very long?"
    return f"{where}: the worker command {command!r} can't be run ({cause})"


def _signal_group(process: Process, signum: signal.Signals) -> None:
    # The new session made the pid the group's id. A group that is gone, or foreign, is left alone.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signum)
