"""Ending all that a process started, also what left its group and its session. Linux.

A subreaper is the parent of every orphan below it, so nothing below it gets out of its sight, and
"no child left" from the kernel is the proof that nothing is.
"""

import ctypes
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from sessions.infrastructure.marks import stat_fields

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1
_PARENT = 1
# Killed processes are gone in microseconds; the next look is for what forked meanwhile.
_LOOK_EVERY = 0.002


def become_subreaper() -> None:
    """Adopt the orphans among this process's descendants. Does nothing where there is no such."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent(signum: signal.Signals) -> None:
    """Ask for a signal when the parent of this process is gone."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signum), 0, 0, 0)


def descendants(of: int, proc: Path = Path("/proc")) -> list[int]:
    """Every process below this one, as they are now."""
    children: dict[int, list[int]] = {}
    with suppress(OSError):
        for name in os.listdir(proc):  # noqa: PTH208 (thousands of them)
            if name.isdecimal():
                with suppress(OSError, ValueError, IndexError):
                    parent = int(stat_fields(proc / name)[_PARENT])
                    children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    above = [of]
    while above:
        below = children.get(above.pop(), [])
        found += below
        above += below
    return found


def end_descendants(patience: float) -> bool:
    """Kill and reap all that is below this process. False: something is left after all."""
    give_up = time.monotonic() + patience
    while True:
        if not reap():
            return True
        if time.monotonic() > give_up:
            return False
        # A child's pid can't be used again before it is reaped, which nobody but us does; what is
        # further below is looked up anew each time.
        for pid in descendants(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK_EVERY)


def reap() -> bool:
    """Take in the ends of children. False: there is no child, dead or alive."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
