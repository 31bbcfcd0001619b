"""Whether a process comes from inside one of this daemon's workers; told on Linux only.

Looks at the token in its environment, and at who its ancestors are. A hurdle and no wall: a process
that dropped its environment and was adopted by another parent is not recognised.
"""

import os
from contextlib import suppress
from pathlib import Path

from sessions.domain.ports import Threads

_MARK = b"ROOST_WORKER_TOKEN="
_LONGEST_ENVIRONMENT = 2**20
_MOST_ANCESTORS = 64


def is_inside(pid: int, threads: Threads, proc: Path = Path("/proc")) -> bool:
    """Blocking, but bounded, and short: a few small files that the kernel makes."""
    workers = {view.worker_pid for view in threads.views()}
    for _ in range(_MOST_ANCESTORS):
        if pid in workers or _carries_a_token(pid, threads, proc):
            return True
        parent = _parent(pid, proc)
        if parent is None or parent <= 1:
            break
        pid = parent
    return False


def _carries_a_token(pid: int, threads: Threads, proc: Path) -> bool:
    with suppress(OSError), (proc / str(pid) / "environ").open("rb") as file:
        for variable in file.read(_LONGEST_ENVIRONMENT).split(b"\0"):
            if variable.startswith(_MARK):
                token = os.fsdecode(variable[len(_MARK) :])
                return threads.worker_with(token) is not None
    return False


def _parent(pid: int, proc: Path) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        stat = (proc / str(pid) / "stat").read_bytes()
        # The name of a program may hold anything, brackets and spaces too.
        return int(stat[stat.rindex(b")") + 2 :].split()[1])
    return None
