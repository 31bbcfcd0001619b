"""What runs for this home: the daemon, and pad, keepers, workers and what they started.

These are found by their marks, which needs neither a daemon nor any of our files: a process says
itself whose it is.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sessions.infrastructure.keeper_files import Descriptor, read_descriptor
from sessions.infrastructure.marks import Role, home_mark, marked_processes, process_start

_NAMES = {Role.PAD: "launch pad", Role.KEEPER: "keeper", Role.WORKER: "worker"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """One process, for people."""

    pid: int
    role: str
    """daemon, launch pad, keeper, worker, or child: something that a worker started."""
    age_seconds: float
    memory_bytes: int | None
    """Its share of what it uses with others (PSS), where the kernel tells."""
    conversation_id: str | None
    project_dir: str | None


def find_processes(home: Path, keepers: Path, daemon: int | None = None) -> tuple[ProcessInfo, ...]:
    """All of them, the daemon first, a keeper before its worker."""
    found = sorted(_found(home, keepers), key=lambda p: (p.conversation_id or "", p.pid))
    start = None if daemon is None else process_start(daemon)
    if daemon is not None and start is not None:
        found.insert(0, _info(daemon, start, "daemon", None))
    return tuple(found)


def _found(home: Path, keepers: Path) -> Iterator[ProcessInfo]:
    for process in marked_processes(home_mark(home)):
        keeper = read_descriptor(keepers / f"{process.mark.keeper}.json")
        role = _NAMES[process.mark.role]
        if process.mark.role is Role.WORKER and (
            keeper is not None and process.pid != keeper.worker_pid
        ):
            role = "child"
        yield _info(process.pid, process.start, role, keeper)


def _info(pid: int, start: str, role: str, keeper: Descriptor | None) -> ProcessInfo:
    age = _uptime() - int(start) / os.sysconf("SC_CLK_TCK")
    return ProcessInfo(
        pid=pid,
        role=role,
        age_seconds=round(max(0.0, age), 1),
        memory_bytes=_memory(pid),
        conversation_id=keeper.conversation_id if keeper else None,
        project_dir=keeper.project_dir if keeper else None,
    )


def _uptime() -> float:
    with suppress(OSError, ValueError):
        return float(Path("/proc/uptime").read_text().split()[0])
    return 0.0


def _memory(pid: int) -> int | None:
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return None
