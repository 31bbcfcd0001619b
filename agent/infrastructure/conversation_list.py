"""The saved conversations of a project, newest first, without looking at each file each time.

A conversation changes only while a process holds its lease, and a process notes its conversation in
one small file, `recent`, before it writes to it the first time. So what was looked at before and is
neither noted since nor held is unchanged, and of ten thousand files a few are looked at. A file's
text is read once, and then only what was added to it.
"""

import fcntl
import heapq
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path

import msgspec

from agent.domain.messages import HIDDEN
from agent.domain.project import ConversationSummary, title_of

MOST = 50
_SUFFIX = ".jsonl"
_LEASE = ".lease"
_LONGEST_RECENT = 1024 * 1024
# Far more than are listed, so that files without a message in them do not crowd out the others.
_KEPT = 4 * MOST


class _Said(msgspec.Struct):
    id: str = ""
    role: str = ""
    content: msgspec.Raw = msgspec.Raw(b"null")
    metadata: dict[str, msgspec.Raw] | None = None


class _Line(msgspec.Struct):
    kind: str = ""
    conversation_id: str = ""
    message: _Said | None = None
    messages: list[_Said] | None = None
    message_ids: list[str] | None = None
    name: str = ""


_decode = msgspec.json.Decoder(_Line).decode


@dataclass(slots=True)
class _Read:
    """What was read of one file, up to an offset; the rest is read when it is there."""

    inode: int = 0
    offset: int = 0
    id: str = ""
    title: str = ""
    name: str = ""
    messages: set[str] = field(default_factory=set[str])


def _stat(name: str, folder: int) -> os.stat_result:
    return os.stat(name, dir_fd=folder)


class RecentFile:
    """Which conversations were about to be written to, in order. A hint for lists, not a truth."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = 0
        self._offset = 0

    def note(self, stem: str) -> None:
        """Note a conversation before its first write. Without room for it, lists may be late."""
        with suppress(OSError), self._path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if file.tell() > _LONGEST_RECENT:
                file.truncate(0)
            file.write(stem.encode() + b"\n")

    def since(self) -> set[str] | None:
        """What was noted since the last call; None when that can't be told."""
        try:
            with self._path.open("rb") as file:
                stat = os.fstat(file.fileno())
                is_same = stat.st_ino == self._inode and stat.st_size >= self._offset
                file.seek(self._offset if is_same else 0)
                data = file.read()
        except FileNotFoundError:
            # Made now, so that from here on only what changes is looked at.
            self._path.touch(0o600)
            self._inode, self._offset = self._path.stat().st_ino, 0
            return None
        self._inode = stat.st_ino
        self._offset = (self._offset if is_same else 0) + len(data)
        return set(data.decode("utf-8", "replace").split("\n")) if is_same else None


class ConversationList:
    """The list of one folder. For one caller at a time; call it off the event loop."""

    def __init__(
        self,
        folder: Path,
        recent: RecentFile,
        stat: Callable[[str, int], os.stat_result] = _stat,
    ) -> None:
        self._folder = folder
        self._stat = stat
        self._recent = recent
        # When each changed, and nothing more: ten thousand of anything that holds other things take
        # as long to make as to ask the kernel for.
        self._changed: dict[str, int] = {}
        self._held: set[str] = set()
        self._read: dict[str, _Read] = {}

    def list(self) -> list[ConversationSummary]:
        """The newest conversations that anything was said in. Raises OSError."""
        try:
            self._look()
        except FileNotFoundError:
            return []
        newest = heapq.nlargest(_KEPT, self._changed.items(), key=itemgetter(1))
        found: list[ConversationSummary] = []
        kept: dict[str, _Read] = {}
        for name, changed in newest:
            if len(found) == MOST:
                break
            kept[name] = read = self._up_to_date(name)
            if read.messages:
                found.append(
                    ConversationSummary(
                        read.id or name.removesuffix(_SUFFIX),
                        read.name or read.title or "(no text)",
                        _rfc3339(changed),
                        len(read.messages),
                    )
                )
        self._read = kept
        return found

    def _look(self) -> None:
        """Bring what is known of the files up to date."""
        # In this order: a conversation that is noted after the first step is in the next one's.
        noted = self._recent.since()
        names = os.listdir(self._folder)  # noqa: PTH208 - a tenth of the time
        files = {name for name in names if name.endswith(_SUFFIX)}
        held = {name[: -len(_LEASE)] + _SUFFIX for name in names if name.endswith(_LEASE)}
        if noted is None:
            changed = files
        else:
            changed = {stem + _SUFFIX for stem in noted} | held | self._held
            changed = (changed & files) | (files - self._changed.keys())
        for gone in self._changed.keys() - files:
            del self._changed[gone]
        self._held = held
        self._look_at(changed)

    def _look_at(self, names: Iterable[str]) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            look, changed = self._stat, self._changed
            for name in names:
                try:
                    changed[name] = look(name, folder).st_mtime_ns
                except OSError:
                    changed.pop(name, None)
        finally:
            os.close(folder)

    def _up_to_date(self, name: str) -> _Read:
        path = f"{self._folder}/{name}"
        read = self._read.get(name)
        try:
            stat = os.stat(path)  # noqa: PTH116 - of hundreds, at each list
        except OSError:
            return read or _Read()
        if read is None or read.inode != stat.st_ino or read.offset > stat.st_size:
            read = _Read(stat.st_ino)
        if read.offset < stat.st_size:
            with suppress(OSError), Path(path).open("rb") as file:
                file.seek(read.offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # it is being written
                    read.offset += len(line)
                    _take(read, line)
        return read


def _take(read: _Read, line: bytes) -> None:
    # Most lines of a long conversation are partial texts and results, which say nothing here.
    if not (b'"message' in line or b'"conversation"' in line or b'"kind":"name"' in line):
        return
    try:
        found = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    match found.kind:
        case "conversation":
            read.id = found.conversation_id
        case "input":
            for message in found.messages or ():
                _count(read, message)
        case "name":
            read.name = found.name
        case "queue_deleted":
            read.messages.difference_update(found.message_ids or ())
        case "message" if found.message is not None:
            _count(read, found.message)
        case _:
            pass


def _count(read: _Read, message: _Said) -> None:
    if message.role not in ("user", "assistant") or HIDDEN in (message.metadata or {}):
        return
    read.messages.add(message.id)
    if message.role == "user" and not read.title:
        with suppress(msgspec.DecodeError):
            read.title = title_of(msgspec.json.decode(message.content, type=str))


def _rfc3339(nanoseconds: int) -> str:
    moment = datetime.fromtimestamp(nanoseconds / 1e9, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
