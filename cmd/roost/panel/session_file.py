"""`panel-sessions.json`: the hashes of the panel's sessions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import structlog

from roost.atomic_file import write_atomically

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SessionFile:
    """Implements `SessionStore`."""

    file: Path

    def load(self) -> Sequence[str]:
        """The hashes; none when the file is not there. One that is broken signs everybody out."""
        try:
            content: object = json.loads(self.file.read_bytes())
        except FileNotFoundError:
            return ()
        except (OSError, ValueError) as exc:
            log.warning("panel_sessions_unreadable", reason=str(exc))
            return ()
        hashes = cast("list[object]", content) if isinstance(content, list) else []
        return tuple(entry for entry in hashes if isinstance(entry, str))

    def save(self, hashes: Sequence[str]) -> None:
        """Replace them as a whole. Raises OSError."""
        write_atomically(self.file, json.dumps(list(hashes), indent=0).encode() + b"\n")
