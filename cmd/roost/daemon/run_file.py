"""`run/daemon.json`: who the daemon is and where it listens.

Written once the daemon serves, so the file with a living process is the sign that it is ready.
The process counts as living only when its start time matches: pids are used again.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec

from agent.infrastructure.process import is_alive
from roost.atomic_file import write_atomically


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonRecord:
    """What the file holds."""

    pid: Annotated[int, msgspec.Meta(gt=1)]
    process_start: str | None
    started_at: str
    """UTC, ISO 8601."""
    host: str
    port: int | None
    """None: `binding.enabled` is false."""
    socket: str | None
    """The local socket. None: that version has none."""
    version: str
    protocol_version: int


_record = msgspec.json.Decoder(DaemonRecord)


@dataclass(frozen=True, slots=True)
class Running:
    """A daemon runs and serves."""

    record: DaemonRecord


@dataclass(frozen=True, slots=True)
class NotRunning:
    """No daemon serves. `note`, if any, is a sentence about what is left of an earlier one."""

    note: str | None = None


@dataclass(frozen=True, slots=True)
class RunFile:
    """The file. `is_alive` tells whether a pid with that start time is running."""

    file: Path
    is_alive: Callable[[int, str | None], bool] = is_alive

    def write(self, record: DaemonRecord) -> None:
        """Replace the file as a whole. Raises OSError."""
        content = json.dumps(asdict(record), indent=2, ensure_ascii=False)
        write_atomically(self.file, content.encode() + b"\n")

    def remove(self) -> None:
        with suppress(OSError):
            self.file.unlink()

    def look(self) -> Running | NotRunning:
        """Is there a daemon? Never raises: a broken file is an answer, too."""
        try:
            content = self.file.read_bytes()
        except FileNotFoundError:
            return NotRunning()
        except OSError as exc:
            return NotRunning(f"{self.file} can't be read ({exc.strerror}).")
        record = _parsed(content)
        if record is None:
            return NotRunning(f"{self.file} is damaged; the next start replaces it.")
        if not self.is_alive(record.pid, record.process_start):
            return NotRunning(
                f"{self.file} is left from a daemon that ended without cleaning up"
                f" (pid {record.pid}); the next start replaces it."
            )
        return Running(record)


def _parsed(content: bytes) -> DaemonRecord | None:
    """None when a member is not what its type says: the file may be anybody's."""
    try:
        record = _record.decode(content)
        is_date = datetime.fromisoformat(record.started_at).tzinfo is not None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return record if is_date else None
