"""LaunchWorker by way of a keeper, which outlives the daemon with its worker.

The keeper is forked from the launch pad when there is a warm one, else started afresh; either way
it is told what to launch over the connection that it is born with.
"""

import secrets
import socket
import subprocess
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
import structlog

from sessions.domain.keeper_frames import Failed, Group, Kind, Launch, Launched, told_launch
from sessions.domain.keys import ThreadKey, ThreadOptions
from sessions.domain.ports import LaunchFailed
from sessions.domain.settings import RegistrySettings
from sessions.infrastructure.control_groups import ControlGroups
from sessions.infrastructure.environment import worker_environment
from sessions.infrastructure.fault_points import Step, reached
from sessions.infrastructure.kept_worker import KeeperLost, KeptWorker, Link
from sessions.infrastructure.launch_pad import LaunchPad, pad_environment
from sessions.infrastructure.marks import VARIABLE, Mark, Marked, Role, marked_processes, roomy
from sessions.infrastructure.subprocess_worker import arguments_of, why_not

log = structlog.stdlib.get_logger()

MIB = 1024 * 1024
# From a request to word of a worker: a fresh interpreter on a busy machine needs its time.
_LAUNCH_TIMEOUT = 30.0
# A fork takes milliseconds: a pad that takes as long as this is halted, and not worth waiting for.
_FORK_TIMEOUT = 5.0
# How long a keeper may take to end its worker when nobody waits for that any more.
_REAP_TIMEOUT = 5.0
# Out of descriptors, processes can't be looked at.
_LOOK_AGAIN = 1.0


@dataclass(slots=True, kw_only=True)
class KeeperLauncher:
    """Runs `argv` plus the arguments of the thread, in the thread's project dir, under a keeper."""

    argv: Sequence[str]
    is_ours: bool
    """`argv` is this very program, so that a pad can fork it."""
    keeper_argv: Sequence[str]
    """A fresh keeper's program; its connection is its stdin."""
    environ: Mapping[str, str]
    folder: Path
    home: str
    settings: RegistrySettings
    pad: LaunchPad | None = None
    write_timeout: float = 10.0
    max_line_bytes: int = 256 * MIB
    open_files: int | None = None
    overdue: float = 30.0
    """How long past the grace a keeper may take: SIGTERM's 2 s, twice 5 s for what is left, and
    more on a busy machine. Then it is taken for stuck, and ended."""
    groups: ControlGroups | None = None
    leaves_workers: bool = False
    """At the end of the daemon its workers go on; set when a stop asks for that."""
    keeper_lost: Callable[[], None] = lambda: None
    """A keeper ended without a word: what it owned has no owner now."""

    @asynccontextmanager
    async def __call__(
        self, thread: ThreadKey, options: ThreadOptions, token: str
    ) -> AsyncGenerator[KeptWorker]:
        """Run the worker; leaving the block ends it and all it started. Raises LaunchFailed."""
        launch = self._launch(thread, options, token)
        reached(Step.LAUNCH_BEGUN)
        begun = await self._forked(launch)
        if begun is None:
            # Another keeper, by its name too: the pad's may come to be after all, and ends then.
            launch = self._launch(thread, options, token)
            begun = await self._started(launch)
        link, launched = begun
        worker = KeptWorker(link, launched.worker_pid, launch.keeper)
        # No await until the try in there: a cancellation in that gap would leave a worker behind.
        async with self.looked_after(worker):
            if not launched.is_adoptable:
                log.warning("worker_ends_with_daemon", worker_pid=worker.pid)
            yield worker

    @asynccontextmanager
    async def looked_after(self, worker: KeptWorker) -> AsyncGenerator[None]:
        """Exchange frames with the keeper; after the block end its worker, or leave it."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.write_outbox)
            tasks.start_soon(self._end_if_overdue, worker)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                if not self.leaves_workers:
                    with anyio.move_on_after(_REAP_TIMEOUT, shield=True):
                        await worker.end()
                worker.close()
                if worker.is_lost:
                    self.keeper_lost()

    async def _end_if_overdue(self, worker: KeptWorker) -> None:
        """A keeper that is halted, or mad, must not keep its thread from ever ending."""
        await worker.wait_overdue(self.overdue)
        for process in await self._marked():
            if process.mark == Mark(self.home, Role.KEEPER, worker.keeper):
                log.warning("stuck_keeper_ended", keeper_pid=process.pid, worker_pid=worker.pid)
                process.end()

    async def _marked(self) -> list[Marked]:
        while True:
            with suppress(OSError):
                return await anyio.to_thread.run_sync(lambda: list(marked_processes(self.home)))
            await anyio.sleep(_LOOK_AGAIN)

    async def _forked(self, launch: Launch) -> tuple[Link, Launched] | None:
        """By the pad. None: it is not warm, or did not fork. Raises LaunchFailed."""
        if self.pad is None or not self.is_ours:
            return None
        link, childs = _connection()
        with childs:
            is_asked = self.pad.fork(childs)
        if not is_asked:
            link.close()
            return None
        try:
            launched = await self._launched(link, launch, _FORK_TIMEOUT)
        except TimeoutError:
            self.pad.replace()
            launched = None
        if launched is None:
            log.info("launch_pad_did_not_fork")
            return None
        return link, launched

    async def _started(self, launch: Launch) -> tuple[Link, Launched]:
        """By an interpreter of its own. Raises LaunchFailed."""
        link, childs = _connection()
        try:
            with childs:
                await self._start_keeper(childs, launch.keeper)
                reached(Step.KEEPER_STARTED)
        except OSError as exc:
            link.close()
            reason = why_not(self.keeper_argv[0], launch.project_dir, exc)
            raise LaunchFailed(reason) from exc
        except BaseException:
            link.close()
            raise
        try:
            launched = await self._launched(link, launch, _LAUNCH_TIMEOUT)
        except TimeoutError as exc:
            text = f"no worker was there after {_LAUNCH_TIMEOUT:g} s; the machine may be too busy"
            raise LaunchFailed(f"{launch.project_dir}: {text}") from exc
        if launched is None:
            text = f"no worker could be started in {launch.project_dir}: its keeper ended"
            raise LaunchFailed(text)
        return link, launched

    async def _launched(self, link: Link, launch: Launch, patience: float) -> Launched | None:
        """Tell the keeper what to launch. None: there is no keeper.

        Raises LaunchFailed, TimeoutError.
        """
        try:
            with anyio.fail_after(patience):
                await link.send(told_launch(launch))
                reached(Step.LAUNCH_TOLD)
                kind, payload = await link.receive()
                reached(Step.LAUNCH_ANSWERED)
            if kind is Kind.LAUNCHED:
                return msgspec.msgpack.decode(payload, type=Launched)
            failed = msgspec.msgpack.decode(payload, type=Failed)
        except KeeperLost:
            link.close()
            return None
        except BaseException:
            link.close()
            raise
        link.close()
        if failed.is_of_group and launch.group is not None:
            what = f"its control group {launch.group.folder} can't be made ({failed.strerror})"
            raise LaunchFailed(f"no worker could be started in {launch.project_dir}: {what}")
        error = OSError(failed.errno, failed.strerror)
        raise LaunchFailed(why_not(launch.command[0], launch.project_dir, error))

    async def _start_keeper(self, childs: socket.socket, keeper: str) -> None:
        """Start a fresh keeper. Raises OSError.

        It leaves its first process at once, so that it is no child of this daemon, which it may
        outlive.
        """
        environ = pad_environment(self.environ)
        environ[VARIABLE] = roomy(Mark(self.home, Role.KEEPER, keeper))
        process = await anyio.open_process(
            self.keeper_argv,
            stdin=childs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environ,
            cwd="/",
            start_new_session=True,
        )
        with anyio.move_on_after(_LAUNCH_TIMEOUT, shield=True):
            await process.wait()

    def _launch(self, thread: ThreadKey, options: ThreadOptions, token: str) -> Launch:
        settings = self.settings
        keeper = uuid.uuid4().hex
        return Launch(
            keeper=keeper,
            home=self.home,
            folder=str(self.folder),
            token=secrets.token_hex(32),
            project_dir=thread.project_dir,
            conversation_id=thread.conversation_id,
            command=list(self.argv),
            arguments=arguments_of(thread, options),
            is_ours=self.is_ours,
            environ=worker_environment(self.environ, thread, options, token),
            open_files=self.open_files,
            write_timeout=self.write_timeout,
            stop_grace=settings.stop_grace,
            max_line_bytes=self.max_line_bytes,
            ring_events=settings.ring_events,
            ring_bytes=settings.ring_bytes,
            join_lines=settings.join_lines,
            join_bytes=settings.join_bytes,
            idle_timeout=settings.idle_timeout,
            approval_timeout=settings.approval_timeout,
            durable_interrupts=settings.durable_interrupts,
            announces_ready=settings.announces_ready,
            group=self._group(keeper),
        )

    def _group(self, keeper: str) -> Group | None:
        groups = self.groups
        if groups is None:
            return None
        return Group(str(groups.of(keeper).folder), groups.memory, groups.processes)


def _connection() -> tuple[Link, socket.socket]:
    """Our end and the keeper's. Raises LaunchFailed."""
    try:
        ours, childs = socket.socketpair()
    except OSError as exc:
        text = f"no connection could be made for a worker: {exc.strerror}"
        raise LaunchFailed(text) from exc
    return Link(ours), childs
