"""Other conversations of a project, and files that a conversation is written to and read from."""

import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import anyio.to_thread

from agent.domain.entries import Begun, Entry, encode_entry
from agent.domain.ports import BadFile, HistoryFailed
from agent.infrastructure.jsonl_history import decode_lines, file_stem

# What a person's own export may have; the whole of it is read at once.
LARGEST_FILE = 256 * 1024 * 1024
_FOLDER_MODE = 0o700


class ProjectArchive:
    """The folders of one project: its conversations, and its artifacts for what is exported."""

    def __init__(self, project_dir: Path, conversations: Path, note: Callable[[str], None]) -> None:
        self._project_dir = project_dir
        self._conversations = conversations
        self._artifacts = conversations.parent / "artifacts"
        self._note = note

    async def create(self, conversation_id: str, entries: Sequence[Entry]) -> None:
        """A new conversation, whole and on the disk on return. Raises HistoryFailed."""
        await anyio.to_thread.run_sync(partial(self._create, conversation_id, entries))

    async def read(self, path: str) -> list[Entry]:
        """The entries of a file that a conversation was written to. Raises BadFile."""
        return await anyio.to_thread.run_sync(partial(_read, self._project_dir / path))

    async def write(self, name: str, text: bytes, path: str | None, *, overwrite: bool) -> str:
        """Write a file, by default under this name among the project's artifacts.

        A path of the caller's own is not replaced without `overwrite`. Raises BadFile.
        """
        return await anyio.to_thread.run_sync(partial(self._export, name, text, path, overwrite))

    def _create(self, conversation_id: str, entries: Sequence[Entry]) -> None:
        stem = file_stem(conversation_id)
        file = self._conversations / f"{stem}.jsonl"
        try:
            self._note(stem)
            _write_new(file, b"".join(encode_entry(entry) for entry in entries))
        except OSError as exc:
            raise HistoryFailed(
                f"The new conversation could not be written ({exc.strerror}): {file}."
            ) from exc

    def _export(self, name: str, text: bytes, path: str | None, overwrite: bool) -> str:
        if path is None:
            stem, _, suffix = name.rpartition(".")
            file, overwrite = self._artifacts / f"{file_stem(stem)}.{suffix}", True
        else:
            file = self._project_dir / Path(path).expanduser()
        try:
            _write_new(file, text, overwrite=overwrite)
        except FileExistsError as exc:
            raise BadFile(f"{file} is there already; say `overwrite` to replace it.") from exc
        except OSError as exc:
            raise BadFile(f"{file} could not be written: {exc.strerror}.") from exc
        return str(file)


def _read(path: Path) -> list[Entry]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise BadFile(f"{path} is larger than 256 MiB.")
        data = path.read_bytes()
    except FileNotFoundError as exc:
        raise BadFile(f"There is no file {path}.") from exc
    except OSError as exc:
        raise BadFile(f"{path} can't be read: {exc.strerror}.") from exc
    entries = decode_lines(data, _ignored)
    if not any(isinstance(entry, Begun) for entry in entries):
        raise BadFile(f"{path} is no exported conversation.")
    return entries


def _ignored(number: int, why: str) -> None:
    """A line of a foreign file that is no entry costs that line alone."""


def _write_new(file: Path, data: bytes, *, overwrite: bool = False) -> None:
    """All of it under its name, or nothing. Raises OSError; FileExistsError without `overwrite`."""
    file.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    fd, name = tempfile.mkstemp(prefix=".new-", dir=file.parent)
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        if overwrite:
            Path(name).replace(file)
        else:
            os.link(name, file)
        folder = os.open(file.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        Path(name).unlink(missing_ok=True)
