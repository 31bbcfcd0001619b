"""What people typed in a project, shared by all its conversations: one JSON string a line.

A convenience, not a record: nothing is synced, and what can't be read is left out.
"""

import fcntl
import os
from pathlib import Path

import msgspec

MOST = 1000
# A pasted file is not something one calls back with the arrow key.
LONGEST_TEXT = 16 * 1024
# Rewritten when it holds this many lines, so that it is not rewritten for each.
_REWRITE = 2 * MOST


class InputHistory:
    """The file. Call it off the event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def list(self) -> list[str]:
        """The last inputs, oldest first. Raises OSError."""
        try:
            return _texts(self._path.read_bytes())[-MOST:]
        except FileNotFoundError:
            return []

    def add(self, text: str) -> None:
        """Add an input, but not the same twice in a row. Raises OSError."""
        text = text.strip()
        if not text or len(text) > LONGEST_TEXT:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            data = file.read()
            texts = _texts(data)
            if texts and texts[-1] == text:
                return
            whole = msgspec.json.encode(text) + b"\n"
            if data and not data.endswith(b"\n"):
                whole = b"\n" + whole
            if data.count(b"\n") >= _REWRITE:
                whole = b"".join(msgspec.json.encode(each) + b"\n" for each in texts[-MOST:])
                whole += msgspec.json.encode(text) + b"\n"
                file.truncate(0)
            file.write(whole)


def _texts(data: bytes) -> list[str]:
    found: list[str] = []
    for line in data.split(b"\n")[-_REWRITE - 1 :]:
        try:
            found.append(msgspec.json.decode(line, type=str))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return found
