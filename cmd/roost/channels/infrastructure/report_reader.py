"""What the channels say of themselves, for `roost status`.

That should be done before anybody notices, so this imports nothing beyond the standard library and
what tells whether a process lives.
"""

import json
from pathlib import Path
from typing import Any, cast

from agent.infrastructure.process import is_alive


def read_reports(folder: Path) -> list[dict[str, Any]]:
    """What the channels that live said of themselves last."""
    found: list[dict[str, Any]] = []
    for file in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            read: object = json.loads(file.read_bytes())
        except (OSError, ValueError):
            continue
        report = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
        pid, start = report.get("pid"), report.get("process_start")
        known_start = start if isinstance(start, str) else None
        if isinstance(pid, int) and pid > 1 and is_alive(pid, known_start):
            found.append(report)
    return found
