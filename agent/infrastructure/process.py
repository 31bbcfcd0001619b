"""Who a pid is: the pid together with the moment the kernel says that process started.

A pid alone is reused within minutes on a busy machine, so every file of ours that names a process
(leases, the daemon's file) stores both, and asks here. Light to import: it runs before anything
else does. It refuses to know what the process is for.
"""

import os
import subprocess
import sys
from pathlib import Path


def process_start(pid: int) -> str | None:
    """When the process started, as an opaque text to compare, or None when there is none.

    A zombie has ended: it is None too.
    """
    if pid <= 0:
        return None
    if sys.platform == "linux":
        return _linux_start(pid)
    return _ps_start(pid)


def is_alive(pid: int, start: str | None) -> bool:
    """Is that very process still running? Without a ``start`` any process with the pid counts."""
    found = process_start(pid)
    return found is not None and (start is None or found == start)


class KernelProcesses:
    """The same, behind the agent's port."""

    def started_at(self, pid: int) -> str | None:
        """When it started, to compare; None when there is none."""
        return process_start(pid)

    def lives(self, pid: int, started_at: str | None) -> bool:
        """Does that very process still run?"""
        return is_alive(pid, started_at)


def _linux_start(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The command's name, field 2, may hold spaces and parentheses: count from the last ')'.
    fields = stat[stat.rfind(b")") + 2 :].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return fields[19].decode("ascii")


def _ps_start(pid: int) -> str | None:
    try:
        found = subprocess.run(
            ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
            capture_output=True,
            text=True,
            timeout=5,
            env={"PATH": os.environ.get("PATH", "/bin:/usr/bin"), "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    state, _, started = found.stdout.strip().partition(" ")
    return None if not started.strip() or state.startswith("Z") else " ".join(started.split())
