"""FindSurvivors by the descriptors that keepers leave: connect, show the token, be told.

A keeper whose files are gone is found by its mark and asked to leave them anew. One that can't be
taken over, because it is of another version, was never known to a registry or can't leave files, is
asked to end.
"""

import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
import structlog

from sessions.domain.keeper_frames import ADOPT_TIMEOUT, Adopt, Kind, Refused, told
from sessions.domain.kept import BadNote, Kept, decode_note
from sessions.domain.keys import ConversationId, ThreadKey
from sessions.domain.ports import Survivor
from sessions.infrastructure.fault_points import Step, reached
from sessions.infrastructure.keeper_files import (
    Descriptor,
    KeeperFiles,
    left_unfinished,
    read_descriptor,
    read_outcome,
    remove_if_possible,
)
from sessions.infrastructure.keeper_launcher import KeeperLauncher
from sessions.infrastructure.kept_worker import KeeperLost, KeptWorker, Link
from sessions.infrastructure.marks import Marked, Role, marked_processes, process_start

log = structlog.stdlib.get_logger()

# All of them at once, so that a busy machine needs its time; but one that does not answer must not
# keep the daemon from starting for ever.
_REPUBLISH_TIMEOUT = 15.0
_LOOK_EVERY = 0.01


@dataclass(frozen=True, slots=True)
class KeeperSurvivors:
    """The workers under the keepers of one folder."""

    launcher: KeeperLauncher
    folder: Path
    home: str

    async def __call__(self) -> Sequence[Survivor]:
        """Take over every keeper that can be; what is left of others is cleared away."""
        keepers = await anyio.to_thread.run_sync(self._living)
        await self._find_again(keepers)
        self._take_in_outcomes()
        found: list[Survivor] = []
        async with anyio.create_task_group() as tasks:
            for descriptor in self._descriptors(keepers):
                tasks.start_soon(self._adopt, descriptor, keepers[descriptor.keeper], found)
        return found

    def _living(self) -> dict[str, Marked]:
        """The keepers of this home, by name. One that somebody halted would answer nobody."""
        found = [p for p in marked_processes(self.home) if p.mark.role is Role.KEEPER]
        for process in found:
            if process.is_halted:
                log.warning("halted_keeper_set_going", keeper_pid=process.pid)
                process.end(signal.SIGCONT)
        return {p.mark.keeper: p for p in found}

    async def _find_again(self, keepers: dict[str, Marked]) -> None:
        """Have those leave their files anew whose files are gone, or lead to somebody else."""
        lost = [p for p in keepers.values() if not self._is_found(p)]
        if not lost:
            return
        for process in lost:
            log.warning("keeper_files_lost", keeper_pid=process.pid)
            process.end(signal.SIGHUP)
        with anyio.move_on_after(_REPUBLISH_TIMEOUT):
            # Another process: there is no event to wait for.
            while any(map(self._is_awaited, lost)):  # noqa: ASYNC110
                await anyio.sleep(_LOOK_EVERY)

    def _is_awaited(self, keeper: Marked) -> bool:
        return not self._is_found(keeper) and process_start(keeper.pid) == keeper.start

    def _is_found(self, keeper: Marked) -> bool:
        return KeeperFiles(self.folder, keeper.mark.keeper).lead_to(keeper.pid, keeper.start)

    def _descriptors(self, keepers: dict[str, Marked]) -> list[Descriptor]:
        """Those of living keepers; the files of others are removed."""
        found: list[Descriptor] = []
        for keeper in keepers.values():
            descriptor = read_descriptor(KeeperFiles(self.folder, keeper.mark.keeper).descriptor)
            if descriptor is not None and self._is_found(keeper):
                found.append(descriptor)
            else:
                self._give_up(keeper, "it leaves no files to find it by")
        for file in sorted(self.folder.glob("*.json")):
            if file.stem not in keepers:
                log.info("stale_keeper_files_removed", file=file.name)
                KeeperFiles(self.folder, file.stem).remove()
        left = [file for file in self.folder.glob("*.sock") if file.stem not in keepers]
        left += left_unfinished(self.folder, {p.pid for p in keepers.values()})
        for file in left:
            remove_if_possible(file)
        return found

    def _give_up(self, keeper: Marked, reason: str) -> None:
        """Nobody can follow its worker, so it must not go on unseen."""
        log.warning("keeper_not_adopted", keeper_pid=keeper.pid, reason=reason)
        keeper.end(signal.SIGTERM)

    def _take_in_outcomes(self) -> None:
        for file in sorted(self.folder.glob("*.outcome")):
            outcome = read_outcome(file)
            if outcome is not None:
                log.info(
                    "worker_ended_without_daemon",
                    project_dir=outcome.project_dir,
                    conversation_id=outcome.conversation_id,
                    reason=outcome.reason,
                )
            remove_if_possible(file)

    async def _adopt(self, descriptor: Descriptor, keeper: Marked, found: list[Survivor]) -> None:
        refused = Refused("it did not answer in time")
        link: Link | None = None
        try:
            with anyio.move_on_after(ADOPT_TIMEOUT):
                link = Link(KeeperFiles(self.folder, descriptor.keeper).connect())
                reached(Step.ADOPT_CONNECTED)
                await link.send(told(Kind.ADOPT, Adopt(descriptor.token)))
                reached(Step.ADOPT_TOLD)
                kind, payload = await link.receive()
                reached(Step.ADOPT_ANSWERED)
                if kind is Kind.KEPT:
                    found.append(self._survivor(descriptor, payload, link))
                    return
                refused = msgspec.msgpack.decode(payload, type=Refused)
        except (KeeperLost, OSError, BadNote, msgspec.MsgspecError) as exc:
            refused = Refused(str(exc))
        if link is not None:
            link.close()
        if refused.is_looked_after:
            log.warning("keeper_not_adopted", keeper_pid=keeper.pid, reason=refused.reason)
        else:
            self._give_up(keeper, refused.reason)

    def _survivor(self, descriptor: Descriptor, payload: bytes, link: Link) -> Survivor:
        kept = msgspec.msgpack.decode(payload, type=Kept)
        note = decode_note(kept.note)
        thread = ThreadKey(descriptor.project_dir, ConversationId(descriptor.conversation_id))
        worker = KeptWorker(link, kept.worker_pid, descriptor.keeper)
        return Survivor(thread, kept, note, self._resumed(worker))

    @asynccontextmanager
    async def _resumed(self, worker: KeptWorker) -> AsyncGenerator[KeptWorker]:
        async with self.launcher.looked_after(worker):
            yield worker
