"""The daemon's hold on its warm spare: one worker that is ready before it is wanted.

Started when a worker of ours is first wanted, and anew whenever it was taken or ended. Whoever
wants one while there is none starts a fresh interpreter: a spare is only ever a faster way.
"""

import os
import select
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio
import structlog
from anyio.abc import Process

from sessions.infrastructure.launch_pad import pad_environment
from sessions.infrastructure.pipes import Pipes
from sessions.infrastructure.spare_order import READY

log = structlog.stdlib.get_logger()

# One that ends by itself would do so again: each time it rests twice as long.
_FIRST_REST = 1.0
_LONGEST_REST = 60.0
_WARM_TIMEOUT = 60.0
_END_TIMEOUT = 2.0


@dataclass(slots=True)
class Spare:
    """A process and our ends of its pipes. Whoever takes it ends it."""

    process: Process
    pipes: Pipes
    is_taken: bool = False


@dataclass(slots=True)
class WarmSpare:
    """Enter `serving` to have one; `take` it at any time."""

    argv: Sequence[str]
    environ: Mapping[str, str]
    _warm: Spare | None = None
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _is_wanted: bool = False

    @property
    def is_warm(self) -> bool:
        return self._warm is not None

    @property
    def pid(self) -> int | None:
        """Of the warm one."""
        return None if self._warm is None else self._warm.process.pid

    def take(self) -> Spare | None:
        """The warm one, which is the caller's from here on. None: there is none just now."""
        self._is_wanted = True
        self._changed.set()
        if self._warm is None or _has_ended(self._warm):
            return None
        taken, self._warm = self._warm, None
        taken.is_taken = True
        return taken

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Have a spare while the block runs, from when one is first wanted."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._supervise)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _supervise(self) -> None:
        while not self._is_wanted:
            await self._next_change()
        rest = _FIRST_REST
        while True:
            try:
                was_taken = await self._offer_one()
            except OSError as exc:
                log.warning("warm_spare_not_started", reason=exc.strerror)
                was_taken = False
            rest = _FIRST_REST if was_taken else min(2 * rest, _LONGEST_REST)
            if not was_taken:
                await anyio.sleep(rest)

    async def _offer_one(self) -> bool:
        """Start one, and offer it until it is taken. False: it ended by itself.

        Raises OSError when it can't be started.
        """
        spare = await self._start()
        # No await until the try: a cancellation in that gap would leave a process behind.
        try:
            if not await _is_warm(spare):
                log.info("warm_spare_ended", pid=spare.process.pid)
                return False
            self._warm = spare
            log.info("warm_spare_ready", pid=spare.process.pid)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._tell_of_end, spare.process)
                while not spare.is_taken and spare.process.returncode is None:
                    await self._next_change()
                tasks.cancel_scope.cancel()
            return spare.is_taken
        finally:
            if not spare.is_taken:
                self._warm = None
                await _end(spare)

    async def _start(self) -> Spare:
        pipes = Pipes.make()
        try:
            process = await anyio.open_process(
                self.argv,
                stdin=pipes.child_stdin,
                stdout=pipes.child_stdout,
                stderr=pipes.child_stderr,
                cwd="/",
                env=pad_environment(self.environ),
                start_new_session=True,
            )
        except BaseException:
            pipes.close()
            raise
        pipes.close_childs()
        return Spare(process, pipes)

    async def _tell_of_end(self, process: Process) -> None:
        await process.wait()
        self._changed.set()

    async def _next_change(self) -> None:
        self._changed = anyio.Event()
        await self._changed.wait()


async def _is_warm(spare: Spare) -> bool:
    """Wait until it says so. False: it ended, or takes longer than any import does."""
    said = b""
    with anyio.move_on_after(_WARM_TIMEOUT):
        while len(said) < len(READY):
            await anyio.wait_readable(spare.pipes.stdout)
            part = os.read(spare.pipes.stdout, len(READY) - len(said))
            if not part:
                break
            said += part
    return said == READY


def _has_ended(spare: Spare) -> bool:
    """As the kernel knows before the event loop does: a warm one says nothing until its end."""
    poll = select.poll()
    poll.register(spare.pipes.stdout, select.POLLIN)
    return bool(poll.poll(0))


async def _end(spare: Spare) -> None:
    """The end of its stdin is its end; what does not heed that is made to."""
    spare.pipes.close()
    with anyio.move_on_after(_END_TIMEOUT, shield=True):
        await spare.process.wait()
    if spare.process.returncode is None:
        with suppress(ProcessLookupError):
            spare.process.kill()
        with anyio.move_on_after(_END_TIMEOUT, shield=True):
            await spare.process.wait()
