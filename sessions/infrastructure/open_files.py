"""The soft limit of open files: raised for a daemon of many sockets, given back to its children."""

import resource
from contextlib import suppress

# What most programs are written for; select() breaks above it, so children get theirs back.
_WANTED = 65_536


def raise_open_files() -> int:
    """Raise this process's soft limit as far as is sensible. Returns the limit from before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return soft


def restore_open_files(pid: int, soft: int) -> None:
    """Give a child its soft limit back, where the kernel lets one process do that to another.

    macOS does not: there a child keeps the daemon's limit.
    """
    if hasattr(resource, "prlimit"):
        with suppress(OSError, ValueError):
            hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
