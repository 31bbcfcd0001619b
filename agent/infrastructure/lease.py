"""One process owns a conversation at a time.

The kernel's lock on a small file decides, so that a dead owner never blocks anybody; the pid and
start time inside are for the message to the one who comes second.
"""

import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.domain.ports import HistoryFailed
from agent.infrastructure.process import process_start

_LOOK_EVERY = 0.05


class ConversationInUse(Exception):
    """Another living process has the conversation. The message names its pid."""


@contextmanager
def lease(
    path: Path, patience: float = 0.0, lock: Callable[[int, int], None] = fcntl.flock
) -> Generator[None]:
    """Hold the conversation while the block runs. Raises ConversationInUse, HistoryFailed.

    Waits up to `patience` seconds, blocking, for an owner that is about to end.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = _locked(path, time.monotonic() + patience, lock)
    except OSError as exc:
        raise HistoryFailed(
            f"The folder of the conversations can't be used ({exc.strerror}): {path.parent}."
        ) from exc
    try:
        _sign(fd)
        yield
    finally:
        # Removed while still locked: whoever opened it meanwhile sees that it is gone, and retries.
        path.unlink(missing_ok=True)
        os.close(fd)


def _sign(fd: int) -> None:
    """Leave our name for who comes second. On a full disk the lock holds without it."""
    signature = f"{os.getpid()} {process_start(os.getpid()) or ''}\n".encode()
    with suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, signature, 0)


def _locked(path: Path, give_up: float, lock: Callable[[int, int], None]) -> int:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_the_file(fd, path):
                return fd
        except BlockingIOError:
            owner = os.pread(fd, 100, 0).decode("ascii", "replace").split(" ")[0].strip()
            os.close(fd)
            if time.monotonic() < give_up:
                time.sleep(_LOOK_EVERY)
                continue
            raise ConversationInUse(
                f"the conversation {path.stem} is open in another process"
                f" (pid {owner or 'unknown'}); one process owns it at a time"
            ) from None
        os.close(fd)


def _is_the_file(fd: int, path: Path) -> bool:
    """Not a file that its last owner removed between our open and our lock?"""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
