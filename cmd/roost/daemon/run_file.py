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
from typing import Any, cast

from agent.infrastructure.process import is_alive
from roost.atomic_file import write_atomically


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonRecord:
    """What the file holds."""

    pid: int
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
    try:
        found: object = json.loads(content)
        if not isinstance(found, dict):
            return None
        members = cast("dict[str, Any]", found)
        record = DaemonRecord(**{name: members[name] for name in DaemonRecord.__slots__})
    except (ValueError, KeyError, RecursionError):
        return None
    return record if _fits(record) else None


def _fits(record: DaemonRecord) -> bool:
    """Whether the members are what their types say: the file may be anybody's."""
    values = cast("dict[str, object]", asdict(record))
    optional = {name: values.pop(name) for name in ("process_start", "socket")}
    numbers = [values.pop(name) for name in ("pid", "protocol_version")]
    port = values.pop("port")
    return (
        all(type(number) is int for number in numbers)
        and (port is None or type(port) is int)
        and all(isinstance(text, str) for text in values.values())
        and all(text is None or isinstance(text, str) for text in optional.values())
        and record.pid > 1
        and _is_date(record.started_at)
    )


def _is_date(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
