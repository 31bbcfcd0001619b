"""A conversation's history as an append-only JSONL file.

Rules for editing: what was synced is never touched again. A torn last line (the process or the
machine died while it was written) is moved to a side file; a bad line in the middle is left out of
the conversation and kept in the file; a write that fails half way is cut back to the last good
offset, so that no half entry ever stands before a whole one.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio.to_thread

from agent.domain.entries import BadEntry, Entry, decode_entry, encode_entry
from agent.domain.ports import HistoryFailed, Log

# File modes: what people say to an agent is nobody else's business.
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700


# The size and the bytes must be on the disk; times need not. macOS has only the whole.
_DATA_SYNC: Callable[[int], None] = os.fdatasync if hasattr(os, "fdatasync") else os.fsync

# What the usual file systems take, less our longest ending and the mark below.
_LONGEST_STEM = 240


def file_stem(conversation_id: str) -> str:
    """The name of a conversation's files: its id, or what is left of one that is too long.

    The `~` is in no id, so that a shortened name is never another conversation's.
    """
    if len(conversation_id) <= _LONGEST_STEM:
        return conversation_id
    digest = hashlib.sha256(conversation_id.encode()).hexdigest()[:16]
    return f"{conversation_id[: _LONGEST_STEM - 17]}~{digest}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a history file told: its readable entries, and how many lines were not."""

    entries: list[Entry]
    bad_lines: int


def decode_lines(data: bytes, skipped: Callable[[int, str], None]) -> list[Entry]:
    """The entries of whole lines; of one that is none, its number and why are told."""
    entries: list[Entry] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            entries.append(decode_entry(line))
        except BadEntry as exc:
            skipped(number, str(exc))
    return entries


class JsonlHistory:
    """One open history file. Load it once, then append; `close` when done."""

    def __init__(
        self,
        path: Path,
        log: Log,
        write: Callable[[int, memoryview], int] = os.write,
        before_first: Callable[[], None] | None = None,
        sync: Callable[[int], None] = _DATA_SYNC,
    ) -> None:
        self._path = path
        self._log = log
        self._write = write
        self._before_first = before_first
        self._sync = sync
        self._fd = -1
        self._end = 0

    def load(self) -> Loaded:
        """Read and repair the file, if there is one, and keep it open. Raises HistoryFailed."""
        try:
            return self._load()
        except OSError as exc:
            raise HistoryFailed(
                f"The conversation's history {self._path} can't be opened: {exc.strerror}."
            ) from exc

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def append(self, entries: Sequence[Entry], *, sync: bool) -> None:
        """Write the entries; with ``sync`` they are on the disk on return. Raises HistoryFailed."""
        if not entries:
            return
        data = b"".join(encode_entry(entry) for entry in entries)
        # A thread that writes is never abandoned: half a line would stay behind.
        await anyio.to_thread.run_sync(partial(self._append, data, sync))

    async def read(self) -> list[Entry]:
        """All entries there are, in the order they were written. Raises HistoryFailed."""
        return await anyio.to_thread.run_sync(self._read)

    def _read(self) -> list[Entry]:
        if self._fd < 0:
            return []
        try:
            with self._path.open("rb") as file:
                return decode_lines(file.read(self._end), lambda number, why: None)
        except OSError as exc:
            raise HistoryFailed(
                f"The conversation's history {self._path} can't be read: {exc.strerror}."
            ) from exc

    def _load(self) -> Loaded:
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return Loaded([], 0)  # made with the first entry: looking leaves nothing behind
        data = self._path.read_bytes()
        whole, _, tail = data.rpartition(b"\n")
        self._end = len(whole) + 1 if b"\n" in data else 0
        bad = 0

        def skipped(number: int, why: str) -> None:
            nonlocal bad
            bad += 1
            self._log("warning", "history_line_skipped", line=number, reason=why[:200])

        entries = decode_lines(whole, skipped)
        if tail:
            self._repair(tail, entries)
        os.lseek(self._fd, self._end, os.SEEK_SET)
        return Loaded(entries, bad)

    def _repair(self, tail: bytes, entries: list[Entry]) -> None:
        """The last line has no newline: keep it if it is whole, else move it aside."""
        try:
            entries.append(decode_entry(tail))
        except BadEntry:
            side = self._path.with_suffix(".torn")
            with side.open("ab") as torn:
                torn.write(tail + b"\n")
            os.ftruncate(self._fd, self._end)
            self._log("warning", "history_tail_moved", bytes=len(tail), file=side.name)
        else:
            os.lseek(self._fd, self._end + len(tail), os.SEEK_SET)
            os.write(self._fd, b"\n")
            self._end += len(tail) + 1

    def _create(self) -> None:
        self._path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._sync(folder)  # or the synced file itself might not be found after a power loss
        finally:
            os.close(folder)

    def _append(self, data: bytes, sync: bool) -> None:
        try:
            if self._fd < 0:
                self._create()
            if self._before_first is not None:
                self._before_first()
                self._before_first = None
            rest = memoryview(data)
            while rest:
                rest = rest[self._write(self._fd, rest) :]
            if sync:
                self._sync(self._fd)
        except OSError as exc:
            self._cut_back()
            raise HistoryFailed(
                f"The conversation's history could not be written ({exc.strerror}): {self._path}."
                " What was recorded before is safe. Make room, then send a new message to go on."
            ) from exc
        self._end += len(data)

    def _cut_back(self) -> None:
        """Take a half-written entry away again. If even that fails, the next load repairs it."""
        if self._fd < 0:
            return
        try:
            os.ftruncate(self._fd, self._end)
            os.lseek(self._fd, self._end, os.SEEK_SET)
        except OSError as exc:
            self._log("error", "history_not_cut_back", reason=str(exc.strerror))
