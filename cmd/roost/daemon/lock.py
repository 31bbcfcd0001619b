"""One daemon per roost home: an exclusive lock that the kernel gives back, however we end.

The file's content only tells others who holds it; the lock itself is what counts.
"""

import fcntl
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agent.infrastructure.process import is_alive, process_start
from roost.daemon.run_file import RunFile, Running

# How long the loser of a race waits for the winner to be ready, to be able to name its port.
_WAIT_FOR_WINNER = 15.0
_LOOK_EVERY = 0.05
_TRIES = 3
_PROC = Path("/proc")


class DaemonLocked(Exception):
    """Another daemon has the lock. The message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The daemon that has the lock."""

    pid: int
    process_start: str | None
    since: datetime


def lock_holder(file: Path) -> Holder | None:
    """Who has the lock now: also a daemon that starts, stops, or whose files were deleted.

    None: nobody has it, or who has it can't be told.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError:
        return holder_of_lost(file)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        holder = _holder(file)
    else:
        return holder_of_lost(file)
    finally:
        os.close(descriptor)
    return holder if holder and is_alive(holder.pid, holder.process_start) else None


def holder_of_lost(file: Path) -> Holder | None:
    """The daemon whose lock file was deleted, but which has the lock still. Linux only.

    Without this a second daemon would start beside it, and nobody could find the first.
    """
    deleted = Path(f"{os.path.realpath(file)} (deleted)")
    for pid in _lockers():
        for opened in (_PROC / pid / "fd").glob("*"):
            with suppress(OSError):
                if opened.readlink() == deleted:
                    holder = _holder(opened)
                    if holder and is_alive(holder.pid, holder.process_start):
                        return holder
    return None


def _lockers() -> set[str]:
    """The processes that hold a lock of any file: a start has no time to look at all there are."""
    try:
        lines = (_PROC / "locks").read_text("ascii").splitlines()
    except OSError:
        return set()
    return {fields[4] for line in lines if (fields := line.split())[1] == "FLOCK"}


@contextmanager
def daemon_lock(file: Path, run_file: RunFile) -> Generator[None]:
    """Hold the lock while the block runs. Raises DaemonLocked, OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _locked(descriptor):
            raise DaemonLocked(_who(file, run_file))
        if (other := holder_of_lost(file)) is not None:
            raise DaemonLocked(
                f"a daemon runs already (pid {other.pid}), and the files by which it is found were"
                " deleted. 'roost stop --keep-workers' ends it; its workers go on for the next one"
            )
        since = datetime.now(UTC).isoformat(timespec="seconds")
        pid = os.getpid()
        holder = {"pid": pid, "process_start": process_start(pid), "since": since}
        os.truncate(descriptor, 0)
        os.write(descriptor, json.dumps(holder).encode())
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Whoever only asks who has it holds it for an instant: try again behind that."""
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(_LOOK_EVERY)
    return False


def _who(file: Path, run_file: RunFile) -> str:
    """Name the holder. It may have the lock and not be ready: wait a moment for it."""
    give_up = time.monotonic() + _WAIT_FOR_WINNER
    while True:
        found = run_file.look()
        if isinstance(found, Running):
            record = found.record
            port = "no port" if record.port is None else f"port {record.port}"
            return (
                f"a daemon runs already: pid {record.pid}, {port},"
                f" since {record.started_at}. 'roost stop' stops it"
            )
        if time.monotonic() > give_up:
            holder = _holder(file)
            who = f"pid {holder.pid}, since {holder.since.isoformat()}" if holder else "pid unknown"
            return f"another daemon starts or stops now ({who}). Try again in a moment"
        time.sleep(_LOOK_EVERY)


def _holder(file: Path) -> Holder | None:
    try:
        members = json.loads(file.read_bytes())
        since = datetime.fromisoformat(members["since"])
        return Holder(int(members["pid"]), members["process_start"], since)
    except (OSError, ValueError, KeyError, TypeError):
        return None
