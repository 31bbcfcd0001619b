"""Read, Write and Edit: text files inside the sandbox, whole or not at all."""

import errno
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO

import anyio.to_thread
from msgspec import Meta

from agent.domain.allow import Subject
from agent.domain.approval import Effect
from agent.domain.ports import BadArguments, Tell, ToolResult, ToolSpec, silent
from agent.infrastructure.tools.sandbox import OutsideSandbox, Sandbox
from agent.tool_arguments import Arguments, read_arguments, schema_of

MAX_LINES = 2000
MAX_BYTES = 48 * 1024
# Edit reads the whole file; beyond this a model has no business with it.
MAX_EDITED = 10 * 1024 * 1024
# What Read goes past to reach its first line.
MAX_SKIPPED = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileCall:
    """A piece of work on files, done in a thread; what goes wrong is the result."""

    summary: str
    work: Callable[[], ToolResult]
    about: Callable[[], Subject | None] | None = None
    """Where it changes something, if it does."""

    def subject(self) -> Subject | None:
        return self.about() if self.about else None

    async def run(self, tell: Tell = silent) -> ToolResult:
        # A write that has begun is finished, and known. A read is left behind by a run that ends:
        # the file may be on a server that does not answer.
        return await anyio.to_thread.run_sync(
            guarded, self.work, abandon_on_cancel=self.about is None
        )


def guarded(work: Callable[[], ToolResult]) -> ToolResult:
    """What the work came to; what goes wrong with a file is a result too."""
    try:
        return work()
    except OutsideSandbox as exc:
        return ToolResult(success=False, error=str(exc))
    except OSError as exc:
        where = f"{exc.filename}: " if exc.filename else ""
        return ToolResult(success=False, error=f"{where}{exc.strerror or exc}.")


class _ReadArguments(Arguments):
    path: Annotated[str, Meta(description="The file, relative to the project's folder.")]
    offset: Annotated[int, Meta(description="The first line to read, from 1.", ge=1)] = 1
    limit: Annotated[int, Meta(description="The most lines.", ge=1, le=MAX_LINES)] = MAX_LINES


class Read:
    """The tool."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.spec = ToolSpec(
            name="Read",
            description=(
                f"Read a text file. At most {MAX_LINES} lines or {MAX_BYTES // 1024} KiB at a time;"
                " use offset and limit for the rest."
            ),
            parameters=schema_of(_ReadArguments),
            effect=Effect.READS,
        )

    def prepare(self, arguments: bytes) -> FileCall:
        found = read_arguments(_ReadArguments, arguments)
        return FileCall(found.path, lambda: self._read(found))

    def _read(self, wanted: _ReadArguments) -> ToolResult:
        path = self._sandbox.resolve(wanted.path)
        if not path.is_file():
            what = "is a folder; use Glob" if path.is_dir() else "does not exist as a file"
            return ToolResult(success=False, error=f"{wanted.path} {what}.")
        with _opened(self._sandbox, path) as file:
            lines, more = _lines(file, wanted)
        data = b"".join(lines)
        if b"\0" in data:
            return ToolResult(success=False, error=f"{wanted.path} is not a text file.")
        if not lines and wanted.offset > 1:
            error = f"{wanted.path} has no line {wanted.offset}: it is shorter."
            return ToolResult(success=False, error=error)
        text = data.decode("utf-8", "replace")
        if more:
            text += f"\n[There is more: go on with offset {wanted.offset + len(lines)}]"
        return ToolResult(success=True, output=text)


def _lines(file: BinaryIO, wanted: _ReadArguments) -> tuple[list[bytes], bool]:
    """What is asked for, as far as it fits, and whether there is more. Raises OSError."""
    lines: list[bytes] = []
    size, skipped = 0, 0
    for number in range(1, wanted.offset + wanted.limit + 1):
        line = file.readline(MAX_BYTES)
        if not line:
            break
        if number < wanted.offset:
            skipped += len(line)
            if skipped > MAX_SKIPPED:
                reason = "Too large to reach that line; try `sed` or `tail` in Bash"
                raise OSError(errno.EFBIG, reason, wanted.path)
            continue
        if number >= wanted.offset + wanted.limit or size + len(line) > MAX_BYTES:
            return lines, True
        lines.append(line)
        size += len(line)
    return lines, False


class _WriteArguments(Arguments):
    path: Annotated[str, Meta(description="The file, relative to the project's folder.")]
    content: Annotated[str, Meta(description="All that the file shall hold.")]


class Write:
    """The tool."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.spec = ToolSpec(
            name="Write",
            description=(
                "Write a text file: a new one, or in place of what it held. Missing folders are"
                " made. To change a part of a file use Edit."
            ),
            parameters=schema_of(_WriteArguments),
            effect=Effect.CHANGES,
        )

    def prepare(self, arguments: bytes) -> FileCall:
        found = read_arguments(_WriteArguments, arguments)
        size = len(found.content.encode())
        return FileCall(
            f"{found.path} ({size} bytes)",
            lambda: self._write(found, size),
            lambda: self._sandbox.subject(found.path),
        )

    def _write(self, wanted: _WriteArguments, size: int) -> ToolResult:
        path = self._sandbox.resolve(wanted.path)
        replace_file(self._sandbox, path, wanted.content.encode(), make=True)
        return ToolResult(success=True, output=f"Wrote {size} bytes to {wanted.path}.")


class _EditArguments(Arguments):
    path: Annotated[str, Meta(description="The file, relative to the project's folder.")]
    old: Annotated[str, Meta(description="The text to replace, exactly as it stands in the file.")]
    new: Annotated[str, Meta(description="The text that takes its place.")]
    all: Annotated[bool, Meta(description="Replace every place, not just one.")] = False


class Edit:
    """The tool."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.spec = ToolSpec(
            name="Edit",
            description=(
                "Replace a piece of text in a file. The old text must be there exactly once, with"
                " the same white space; give more of its surroundings if it is not, or set `all`."
            ),
            parameters=schema_of(_EditArguments),
            effect=Effect.CHANGES,
        )

    def prepare(self, arguments: bytes) -> FileCall:
        found = read_arguments(_EditArguments, arguments)
        if not found.old:
            raise BadArguments("`old` is empty; use Write for a new file.")
        if found.old == found.new:
            raise BadArguments("`old` and `new` are the same.")
        return FileCall(
            found.path, lambda: self._edit(found), lambda: self._sandbox.subject(found.path)
        )

    def _edit(self, wanted: _EditArguments) -> ToolResult:
        path = self._sandbox.resolve(wanted.path)
        if not path.is_file():
            return ToolResult(success=False, error=f"{wanted.path} does not exist as a file.")
        with _opened(self._sandbox, path) as file:
            seen = os.fstat(file.fileno())
            if seen.st_size > MAX_EDITED:
                return ToolResult(success=False, error=f"{wanted.path} is larger than 10 MiB.")
            data = file.read()
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return ToolResult(success=False, error=f"{wanted.path} is not a UTF-8 text file.")
        old, new = _in_the_files_lines(text, wanted)
        count = text.count(old)
        if count == 0:
            error = f"{wanted.path} does not have that text. Read it again, and mind white space."
            return ToolResult(success=False, error=error)
        if count > 1 and not wanted.all:
            error = (
                f"{wanted.path} has that text {count} times. Give more of its surroundings, or set"
                " `all`."
            )
            return ToolResult(success=False, error=error)
        changed = text.replace(old, new).encode()
        if not replace_file(self._sandbox, path, changed, seen=seen):
            error = f"{wanted.path} was changed by somebody else meanwhile. Read it again."
            return ToolResult(success=False, error=error)
        places = "1 place" if count == 1 else f"{count} places"
        return ToolResult(success=True, output=f"Changed {places} in {wanted.path}.")


def _in_the_files_lines(text: str, wanted: _EditArguments) -> tuple[str, str]:
    """Old and new with the line ends of the file: a model does not see those of Windows."""
    if "\r" in wanted.old + wanted.new or text.count("\n") != text.count("\r\n"):
        return wanted.old, wanted.new
    return wanted.old.replace("\n", "\r\n"), wanted.new.replace("\n", "\r\n")


def _opened(sandbox: Sandbox, path: Path) -> BinaryIO:
    """The very file that was checked: no link that took a place meanwhile is followed."""
    folder = sandbox.folder(path.parent)
    try:
        # Not blocking: a named pipe in the file's place would keep a thread for ever.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.fdopen(os.open(path.name, flags, dir_fd=folder), "rb")
    finally:
        os.close(folder)


def replace_file(
    sandbox: Sandbox,
    path: Path,
    data: bytes,
    *,
    make: bool = False,
    seen: os.stat_result | None = None,
) -> bool:
    """Write a file so that it holds the old text or the new, never a half; its mode stays.

    With `seen`, only if it still is the file that was seen. Was it written? Raises
    OutsideSandbox, OSError.
    """
    folder = sandbox.folder(path.parent, make=make)
    name = f".{path.name[:100]}.{uuid.uuid4().hex[:12]}"
    try:
        mode = _mode(path.name, folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
        if seen is not None and not _is_as_seen(path.name, folder, seen):
            return False
        os.rename(name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        return True
    finally:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        os.close(folder)


def _mode(name: str, folder: int) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode & 0o7777
    except FileNotFoundError:
        return 0o666 & ~_umask()


def _is_as_seen(name: str, folder: int, seen: os.stat_result) -> bool:
    now = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return (now.st_ino, now.st_size, now.st_mtime_ns) == (
        seen.st_ino,
        seen.st_size,
        seen.st_mtime_ns,
    )


def _umask() -> int:
    # There is no call that only reads it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
