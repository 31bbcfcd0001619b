"""The mark that everything a thread starts carries in its environment, and processes by their mark.

A mark says whose home it is, what the process is for, and which keeper owns it. The kernel shows
the environment that a program was started with; a fork shows its parent's, so what is forked from
the launch pad writes its own over it (`Room`). Linux only: elsewhere nothing is found.

What hides its environment is not found: it cleared it, wrote over it, or made itself unreadable.
That, after its keeper's death, is the one way to evade.
"""

import ctypes
import errno
import hashlib
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

VARIABLE = "ROOST_MARK"
_ENTRY = b"ROOST_MARK="
# What a fork of the pad has to say of itself: its mark, a token, an address.
_ROOM_BYTES = 1024
# Nearly all are smaller; for one read of the most the C library would map memory each time.
_USUAL_ENVIRONMENT = 64 * 1024
# More the kernel starts no program with, arguments and environment.
_LONGEST_ENVIRONMENT = 6 * 2**20
# Troubles of our own, which say nothing of the process that we look at.
_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
# Fields of /proc/<pid>/stat behind the name, counted from the state.
_PARENT, _START, _ENV_START = 1, 19, 47
_PR_SET_NAME = 15


class Role(StrEnum):
    """What a process is for."""

    PAD = "pad"
    KEEPER = "keep"
    WORKER = "work"
    """The worker, and all that it starts."""


@dataclass(frozen=True, slots=True)
class Mark:
    home: str
    role: Role
    keeper: str

    def __str__(self) -> str:
        return f"{self.home}.{self.role}.{self.keeper}"

    @classmethod
    def parse(cls, text: str) -> "Mark | None":
        home, _, rest = text.partition(".")
        role, _, keeper = rest.partition(".")
        try:
            return cls(home, Role(role), keeper)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Marked:
    """A process that carries a mark, told apart from others of its pid by its start."""

    pid: int
    start: str
    parent: int
    mark: Mark
    is_halted: bool = field(default=False, compare=False)
    """By a SIGSTOP: it does nothing until a SIGCONT."""

    def end(self, signum: signal.Signals = signal.SIGKILL, proc: Path = Path("/proc")) -> bool:
        """Signal this very process. False when it is gone, or not ours to signal.

        The handle is opened first and the mark read again then: whoever has the pid by now must
        not be hit.
        """
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            if _look(proc / str(self.pid)) != self:
                return False
            signal.pidfd_send_signal(handle, signum)
        except OSError:
            return False
        finally:
            os.close(handle)
        return True


def home_mark(home: Path) -> str:
    """Names one roost home among those of this machine, by whatever path it is reached."""
    return hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:12]


def marked_processes(home: str, proc: Path = Path("/proc")) -> Iterator[Marked]:
    """The processes that carry a mark of this home. One may end while they are looked at.

    Raises OSError rather than to leave one out that is there: who owns what is told from all.
    """
    try:
        names = os.listdir(proc)  # noqa: PTH208 (thousands of them, several times a minute)
    except FileNotFoundError:
        return
    for name in names:
        found = _look(proc / name) if name.isdecimal() else None
        if found is not None and found.mark.home == home:
            yield found


def _look(folder: Path) -> Marked | None:
    try:
        with (folder / "environ").open("rb", buffering=0) as file:
            environ = file.read(_USUAL_ENVIRONMENT)
            if len(environ) == _USUAL_ENVIRONMENT:
                environ += file.read(_LONGEST_ENVIRONMENT)
            mark = _mark_in(environ)
        if mark is None:
            return None
        fields = stat_fields(folder)
    except OSError as exc:
        if exc.errno in _OURS:
            raise
        return None
    except (ValueError, IndexError):
        return None
    if fields[0] in (b"Z", b"X"):
        return None
    is_halted = fields[0] == b"T"
    start, parent = fields[_START].decode(), int(fields[_PARENT])
    return Marked(int(folder.name), start, parent, mark, is_halted)


def _mark_in(environ: bytes) -> Mark | None:
    at = 0 if environ.startswith(_ENTRY) else environ.find(b"\0" + _ENTRY) + 1
    if at == 0 and not environ.startswith(_ENTRY):
        return None
    end = environ.find(b"\0", at)
    value = environ[at + len(_ENTRY) : end if end >= 0 else None]
    return Mark.parse(value.decode(errors="replace").rstrip())


def stat_fields(folder: Path) -> list[bytes]:
    """What the kernel tells of a process, from its state on. Raises OSError, ValueError."""
    stat = (folder / "stat").read_bytes()
    # The name of a program may hold anything, brackets and spaces too.
    return stat[stat.rindex(b")") + 2 :].split()


def is_halted(pid: int, proc: Path = Path("/proc")) -> bool:
    """By a SIGSTOP: it does nothing until a SIGCONT."""
    try:
        return stat_fields(proc / str(pid))[0] == b"T"
    except (OSError, ValueError):
        return False


def process_start(pid: int, proc: Path = Path("/proc")) -> str | None:
    """When the process started, as an opaque text to compare; None when there is none."""
    try:
        fields = stat_fields(proc / str(pid))
    except (OSError, ValueError):
        return None
    return None if fields[0] in (b"Z", b"X") else fields[_START].decode()


# The pad, and what is forked from it


def roomy(mark: Mark) -> str:
    """The value of a pad's mark: with room behind it for what its forks say of themselves."""
    return str(mark).ljust(_ROOM_BYTES)


@dataclass(frozen=True, slots=True)
class Room:
    """Where in this process's memory the kernel looks for its environment's mark."""

    address: int
    size: int

    @classmethod
    def find(cls, proc: Path = Path("/proc/self")) -> "Room | None":
        """To be called before the environment changes. None: the mark has no room."""
        try:
            environ = (proc / "environ").read_bytes()
            start = int(stat_fields(proc)[_ENV_START])
        except (OSError, ValueError, IndexError):
            return None
        at = environ.find(_ENTRY)
        end = environ.find(b"\0", at)
        if at < 0 or end - at < _ROOM_BYTES:
            return None
        return cls(start + at, end - at)

    def write(self, variables: Mapping[str, str]) -> None:
        """Say these of this process from here on; what does not fit is left out."""
        content = b""
        for name, value in variables.items():
            entry = os.fsencode(f"{name}={value}") + b"\0"
            if len(content) + len(entry) <= self.size:
                content += entry
        ctypes.memmove(self.address, content.ljust(self.size), self.size)


def set_name(name: str) -> None:
    """What `ps` and `top` call this process; 15 bytes at most."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)
