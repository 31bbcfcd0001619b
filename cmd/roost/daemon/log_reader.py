"""Reading the daemon's log: the last lines, and what is added, across midnight's new file."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from roost.daemon.daily_log import log_files

_LOOK_EVERY = 0.2


def last_lines(folder: Path, count: int) -> list[str]:
    """The last lines of the newest files, oldest first."""
    lines: deque[str] = deque(maxlen=count)
    for file in reversed(log_files(folder)):
        missing = count - len(lines)
        if missing <= 0:
            break
        with file.open(encoding="utf-8", errors="replace") as text:
            lines.extendleft(reversed(deque(text, maxlen=missing)))
    return list(lines)


def follow(folder: Path, wait: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Whole lines that are added from now on, for ever, in whichever file they come."""
    known = log_files(folder)
    current = known[-1] if known else None
    file = _opened(current, at_end=True)
    partial = ""
    try:
        while True:
            added = file.readline() if file else ""
            if added:
                partial += added
                if partial.endswith("\n"):
                    yield partial
                    partial = ""
                continue
            newer = [path for path in log_files(folder) if current is None or path > current]
            if newer:
                # The one before is at its end, and nobody writes to it any more.
                if file:
                    file.close()
                current = newer[0]
                file = _opened(current, at_end=False)
            else:
                wait(_LOOK_EVERY)
    finally:
        if file:
            file.close()


def _opened(path: Path | None, *, at_end: bool) -> IO[str] | None:
    if path is None:
        return None
    file = path.open(encoding="utf-8", errors="replace")
    if at_end:
        file.seek(0, 2)
    return file
