"""How a channel is, in a small file of the run folder that `roost status` reads.

Both programs that can run a channel write it, so that there is one way to look.
"""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from anyio import to_thread

from agent.infrastructure.process import process_start
from roost.atomic_file import write_atomically
from roost.channels.domain.condition import Condition


@dataclass(slots=True)
class ReportFile:
    """Implements `Reports`."""

    file: Path
    _since: str = ""
    _status: str = field(default="")

    async def report(self, condition: Condition) -> None:
        if condition.status != self._status:
            self._status, self._since = condition.status, _now()
        pid = os.getpid()
        content = {
            "channel": self.file.stem,
            **asdict(condition),
            "since": self._since,
            "pid": pid,
            "process_start": process_start(pid),
        }
        with suppress(OSError):  # a full disk must not stop what is only being reported
            encoded = json.dumps(content, ensure_ascii=False).encode()
            await to_thread.run_sync(write_atomically, self.file, encoded)

    def remove(self) -> None:
        with suppress(OSError):
            self.file.unlink()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
