"""SIGKILL for anything at any time, and a look at what is left. For a test and for a benchmark."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sessions.infrastructure.keeper_files import Descriptor, KeeperFiles
from sessions.infrastructure.marks import (
    VARIABLE,
    Mark,
    Marked,
    Role,
    home_mark,
    marked_processes,
    process_start,
)
from tests.support.keepers import wait_until

DAEMON = str(Path(__file__).parent / "workers/killable_daemon.py")
# From the end of a keeper until nothing of its thread is left, while a daemon lives: less than
# until its next look without a reason. How long it takes on a calm machine, the benchmark tells.
_LONGEST_ORPHAN = 25.0


@dataclass(slots=True)
class Killing:
    """One home, its daemon, and bystanders that must survive all of this."""

    folder: Path
    threads: int
    random: random.Random
    kills: dict[str, int] = field(default_factory=dict[str, int])
    longest_orphan: float = 0.0
    _daemon: subprocess.Popen[str] | None = None
    _orphans: dict[tuple[int, str], float] = field(default_factory=dict[tuple[int, str], float])

    @property
    def home(self) -> str:
        return home_mark(self.folder / "keepers")

    def start(self) -> None:
        """Start a daemon, and wait until it has taken over what there is."""
        with (self.folder / "log").open("a") as log:
            self._daemon = subprocess.Popen(
                [sys.executable, DAEMON, str(self.folder), str(self.threads)],
                stdout=subprocess.PIPE,
                stderr=log,
                env={"PATH": os.environ["PATH"]},
                text=True,
            )
        assert self._daemon.stdout is not None
        assert self._daemon.stdout.readline() == "ready\n", (self.folder / "log").read_text()
        self._orphans.clear()

    def stop(self) -> None:
        """In order, as a SIGTERM does."""
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGTERM)
        self._daemon.communicate(timeout=60)

    def abandon(self) -> None:
        """Whatever happened: no daemon is left."""
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.communicate(timeout=60)

    def kill_some(self) -> None:
        """A few SIGKILLs by chance, close together: what there is, and at first and now and then
        the daemon."""
        assert self._daemon is not None
        wait_until(self._is_recovered, every=0.05)
        targets = self._some(self.random.randint(2, 10))
        if "daemon" not in self.kills or self.random.random() < 0.1:
            self._count("daemon")
            self._daemon.kill()
            self._daemon.communicate(timeout=60)
            for process in targets:
                self._kill(process)
            self.start()
        for process in targets:
            self._kill(process)

    def _is_recovered(self) -> bool:
        """Every thread has a worker again, or what that has started."""
        marked = self.look()
        return len({p.mark.keeper for p in marked if p.mark.role is Role.WORKER}) >= self.threads

    def look(self) -> list[Marked]:
        """How long has anything been without its keeper, while a daemon lives? All there is."""
        processes = list(marked_processes(self.home))
        keepers = {p.mark.keeper for p in processes if p.mark.role is Role.KEEPER}
        now = time.monotonic()
        orphans = {
            (p.pid, p.start)
            for p in processes
            if p.mark.role is Role.WORKER and p.mark.keeper not in keepers
        }
        self._orphans = {o: self._orphans.get(o, now) for o in orphans}
        for since in self._orphans.values():
            self.longest_orphan = max(self.longest_orphan, now - since)
        return processes

    def is_empty(self) -> bool:
        return not list(marked_processes(self.home))

    def _some(self, count: int) -> list[Marked]:
        """By role first, so that there is no hiding in a crowd."""
        by_role: dict[Role, list[Marked]] = {}
        for process in marked_processes(self.home):
            by_role.setdefault(process.mark.role, []).append(process)
        return [
            self.random.choice(by_role[self.random.choice(sorted(by_role))])
            for _ in range(count if by_role else 0)
        ]

    def _kill(self, process: Marked) -> None:
        if process.end():
            self._count(process.mark.role.value)

    def _count(self, what: str) -> None:
        self.kills[what] = self.kills.get(what, 0) + 1


@contextmanager
def bystanders(killing: Killing) -> Generator[list[subprocess.Popen[bytes]]]:
    """Processes that look like ours: by name, by variable, by a pid that a file of ours names."""
    other = Mark("0" * 12, Role.WORKER, "f" * 32)
    mine = Mark(killing.home, Role.WORKER, "f" * 32)
    sleeping = [sys.executable, "-c", "import time; time.sleep(3600)", "roost-keeper"]
    started = [
        subprocess.Popen(sleeping, env=environ)
        for environ in ({}, {VARIABLE: str(other)}, {f"{VARIABLE}S": str(mine)}, {"X": str(mine)})
    ]
    for number, process in enumerate(started):
        # A keeper of this pid once was; the pid is the bystander's now.
        keeper = f"{number}" * 32
        KeeperFiles(killing.folder / "keepers", keeper).describe(
            Descriptor(
                keeper=keeper,
                pid=process.pid,
                process_start=str(int(process_start(process.pid) or "0") - 1),
                project_dir=str(killing.folder),
                conversation_id=f"c{number}",
                worker_pid=process.pid,
                socket="gone",
                token="t",
                revision=1,
            )
        )
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def kill_at_random(folder: Path, count: int, threads: int, seed: int) -> Killing:
    """So many kills, an orderly end, and a look at what is left. Raises AssertionError."""
    killing = Killing(folder, threads, random.Random(seed))
    with bystanders(killing) as others:
        killing.start()
        try:
            while sum(killing.kills.values()) < count:
                killing.kill_some()
            killing.look()
            killing.stop()
            wait_until(killing.is_empty)
        finally:
            killing.abandon()
            for process in marked_processes(killing.home):
                process.end()
        assert all(other.poll() is None for other in others), "a bystander was killed"
    assert killing.longest_orphan < _LONGEST_ORPHAN, killing.longest_orphan
    away = (folder / "away").read_text().split()
    still = [pid for pid in away if process_start(int(pid)) and _is_ours(int(pid), folder)]
    assert not still, f"these got away: {still}"
    return killing


def _is_ours(pid: int, folder: Path) -> bool:
    try:
        return str(folder / "away").encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
