"""Read, Write and Edit: text files inside the sandbox, whole or not at all."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

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


@dataclass(frozen=True, slots=True)
class FileCall:
    """A piece of work on files, done in a thread; what goes wrong is the result."""

    summary: str
    work: Callable[[], ToolResult]
    about: Callable[[], Subject | None] = lambda: None
    """Where it changes something, if it does."""

    def subject(self) -> Subject | None:
        return self.about()

    async def run(self, tell: Tell = silent) -> ToolResult:
        # Not abandoned when cancelled: a write that has begun is finished, and known.
        return await anyio.to_thread.run_sync(self._guarded)

    def _guarded(self) -> ToolResult:
        try:
            return self.work()
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
        lines: list[bytes] = []
        size, more = 0, False
        with path.open("rb") as file:
            for number in range(1, wanted.offset + wanted.limit + 1):
                line = file.readline(MAX_BYTES)
                if not line:
                    break
                if number < wanted.offset:
                    continue
                if number >= wanted.offset + wanted.limit or size + len(line) > MAX_BYTES:
                    more = True
                    break
                lines.append(line)
                size += len(line)
        data = b"".join(lines)
        if b"\0" in data:
            return ToolResult(success=False, error=f"{wanted.path} is not a text file.")
        text = data.decode("utf-8", "replace")
        if more:
            text += f"\n[There is more: go on with offset {wanted.offset + len(lines)}]"
        return ToolResult(success=True, output=text)


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
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, wanted.content.encode())
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
        if path.stat().st_size > MAX_EDITED:
            return ToolResult(success=False, error=f"{wanted.path} is larger than 10 MiB.")
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            return ToolResult(success=False, error=f"{wanted.path} is not a UTF-8 text file.")
        count = text.count(wanted.old)
        if count == 0:
            error = f"{wanted.path} does not have that text. Read it again, and mind white space."
            return ToolResult(success=False, error=error)
        if count > 1 and not wanted.all:
            error = (
                f"{wanted.path} has that text {count} times. Give more of its surroundings, or set"
                " `all`."
            )
            return ToolResult(success=False, error=error)
        replace_file(path, text.replace(wanted.old, wanted.new).encode())
        places = "1 place" if count == 1 else f"{count} places"
        return ToolResult(success=True, output=f"Changed {places} in {wanted.path}.")


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that it holds the old text or the new, never a half; its mode stays."""
    mode = path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask()
    fd, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    # There is no call that only reads it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
