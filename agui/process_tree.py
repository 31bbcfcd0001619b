"""Which connections to our port come from processes that a worker started. Linux only.

Reads /proc: the sockets that are connected to the port, the processes that descend from a worker,
are of its session, or carry its token in their environment, and whether one of these holds one of
those sockets. Blocking, bounded by a deadline, and never fatal: a process may vanish at any step.

A hurdle and no wall: a process that left its session, dropped its environment and was adopted by
another parent is not recognised. Where there is no /proc, nobody is.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

TOKEN_MARK = b"ROOST_WORKER_TOKEN="
URL_MARK = b"ROOST_BINDING__URL="

_ESTABLISHED = "01"
# More the kernel starts no program with, arguments and environment.
_LONGEST_ENVIRONMENT = 6 * 2**20

Origin = int | str
"""The pid of the worker above a process, or the worker's token that it carries."""


class ScanTooLong(Exception):
    """The machine has too many processes or is too busy to look at all of them in time."""


@dataclass(slots=True)
class ProcessTree:
    """One look at the processes of this machine."""

    workers: frozenset[int]
    port: int
    deadline: float
    """On the clock of `time.monotonic`."""
    proc: Path = Path("/proc")
    _parents: dict[int, int] = field(default_factory=dict[int, int])
    _sessions: dict[int, int] = field(default_factory=dict[int, int])

    def origins(self) -> dict[int, Origin]:
        """By the client's port: where each connection from inside comes from. Raises ScanTooLong.

        A connection that is not in it comes from nowhere inside, or nobody can tell.
        """
        sockets = self._sockets()
        if not sockets:
            return {}
        self._look_at_processes()
        inside = dict(self._inside())
        found: dict[int, Origin] = {}
        hidden: Origin | None = None
        for pid, origin in inside.items():
            inodes = self._inodes(pid)
            if inodes is None:
                hidden = origin
            else:
                found |= {sockets[inode]: origin for inode in inodes & sockets.keys()}
        if hidden is not None:
            # Something inside does not let us look (it runs as somebody else, say). What nobody
            # outside holds either is held there.
            for port in set(sockets.values()) - found.keys() - self._held_outside(sockets, inside):
                found[port] = hidden
        return found

    def _sockets(self) -> dict[int, int]:
        """By inode: the other ends of the connections to our port, as their port numbers."""
        sockets: dict[int, int] = {}
        for name in ("tcp", "tcp6"):
            with suppress(OSError):
                lines = (self.proc / "net" / name).read_text("ascii").splitlines()[1:]
                for line in lines:
                    fields = line.split()
                    remote = int(fields[2].rpartition(":")[2], 16)
                    if fields[3] == _ESTABLISHED and remote == self.port:
                        sockets[int(fields[9])] = int(fields[1].rpartition(":")[2], 16)
        return sockets

    def _look_at_processes(self) -> None:
        with suppress(OSError):
            for folder in self.proc.iterdir():
                name = folder.name
                if not name.isdecimal():
                    continue
                self._in_time()
                with suppress(OSError, ValueError, IndexError):
                    stat = (folder / "stat").read_bytes()
                    # The name of a program may hold anything, brackets and spaces too.
                    fields = stat[stat.rindex(b")") + 2 :].split()
                    self._parents[int(name)] = int(fields[1])
                    self._sessions[int(name)] = int(fields[3])

    def _inside(self) -> Iterator[tuple[int, Origin]]:
        for pid in self._parents:
            self._in_time()
            origin = self._above(pid) or self._mark(pid)
            if origin is not None:
                yield pid, origin

    def _above(self, pid: int) -> int | None:
        """The worker that it descends from, or of whose session it or an ancestor still is."""
        seen: set[int] = set()
        while pid in self._parents and pid not in seen:
            for candidate in (pid, self._sessions[pid]):
                if candidate in self.workers:
                    return candidate
            seen.add(pid)
            pid = self._parents[pid]
        return None

    def _mark(self, pid: int) -> str | None:
        """The token in its environment, if it is one of this daemon's workers'."""
        try:
            with (self.proc / str(pid) / "environ").open("rb") as file:
                variables = file.read(_LONGEST_ENVIRONMENT).split(b"\0")
        except OSError:
            return None
        token = next((v for v in variables if v.startswith(TOKEN_MARK)), None)
        if token is None:
            return None
        # A daemon that was started by an agent of another daemon inherits that one's marks, and so
        # do its clients.
        url = next((v for v in variables if v.startswith(URL_MARK)), b"")
        if not url.removeprefix(URL_MARK).endswith(b":%d/ws" % self.port):
            return None
        return token.removeprefix(TOKEN_MARK).decode(errors="replace")

    def _inodes(self, pid: int) -> set[int] | None:
        """The sockets that a process holds. None: we may not look."""
        inodes: set[int] = set()
        folder = self.proc / str(pid) / "fd"
        try:
            links = list(folder.iterdir())
        except PermissionError:
            return None
        except OSError:
            return inodes
        for link in links:
            self._in_time()
            with suppress(OSError, ValueError):
                target = os.readlink(link)  # noqa: PTH115 (there may be hundreds)
                if target.startswith("socket:["):
                    inodes.add(int(target[8:-1]))
        return inodes

    def _held_outside(self, sockets: Mapping[int, int], inside: Mapping[int, Origin]) -> set[int]:
        held: set[int] = set()
        for pid in self._parents.keys() - inside.keys():
            inodes = self._inodes(pid) or set[int]()
            held |= {sockets[inode] for inode in inodes & sockets.keys()}
        return held

    def _in_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise ScanTooLong
