"""What runs for this home: pad, keepers, workers and what they started, by their marks.

Needs neither a daemon nor any of our files: a process says itself whose it is.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sessions.infrastructure.keeper_files import read_descriptor
from sessions.infrastructure.marks import Role, home_mark, marked_processes

_NAMES = {Role.PAD: "launch pad", Role.KEEPER: "keeper", Role.WORKER: "worker"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """One process, for people."""

    pid: int
    role: str
    """launch pad, keeper, worker, or child: something that a worker started."""
    age_seconds: float
    memory_bytes: int | None
    """Its share of what it uses with others (PSS), where the kernel tells."""
    conversation_id: str | None
    project_dir: str | None


def find_processes(home: Path, keepers: Path) -> tuple[ProcessInfo, ...]:
    """All of them, a keeper before its worker."""
    return tuple(sorted(_found(home, keepers), key=lambda p: (p.conversation_id or "", p.pid)))


def _found(home: Path, keepers: Path) -> Iterator[ProcessInfo]:
    uptime = _uptime()
    ticks = os.sysconf("SC_CLK_TCK")
    for process in marked_processes(home_mark(home)):
        keeper = read_descriptor(keepers / f"{process.mark.keeper}.json")
        role = _NAMES[process.mark.role]
        if process.mark.role is Role.WORKER and (
            keeper is not None and process.pid != keeper.worker_pid
        ):
            role = "child"
        yield ProcessInfo(
            pid=process.pid,
            role=role,
            age_seconds=round(max(0.0, uptime - int(process.start) / ticks), 1),
            memory_bytes=_memory(process.pid),
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
