"""The saved conversations of all projects, for the panel: the adapter of `agui.panel.ports`.

Reads the files themselves and starts nobody. A file is looked at again only when its size or time
changed, then only what was added to it is read, and of that only the few lines that a list needs
are decoded: how it begins, its last name, and how its last run ended.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from agent.domain.messages import HIDDEN
from agent.domain.ports import HistoryFailed
from agent.domain.project import title_of
from agent.infrastructure.jsonl_history import file_stem
from agent.infrastructure.lease import ConversationInUse, lease
from agui.panel.entries import rfc3339
from agui.panel.ports import CatalogueRefused, Outcome, SavedConversation
from roost.home import RoostHome
from sessions.domain.keys import ThreadKey

_SUFFIX = ".jsonl"
# Names as the worker makes them: nothing else is served, and no link is followed.
_ATTACHMENT = re.compile(r"attachment-[A-Za-z0-9._-]{1,200}")
_ONLY_A_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DELETED = "deleted"
DELETED_KEPT_DAYS = 30
_LEASE_PATIENCE = 5.0
# Files between two words on how far a list has come: a word costs a turn of the event loop.
_TOLD_EVERY = 100


class _Said(msgspec.Struct):
    role: str = ""
    content: msgspec.Raw = msgspec.Raw(b"null")
    metadata: dict[str, msgspec.Raw] | None = None


class _Line(msgspec.Struct):
    """The fields of the few entries that count here."""

    kind: str = ""
    at: str = ""
    conversation_id: str = ""
    project_dir: str = ""
    messages: list[_Said] = []
    name: str = ""
    outcome: str = ""


class _Part(msgspec.Struct):
    type: str = ""
    text: str = ""


_decode = msgspec.json.Decoder(_Line).decode
_text_or_parts: msgspec.json.Decoder[str | list[_Part]] = msgspec.json.Decoder(str | list[_Part])
_OUTCOMES: dict[str, Outcome] = {
    "success": "success", "interrupt": "interrupt", "cancelled": "cancelled", "error": "error",
    "interrupted": "interrupted",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Known:
    """What was read of a file, and the look of the file that it was read from."""

    look: tuple[int, int, int]
    conversation: SavedConversation | None
    is_whole: bool
    """It ended with a whole line, so that what comes is only added to it."""


class SavedConversations:
    """Implements `Catalogue`. Safe to call from several threads."""

    def __init__(self, home: RoostHome) -> None:
        self._home = home
        self._known: dict[Path, _Known] = {}
        self._lock = threading.Lock()

    def all(
        self, progress: Callable[[int, int], None] | None = None
    ) -> Sequence[SavedConversation]:
        """Newest first. A file that can't be read is left out.

        `progress` is told now and then how many of how many files were looked at.
        """
        found: list[SavedConversation] = []
        files = list(self._files())
        for place, file in enumerate(files, 1):
            with self._lock:
                one = self._conversation(file)
            if one is not None:
                found.append(one)
            if progress is not None and (place % _TOLD_EVERY == 0 or place == len(files)):
                progress(place, len(files))
        return sorted(found, key=lambda one: one.updated_at, reverse=True)

    def one(self, thread: ThreadKey) -> SavedConversation | None:
        """What is saved of one thread, if anything is."""
        with self._lock:
            return self._conversation(self._file(thread))

    def attachment(self, thread: ThreadKey, name: str) -> bytes | None:
        """A file that came with a message, by the name it was saved under; None: no such file."""
        if not _ATTACHMENT.fullmatch(name):
            return None
        stem = file_stem(thread.conversation_id)
        folder = self._home.project(thread.project_dir) / "attachments" / stem
        try:
            with os.fdopen(os.open(folder / name, _ONLY_A_FILE), "rb") as file:
                return file.read()
        except OSError:
            return None

    def delete(self, thread: ThreadKey) -> None:
        """Put the conversation's files aside. Raises CatalogueRefused."""
        self._forget_old()
        self._move(thread, self._folder(thread), self._aside(thread), "There is nothing saved of")

    def restore(self, thread: ThreadKey) -> None:
        """Put them back. Raises CatalogueRefused."""
        self._move(thread, self._aside(thread), self._folder(thread), "Nothing is kept any more of")

    def _move(self, thread: ThreadKey, source: Path, target: Path, missing: str) -> None:
        stem = file_stem(thread.conversation_id)
        names = [stem + _SUFFIX, f"{stem}.torn"]
        try:
            with lease(self._folder(thread) / f"{stem}.lease", _LEASE_PATIENCE):
                if not (source / names[0]).is_file():
                    raise CatalogueRefused(f"{missing} this conversation.")
                if (target / names[0]).exists():
                    raise CatalogueRefused("A conversation of that name is there already.")
                target.mkdir(mode=0o700, parents=True, exist_ok=True)
                for name in names:
                    with suppress(FileNotFoundError):
                        (source / name).rename(target / name)
        except ConversationInUse as exc:
            raise CatalogueRefused(f"Nothing was changed: {exc}.") from exc
        except (HistoryFailed, OSError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else exc
            raise CatalogueRefused(f"Its file can't be moved: {reason}.") from exc

    def _forget_old(self) -> None:
        """Delete for good what was put aside long ago."""
        oldest = time.time() - DELETED_KEPT_DAYS * 24 * 3600
        for file in self._home.projects.glob(f"*/{_DELETED}/*"):
            with suppress(OSError):
                # The time of the move: a rename changes nothing else of a file.
                if file.stat().st_ctime < oldest:
                    file.unlink()

    def _folder(self, thread: ThreadKey) -> Path:
        return self._home.conversations(thread.project_dir)

    def _aside(self, thread: ThreadKey) -> Path:
        return self._home.project(thread.project_dir) / _DELETED

    def _file(self, thread: ThreadKey) -> Path:
        return self._folder(thread) / f"{file_stem(thread.conversation_id)}{_SUFFIX}"

    def _files(self) -> Iterator[Path]:
        return self._home.projects.glob(f"*/conversations/*{_SUFFIX}")

    def _conversation(self, file: Path) -> SavedConversation | None:
        try:
            stat = file.stat()
            look = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            known = self._known.get(file)
            if known is None or known.look != look:
                self._known[file] = known = _read(file, look, known)
        except OSError:
            self._known.pop(file, None)
            return None
        return known.conversation


def _read(file: Path, look: tuple[int, int, int], before: _Known | None) -> _Known:
    """What a list says of the file: of a file that only grew, by what was added. Raises OSError."""
    inode, size, changed = look
    known = None
    if before and before.is_whole and before.look[0] == inode and before.look[1] <= size:
        known = before.conversation
    start = before.look[1] if before and known else 0
    with file.open("rb") as opened:
        opened.seek(start)
        data = b"\n" + opened.read(size - start)
    updated_at = rfc3339(datetime.fromtimestamp(changed / 1e9, UTC))
    if known is None:
        known = _begun(data, file.parent.parent.name)
    if known is not None:
        known = _gone_on(known, data, updated_at)
    return _Known(look, known, data.endswith(b"\n"))


def _begun(data: bytes, slug: str) -> SavedConversation | None:
    """Its first line; None when the file does not begin as a conversation does."""
    begun = _line_at(data, 0)
    if begun.kind != "conversation" or not begun.conversation_id:
        return None
    return SavedConversation(
        project_dir=begun.project_dir, conversation_id=begun.conversation_id, slug=slug,
        title="", name=None, updated_at="", outcome=None, outcome_at=None,
    )  # fmt: skip


def _gone_on(known: SavedConversation, data: bytes, updated_at: str) -> SavedConversation:
    """What is known, with what the lines add to it."""
    # An entry's kind is the first thing in its line.
    last_run = max(data.rfind(b'\n{"kind":"run_started"'), data.rfind(b'\n{"kind":"run_ended"'))
    last = _line_at(data, last_run) if last_run >= 0 else None
    named = data.rfind(b'\n{"kind":"name"')
    return replace(
        known,
        title=known.title or _title(data),
        name=known.name if named < 0 else _line_at(data, named).name or None,
        updated_at=updated_at,
        outcome=known.outcome if last is None else _OUTCOMES.get(last.outcome, "open"),
        outcome_at=known.outcome_at if last is None else last.at or None,
    )


def _line_at(data: bytes, newline: int) -> _Line:
    """The line behind a newline; an empty one when it is not whole, or not readable."""
    end = data.find(b"\n", newline + 1)
    if end < 0:
        return _Line()
    try:
        return _decode(memoryview(data)[newline + 1 : end])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Line()


def _title(data: bytes) -> str:
    place = data.find(b'\n{"kind":"input"')
    while place >= 0:
        for message in _line_at(data, place).messages:
            if message.role == "user" and HIDDEN not in (message.metadata or {}):
                with suppress(msgspec.DecodeError):
                    return title_of(_text(_text_or_parts.decode(message.content)))
        place = data.find(b'\n{"kind":"input"', place + 1)
    return ""


def _text(content: str | list[_Part]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if part.type == "text")
