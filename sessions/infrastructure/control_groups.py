"""A control group for each thread (cgroup v2), below a folder that was delegated to this user.

It holds all that a thread starts to the limits, and its kill reaches what neither a parent nor a
mark leads to. A keeper makes it, stays outside, has its worker join it, and removes it; where the
keeper was killed the daemon's sweep does.
"""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "roost-"
# What was killed leaves its group in microseconds, and for what waits for a disk nobody waits long:
# the next sweep removes its group.
_LOOK_EVERY = 0.002
_KILL_TIMEOUT = 1.0


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The group of one keeper's worker, and of all that this starts."""

    folder: Path

    def make(self, memory: int | None, processes: int | None) -> None:
        """Make it, with limits where there are any. Raises OSError."""
        if not (self.folder.parent / "cgroup.controllers").exists():
            # Any folder takes a file that is called a limit.
            raise OSError(errno.EINVAL, "the folder above it is no control group")
        limits = {"memory": memory, "pids": processes}
        wanted = " ".join(f"+{name}" for name, limit in limits.items() if limit is not None)
        if wanted:
            self._write_to(self.folder.parent, "cgroup.subtree_control", wanted)
        self.folder.mkdir(exist_ok=True)
        for name, limit in limits.items():
            if limit is not None:
                self._write(f"{name}.max", str(limit))

    def join(self) -> None:
        """Put the calling process into it, and so all that it will start. Raises OSError."""
        self._write("cgroup.procs", str(os.getpid()))

    def kill(self) -> None:
        """SIGKILL for everything in it, whatever it forks meanwhile."""
        with suppress(OSError), (self.folder / "cgroup.kill").open("r+") as file:
            file.write("1")

    def end(self) -> None:
        """Kill what is in it, and remove it. Raises OSError."""
        self.kill()
        if not self.remove(_KILL_TIMEOUT):
            raise OSError(errno.EBUSY, "something in it does not end", str(self.folder))

    def remove(self, patience: float) -> bool:
        """Remove it, with what was made inside. False: there is still something in it."""
        give_up = time.monotonic() + patience
        while True:
            try:
                for below, _, _ in os.walk(self.folder, topdown=False):
                    os.rmdir(below)  # noqa: PTH106 (paths of `walk`)
            except FileNotFoundError:
                return True
            except OSError as exc:
                if exc.errno != errno.EBUSY or time.monotonic() > give_up:
                    return False
                time.sleep(_LOOK_EVERY)
            else:
                return True

    def _write(self, name: str, value: str) -> None:
        self._write_to(self.folder, name, value)

    def _write_to(self, folder: Path, name: str, value: str) -> None:
        # The kernel takes each value in one write.
        (folder / name).write_text(value)


@dataclass(frozen=True, slots=True)
class ControlGroups:
    """The groups of one home in the delegated folder, and what they are held to."""

    folder: Path
    home: str
    memory: int | None = None
    processes: int | None = None

    def of(self, keeper: str) -> ControlGroup:
        return ControlGroup(self.folder / f"{self._prefix}{keeper}")

    def found(self) -> Iterator[tuple[str, ControlGroup]]:
        """Those that are there, by keeper."""
        for folder in self.folder.glob(f"{self._prefix}*"):
            yield folder.name.removeprefix(self._prefix), ControlGroup(folder)

    @property
    def _prefix(self) -> str:
        return f"{_PREFIX}{self.home}-"
