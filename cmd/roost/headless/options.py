"""The command line of `roost headless`, understood; and where ids and times come from."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for."""

    project_dir: Path
    session_id: str | None = None
    model: str | None = None
    mode: str | None = None
    serve: bool = False
    keep_alive: bool = False
    task: str | None = None
    decision: str | None = None
    answer: str | None = None
    event_lines: bool = False


def new_id() -> str:
    """An id that nothing else has."""
    return uuid.uuid4().hex


def now() -> str:
    """This moment, for people: ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
