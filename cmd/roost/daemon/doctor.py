"""What can be wrong around a daemon, one finding each, and what repairs it.

Looks at files and processes itself, and asks no daemon: it has to work when there is none, when
its records are gone, and when they lie.
"""

import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from connection import sqlite_journal
from roost.daemon.lock import lock_holder
from roost.daemon.run_file import NotRunning, RunFile
from roost.daemon.stopping import LEAVE_WORKERS
from roost.home import RoostHome
from sessions.infrastructure.control_groups import ControlGroups
from sessions.infrastructure.keeper_files import KeeperFiles, left_unfinished, read_descriptor
from sessions.infrastructure.marks import (
    Marked,
    Role,
    home_mark,
    is_halted,
    marked_processes,
)
from sessions.infrastructure.sweep import ownerless

# A daemon takes over the workers of the one before it before it says where it is.
_LONGEST_START = timedelta(minutes=1)
_NAMES = {Role.PAD: "launch pad", Role.KEEPER: "keeper", Role.WORKER: "process of a thread"}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be. Without `repair` only a person can help."""

    says: str
    repair: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Doctor:
    """Looks at one home."""

    home: RoostHome
    groups: ControlGroups | None = None
    """Where threads have control groups."""

    def findings(self) -> list[Finding]:
        """Everything that is wrong now."""
        processes = list(marked_processes(home_mark(self.home.path)))
        return [
            *self._of_run_folder(),
            *self._of_run_file(),
            *self._of_lost_daemon(),
            *self._of_halted_daemon(),
            *self._of_token(),
            *self._of_journal(),
            *self._of_keeper_files(processes),
            *self._of_processes(processes),
            *self._of_groups(processes),
        ]

    def remarks(self) -> list[str]:
        """What is no fault, but good to know."""
        found = RunFile(self.home.daemon_json).look()
        if not isinstance(found, NotRunning) or lock_holder(self.home.daemon_lock) is not None:
            return []
        keepers = living_keepers(self.home)
        if not keepers:
            return []
        count = len(keepers)
        text = f"No daemon runs, and {count} workers go on without one: 'roost daemon' takes them"
        return [f"{text} over, 'roost stop' ends them."]

    def _of_run_folder(self) -> Iterator[Finding]:
        for folder in (self.home.run, self.home.keepers):
            if folder.exists() and not folder.is_dir():
                yield Finding(f"{folder} is a file, and should be a folder.", folder.unlink)
            elif folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
                yield Finding(
                    f"{folder} can't be written, so no worker outlives the daemon. Give it back to"
                    " its user (chown, chmod u+rwx)."
                )

    def _of_run_file(self) -> Iterator[Finding]:
        file = RunFile(self.home.daemon_json)
        found = file.look()
        if isinstance(found, NotRunning) and found.note is not None:
            yield Finding(found.note, file.remove)

    def _of_lost_daemon(self) -> Iterator[Finding]:
        """One that serves and that nobody finds."""
        holder = lock_holder(self.home.daemon_lock)
        is_found = not isinstance(RunFile(self.home.daemon_json).look(), NotRunning)
        if holder is None or is_found or datetime.now(UTC) - holder.since < _LONGEST_START:
            return
        yield Finding(
            f"A daemon runs (pid {holder.pid}) and has lost its run file, so that nobody finds it."
            " To repair that is to end it; its workers go on for the next one.",
            partial(os.kill, holder.pid, LEAVE_WORKERS),
        )

    def _of_halted_daemon(self) -> Iterator[Finding]:
        daemon = self._daemon()
        if daemon is not None and is_halted(daemon):
            yield Finding(
                f"The daemon {daemon} is halted (SIGSTOP).",
                partial(os.kill, daemon, signal.SIGCONT),
            )

    def _of_token(self) -> Iterator[Finding]:
        token = self.home.token
        with suppress(OSError):
            mode = stat.S_IMODE(token.stat().st_mode)
            if mode & 0o077:
                says = f"{token} is open to other users (mode {mode:o})."
                yield Finding(says, lambda: token.chmod(0o600))
            if not token.read_bytes().strip():
                yield Finding(f"{token} is empty; the next start makes a new one.", token.unlink)

    def _of_journal(self) -> Iterator[Finding]:
        """A daemon that runs has read its journal, and is the only one to touch it."""
        if not isinstance(RunFile(self.home.daemon_json).look(), NotRunning):
            return
        wrong = sqlite_journal.check(self.home.journal)
        if wrong is not None:
            yield Finding(f"{wrong}.", partial(sqlite_journal.move_aside, self.home.journal))

    def _of_keeper_files(self, processes: list[Marked]) -> Iterator[Finding]:
        keepers = {p.mark.keeper: p for p in processes if p.mark.role is Role.KEEPER}
        for file in _files(self.home.keepers, "*.json"):
            if file.stem in keepers:
                continue
            descriptor = read_descriptor(file)
            files = KeeperFiles(self.home.keepers, file.stem)
            if descriptor is None:
                yield Finding(f"{file} is damaged, and its keeper is gone.", _removing(files))
            else:
                yield Finding(
                    f"{file} is left from a keeper that is gone (pid {descriptor.pid}).",
                    _removing(files),
                )
        for file in left_unfinished(self.home.keepers, {p.pid for p in keepers.values()}):
            yield Finding(f"{file} was never written to its end.", file.unlink)
        for file in _files(self.home.keepers, "*.sock"):
            is_known = (self.home.keepers / f"{file.stem}.json").exists()
            if file.stem not in keepers and not is_known:
                yield Finding(f"{file} is left from a keeper that is gone.", file.unlink)

    def _of_processes(self, processes: list[Marked]) -> Iterator[Finding]:
        for process in processes:
            if process.is_halted and self._is_ours(process):
                yield Finding(
                    f"The {_NAMES[process.mark.role]} {process.pid} is halted (SIGSTOP).",
                    _sending(process, signal.SIGCONT),
                )
            if process.mark.role is Role.KEEPER and not self._is_published(process):
                yield Finding(
                    f"The keeper {process.pid} has lost its files, so that no daemon finds it.",
                    _sending(process, signal.SIGHUP),
                )
        for process in ownerless(processes, self._pad_of_daemon(processes)):
            yield Finding(
                f"The {_NAMES[process.mark.role]} {process.pid} has no owner any more.",
                _sending(process, signal.SIGKILL),
            )

    def _of_groups(self, processes: list[Marked]) -> Iterator[Finding]:
        if self.groups is None:
            return
        keepers = {p.mark.keeper for p in processes if p.mark.role is Role.KEEPER}
        for keeper, group in self.groups.found():
            if keeper not in keepers:
                yield Finding(
                    f"The control group {group.folder} is left from a keeper that is gone.",
                    group.end,
                )

    def _pad_of_daemon(self, processes: list[Marked]) -> int | None:
        daemon = self._daemon()
        pads = (p for p in processes if p.mark.role is Role.PAD and p.parent == daemon)
        return next((p.pid for p in pads), None)

    def _daemon(self) -> int | None:
        found = RunFile(self.home.daemon_json).look()
        if not isinstance(found, NotRunning):
            return found.record.pid
        holder = lock_holder(self.home.daemon_lock)
        return None if holder is None else holder.pid

    def _is_ours(self, process: Marked) -> bool:
        """Rather than something that an agent started, and may have halted for a reason."""
        descriptor = read_descriptor(KeeperFiles(self.home.keepers, process.mark.keeper).descriptor)
        is_worker = descriptor is not None and descriptor.worker_pid == process.pid
        return process.mark.role is not Role.WORKER or is_worker

    def _is_published(self, keeper: Marked) -> bool:
        files = KeeperFiles(self.home.keepers, keeper.mark.keeper)
        return files.lead_to(keeper.pid, keeper.start)


def living_keepers(home: RoostHome) -> list[Marked]:
    """The keepers that run for this home."""
    return [p for p in marked_processes(home_mark(home.path)) if p.mark.role is Role.KEEPER]


def _files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern)) if folder.is_dir() else []


def _removing(files: KeeperFiles) -> Callable[[], None]:
    def remove() -> None:
        for file in (files.descriptor, files.address):
            file.unlink(missing_ok=True)

    return remove


def _sending(process: Marked, signum: signal.Signals) -> Callable[[], None]:
    def send() -> None:
        process.end(signum)

    return send
