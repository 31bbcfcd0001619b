"""One process owns a conversation at a time.

The kernel's lock on a small file decides, so that a dead owner never blocks anybody; the pid and
start time inside are for the message to the one who comes second.
"""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from agent.infrastructure.process import process_start


class ConversationInUse(Exception):
    """Another living process has the conversation. The message names its pid."""


@contextmanager
def lease(path: Path) -> Generator[None]:
    """Hold the conversation while the block runs. Raises ConversationInUse."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = _locked(path)
    try:
        start = process_start(os.getpid()) or ""
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()} {start}\n".encode(), 0)
        yield
    finally:
        # Removed while still locked: whoever opened it meanwhile sees that it is gone, and retries.
        path.unlink(missing_ok=True)
        os.close(fd)


def _locked(path: Path) -> int:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_the_file(fd, path):
                return fd
        except BlockingIOError:
            owner = os.pread(fd, 100, 0).decode("ascii", "replace").split(" ")[0].strip()
            os.close(fd)
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
