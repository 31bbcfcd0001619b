"""What a keeper leaves in the run folder: its descriptor, its socket and, in the end, the outcome.

One descriptor, one keeper: who it is (pid and start), whose worker it has, where it listens and
what a daemon has to show. Only the owner can read it. Written whole or not at all.
"""

import json
import os
import socket
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

# What a socket's address holds (108 on Linux) with its end.
_LONGEST_ADDRESS = 100
# A descriptor is a kilobyte. The folder may hold anything, and nobody waits for it.
_LONGEST_FILE = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """Finds a keeper again."""

    keeper: str
    pid: int
    process_start: str
    project_dir: str
    conversation_id: str
    worker_pid: int
    socket: str
    token: str
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a worker ended that no daemon saw end."""

    keeper: str
    project_dir: str
    conversation_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class KeeperFiles:
    """The files of one keeper in the folder of all of them."""

    folder: Path
    keeper: str

    @property
    def descriptor(self) -> Path:
        return self.folder / f"{self.keeper}.json"

    @property
    def address(self) -> Path:
        return self.folder / f"{self.keeper}.sock"

    @property
    def outcome(self) -> Path:
        return self.folder / f"{self.keeper}.outcome"

    def listen(self) -> socket.socket:
        """A socket at its place; an older one there is replaced. Raises OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.address.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        try:
            _at_address(self.address, listener.bind)
            self.address.chmod(0o600)
            listener.listen(8)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
        return listener

    def connect(self) -> socket.socket:
        """A connection to the keeper. Raises OSError."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(1.0)
            _at_address(self.address, connection.connect)
            connection.setblocking(False)
        except BaseException:
            connection.close()
            raise
        return connection

    def lead_to(self, pid: int, start: str) -> bool:
        """Whether a daemon finds this very process by them."""
        found = read_descriptor(self.descriptor)
        if found is None or (found.pid, found.process_start) != (pid, start):
            return False
        with suppress(OSError):
            return self.address.is_socket()
        return False

    def describe(self, descriptor: Descriptor) -> None:
        """Raises OSError."""
        _write(self.descriptor, asdict(descriptor))

    def record(self, outcome: Outcome) -> None:
        """Leave word of the worker's end; where that can't be written, nobody can read it."""
        with suppress(OSError):
            _write(self.outcome, asdict(outcome))

    def remove(self) -> None:
        """The descriptor first: what it names is gone. Raises nothing."""
        for file in (self.descriptor, self.address):
            remove_if_possible(file)


def remove_if_possible(file: Path) -> None:
    """What can't be removed is in nobody's way."""
    with suppress(OSError):
        file.unlink()


def read_descriptor(file: Path) -> Descriptor | None:
    """None: it is gone, or no descriptor."""
    members = _read(file)
    try:
        found = Descriptor(**{name: members[name] for name in Descriptor.__slots__})
    except KeyError:
        return None
    values = cast("dict[str, object]", asdict(found))
    numbers = [values.pop(name) for name in ("pid", "worker_pid", "revision")]
    fits = all(type(number) is int for number in numbers) and all(
        isinstance(text, str) for text in values.values()
    )
    return found if fits and found.pid > 1 and found.keeper == file.stem else None


def read_outcome(file: Path) -> Outcome | None:
    """None: it is gone, or no outcome."""
    members = _read(file)
    try:
        return Outcome(**{name: str(members[name]) for name in Outcome.__slots__})
    except KeyError:
        return None


def left_unfinished(folder: Path, writers: Collection[int]) -> list[Path]:
    """What was being written by a process that is none of these: it was killed meanwhile."""
    found = sorted(folder.glob(".*.*.*")) if folder.is_dir() else []
    return [file for file in found if file.suffix not in {f".{pid}" for pid in writers}]


def _read(file: Path) -> dict[str, Any]:
    try:
        # Not to wait for a writer, should it be a pipe.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb", buffering=0) as opened:
            found: object = json.loads(opened.read(_LONGEST_FILE) or b"")
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _write(file: Path, members: dict[str, Any]) -> None:
    """Nothing of it outlives the machine, so nothing waits for the disk."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    sibling = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        descriptor = os.open(sibling, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as out:
            json.dump(members, out)
        sibling.replace(file)
    except OSError:
        with suppress(OSError):
            sibling.unlink()
        raise


def _at_address(path: Path, use: Any) -> None:
    """Call with an address that fits: by way of the open folder when the path is too long."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        use(str(path))
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        use(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
