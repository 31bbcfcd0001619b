"""Whether a process comes from inside one of this daemon's workers; told on Linux only.

Looks at the token in its environment, and at who its ancestors are. A hurdle and no wall: a process
that dropped its environment and was adopted by another parent is not recognised.
"""

import os
from contextlib import suppress
from dataclasses import dataclass, field

from sessions.domain.ports import Threads

_MARK = b"ROOST_WORKER_TOKEN="
_LONGEST_ENVIRONMENT = 2**20
_LONGEST_STAT = 4096
_MOST_ANCESTORS = 64
# Shells and the like from which programs connect again and again.
_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class _Process:
    """What does not change while it lives: a pid that is used again has another start."""

    pid: int
    start: bytes
    parent: int


@dataclass(slots=True)
class Descent:
    """Tells for one daemon. Blocking, but bounded, and short: a few small files of the kernel."""

    threads: Threads
    proc: str = "/proc"
    _outside: dict[_Process, None] = field(default_factory=dict[_Process, None])
    """Ancestors that were found to be of no worker: neither they nor theirs are looked at again."""

    def is_inside(self, pid: int) -> bool:
        """Whether the process, or one that it comes from, is a worker or carries its token."""
        workers = {view.worker_pid for view in self.threads.views()}
        seen: list[_Process] = []
        for _ in range(_MOST_ANCESTORS):
            if pid in workers:
                return True
            process = self._look(pid)
            # Of a process that just ended, or that is another user's, no more can be told.
            if process is None or process in self._outside:
                break
            if (token := self._token_of(pid)) is not None:
                if self.threads.worker_with(token) is not None:
                    return True
                # Of a worker that is not known yet, perhaps: what is below it is not remembered.
                seen.clear()
            else:
                seen.append(process)
            if process.parent <= 1:
                break
            pid = process.parent
        self._remember(seen[1:])
        return False

    def _remember(self, ancestors: list[_Process]) -> None:
        for process in ancestors:
            self._outside[process] = None
        while len(self._outside) > _REMEMBERED:
            del self._outside[next(iter(self._outside))]

    def _token_of(self, pid: int) -> str | None:
        environment = b"\0" + _read(f"{self.proc}/{pid}/environ", _LONGEST_ENVIRONMENT)
        place = environment.find(b"\0" + _MARK)
        if place < 0:
            return None
        return os.fsdecode(environment[place + 1 + len(_MARK) :].partition(b"\0")[0])

    def _look(self, pid: int) -> _Process | None:
        stat = _read(f"{self.proc}/{pid}/stat", _LONGEST_STAT)
        with suppress(ValueError, IndexError):
            # The name of a program may hold anything, brackets and spaces too.
            fields = stat[stat.rindex(b")") + 2 :].split()
            return _Process(pid, fields[19], int(fields[1]))
        return None


def _read(path: str, most: int) -> bytes:
    """The beginning of a file; nothing of one that can't be read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        read = b""
        while len(read) < most and (more := os.read(file, most - len(read))):
            read += more
        return read
    except OSError:
        return b""
    finally:
        os.close(file)
