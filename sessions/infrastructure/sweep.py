"""Ending what nobody owns: processes with a thread's mark whose keeper is gone.

When the daemon starts, whenever a keeper ends without a word, and every now and then. Nothing is
ended by its name or its pid alone: it has to carry a mark of this home, and is that very process.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
import structlog

from sessions.infrastructure.control_groups import ControlGroups
from sessions.infrastructure.marks import Marked, Role, marked_processes

log = structlog.stdlib.get_logger()

# A look at every process of the machine: a few milliseconds, so not often without a reason.
_EVERY = 30.0
# What forks while it is looked for is found by the next look; a clean one ends the matter.
_MOST_LOOKS = 100
_LOOK_AGAIN = 0.02


def ownerless(processes: list[Marked], own_pad: int | None) -> list[Marked]:
    """Those whose owner does not live: workers without their keeper, pads without their daemon."""
    keepers = {p.mark.keeper for p in processes if p.mark.role is Role.KEEPER}
    return [p for p in processes if _is_ownerless(p, keepers, own_pad)]


def _is_ownerless(process: Marked, keepers: set[str], own_pad: int | None) -> bool:
    if process.mark.role is Role.WORKER:
        return process.mark.keeper not in keepers
    # What the pad has just forked still says that it is a pad.
    is_pad = process.mark.role is Role.PAD
    return is_pad and own_pad not in (process.pid, process.parent)


@dataclass(slots=True)
class Sweeper:
    """Enter `serving`; call `ask` when there is a reason to look now."""

    home: str
    own_pid: int
    own_pad: Callable[[], int | None] = lambda: None
    groups: ControlGroups | None = None
    look: Callable[[str], list[Marked]] = lambda home: list(marked_processes(home))
    _asked: anyio.Event = field(default_factory=anyio.Event)

    def ask(self) -> None:
        self._asked.set()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Sweep while the block runs, and once at its end: then nobody is left who would."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_sweeping)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
        with anyio.move_on_after(2.0, shield=True):
            await anyio.to_thread.run_sync(self.sweep)

    def sweep(self) -> int:
        """End what is ownerless, and what that forks meanwhile. Returns how many were ended.

        Out of descriptors or memory, nobody is ended: a keeper may be what was not seen.
        """
        try:
            return self._sweep()
        except OSError as exc:
            log.warning("sweep_put_off", reason=exc.strerror)
            return 0

    def _sweep(self) -> int:
        self._sweep_groups()
        ended = 0
        for _ in range(_MOST_LOOKS):
            found = [p for p in self.look(self.home) if p.pid != self.own_pid]
            targets = ownerless(found, self.own_pad())
            if not targets:
                return ended
            for target in targets:
                if target.end():
                    ended += 1
                    log.warning("orphan_ended", pid=target.pid, role=target.mark.role.value)
        return ended

    def _sweep_groups(self) -> None:
        """End the control groups whose keeper does not live."""
        if self.groups is None:
            return
        # The groups first: a keeper makes its group after it has its mark.
        groups = list(self.groups.found())
        keepers = {p.mark.keeper for p in self.look(self.home) if p.mark.role is Role.KEEPER}
        for keeper, group in groups:
            if keeper not in keepers:
                try:
                    group.end()
                    log.warning("ownerless_group_ended", folder=str(group.folder))
                except OSError as exc:
                    log.warning(
                        "ownerless_group_not_ended", folder=str(group.folder), reason=exc.strerror
                    )

    async def _keep_sweeping(self) -> None:
        while True:
            await anyio.to_thread.run_sync(self.sweep)
            with anyio.move_on_after(_EVERY):
                await self._asked.wait()
            if self._asked.is_set():
                self._asked = anyio.Event()
                # What the end of a keeper sets off is under way; look behind it once more.
                await anyio.to_thread.run_sync(self.sweep)
                await anyio.sleep(_LOOK_AGAIN)
