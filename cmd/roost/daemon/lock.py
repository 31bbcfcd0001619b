"""One daemon per roost home: an exclusive lock that the kernel gives back, however we end.

The file's content only tells others who holds it; the lock itself is what counts.
"""

import fcntl
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from roost.daemon.run_file import RunFile, Running

# How long the loser of a race waits for the winner to be ready, to be able to name its port.
_WAIT_FOR_WINNER = 3.0
_LOOK_EVERY = 0.05


class DaemonLocked(Exception):
    """Another daemon has the lock. The message says which, and what to do."""


@contextmanager
def daemon_lock(file: Path, run_file: RunFile) -> Generator[None]:
    """Hold the lock while the block runs. Raises DaemonLocked, OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DaemonLocked(_who(file, run_file)) from None
        holder = {"pid": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
        os.truncate(descriptor, 0)
        os.write(descriptor, json.dumps(holder).encode())
        yield
    finally:
        os.close(descriptor)


def _who(file: Path, run_file: RunFile) -> str:
    """Name the holder. It may have the lock and not be ready: wait a moment for it."""
    give_up = time.monotonic() + _WAIT_FOR_WINNER
    while True:
        found = run_file.look()
        if isinstance(found, Running):
            record = found.record
            return (
                f"a daemon runs already: pid {record.pid}, port {record.port},"
                f" since {record.started_at}. 'roost stop' stops it"
            )
        if time.monotonic() > give_up:
            holder = _holder(file)
            who = f"pid {holder['pid']}, since {holder['since']}" if holder else "pid unknown"
            return f"another daemon starts or stops now ({who}). Try again in a moment"
        time.sleep(_LOOK_EVERY)


def _holder(file: Path) -> dict[str, Any] | None:
    try:
        found: object = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    holder = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return holder if {"pid", "since"} <= set(holder) else None
