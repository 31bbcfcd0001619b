"""Reading the daemon's log: the last lines, and what is added, across midnight's new file."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from roost.daemon.daily_log import log_files

_LOOK_EVERY = 0.2


@dataclass(frozen=True, slots=True)
class Place:
    """Up to where a file was read. No file yet: before the first."""

    file: Path | None = None
    offset: int = 0


def last_lines(folder: Path, count: int) -> tuple[list[str], Place]:
    """The last lines of the newest files, oldest first, and where they end."""
    lines: deque[str] = deque(maxlen=count)
    place = Place()
    for file in reversed(log_files(folder)):
        with file.open(encoding="utf-8", errors="replace") as text:
            lines.extendleft(reversed(deque(text, maxlen=count - len(lines))))
            if place.file is None:
                place = Place(file, text.tell())
        if len(lines) == count:
            break
    return list(lines), place


def follow(folder: Path, place: Place, wait: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Whole lines that are added behind the place, for ever, in whichever file they come."""
    current = place.file
    text = _opened(current, place.offset)
    partial = ""
    try:
        while True:
            added = text.readline() if text else ""
            if added:
                partial += added
                if partial.endswith("\n"):
                    yield partial
                    partial = ""
                continue
            newer = [path for path in log_files(folder) if current is None or path > current]
            if newer:
                # The one before is at its end, and nobody writes to it any more.
                if text:
                    text.close()
                current = newer[0]
                text = _opened(current, 0)
            else:
                wait(_LOOK_EVERY)
    finally:
        if text:
            text.close()


def _opened(path: Path | None, offset: int) -> IO[str] | None:
    if path is None:
        return None
    text = path.open(encoding="utf-8", errors="replace")
    text.seek(offset)
    return text
