"""Grep and Glob: find text and files inside the sandbox, bounded in results and in time."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated

import anyio.to_thread
import regex
from msgspec import Meta

from agent.domain.allow import Subject
from agent.domain.approval import Effect
from agent.domain.ports import BadArguments, Tell, ToolResult, ToolSpec, silent
from agent.infrastructure.tools.files import guarded
from agent.infrastructure.tools.finding import MAX_FILE, Finder, Patience
from agent.infrastructure.tools.sandbox import Sandbox
from agent.tool_arguments import Arguments, read_arguments, schema_of

MAX_RESULTS = 200
_MAX_LINE = 300
_SECONDS = 20.0
# A longer one takes time to be understood, which a worker spends on nothing else.
_LONGEST_PATTERN = 4096


@dataclass(frozen=True, slots=True)
class _Search:
    """A search, in a thread: left behind, and told so, by a run that does not wait for it."""

    summary: str
    seconds: float
    work: Callable[[Patience], ToolResult]

    def subject(self) -> Subject | None:
        return None

    async def run(self, tell: Tell = silent) -> ToolResult:
        patience = Patience(self.seconds)
        try:
            return await anyio.to_thread.run_sync(
                guarded, lambda: self.work(patience), abandon_on_cancel=True
            )
        finally:
            patience.give_up()


class _GrepArguments(Arguments):
    pattern: Annotated[
        str,
        Meta(
            description="A regular expression (Python's), line by line.",
            max_length=_LONGEST_PATTERN,
        ),
    ]
    path: Annotated[str, Meta(description="The folder or file to look in.")] = "."
    glob: Annotated[str | None, Meta(description="Only files named like this: `*.py`.")] = None
    ignore_case: Annotated[bool, Meta(description="Upper and lower case are the same.")] = False


class Grep:
    """The tool."""

    def __init__(self, sandbox: Sandbox, finder: Finder, seconds: float = _SECONDS) -> None:
        self._sandbox = sandbox
        self._finder = finder
        self._seconds = seconds
        self.spec = ToolSpec(
            name="Grep",
            description=(
                f"Find lines that match, as `file:line: text`; at most {MAX_RESULTS}. Folders such"
                " as .git and node_modules are left out."
            ),
            parameters=schema_of(_GrepArguments),
            effect=Effect.READS,
        )

    def prepare(self, arguments: bytes) -> _Search:
        found = read_arguments(_GrepArguments, arguments)
        try:
            pattern = regex.compile(found.pattern, regex.IGNORECASE if found.ignore_case else 0)
        except regex.error as exc:
            raise BadArguments(f"the pattern is not a regular expression: {exc}.") from exc
        except RecursionError as exc:
            raise BadArguments("the pattern has too many groups in groups.") from exc
        return _Search(
            found.pattern, self._seconds, lambda patience: self._grep(found, pattern, patience)
        )

    def _grep(
        self, wanted: _GrepArguments, pattern: regex.Pattern[str], patience: Patience
    ) -> ToolResult:
        root = self._sandbox.resolve(wanted.path)
        if not root.exists():
            return ToolResult(success=False, error=f"{wanted.path} does not exist.")
        found: list[str] = []
        try:
            for path in self._candidates(root, wanted, patience):
                for number, line in _lines(path):
                    # Some patterns take for ever on some lines. Unlike the standard library's,
                    # this search has a deadline, and lets go of the interpreter meanwhile.
                    if pattern.search(line, timeout=patience.left or 0.001):
                        found.append(f"{self._sandbox.shown(path)}:{number}: {line[:_MAX_LINE]}")
                        if len(found) >= MAX_RESULTS:
                            return _listing(found, "There may be more: narrow the search.")
                patience.check()
        except TimeoutError:
            return _listing(found, _too_long(self._seconds))
        except MemoryError:
            return _listing(found, "Stopped: the pattern needs too much memory; simplify it.")
        return _listing(found, "")

    def _candidates(self, root: Path, wanted: _GrepArguments, patience: Patience) -> Iterable[Path]:
        if root.is_file():
            return [root] if _is_named(root.name, wanted.glob) else []
        names = self._finder.holding(root, wanted.pattern, wanted.ignore_case, patience)
        return (root / name for name in names if _is_named(Path(name).name, wanted.glob))


class _GlobArguments(Arguments):
    pattern: Annotated[
        str,
        Meta(
            description="Such as `*.md` or `src/**/*.py`.",
            min_length=1,
            max_length=_LONGEST_PATTERN,
        ),
    ]
    path: Annotated[str, Meta(description="The folder to look in.")] = "."


class Glob:
    """The tool."""

    def __init__(self, sandbox: Sandbox, finder: Finder, seconds: float = _SECONDS) -> None:
        self._sandbox = sandbox
        self._finder = finder
        self._seconds = seconds
        self.spec = ToolSpec(
            name="Glob",
            description=(
                f"Find files by name, newest first; at most {MAX_RESULTS}. A pattern without a"
                " slash is looked for in all folders."
            ),
            parameters=schema_of(_GlobArguments),
            effect=Effect.READS,
        )

    def prepare(self, arguments: bytes) -> _Search:
        found = read_arguments(_GlobArguments, arguments)
        return _Search(found.pattern, self._seconds, lambda patience: self._glob(found, patience))

    def _glob(self, wanted: _GlobArguments, patience: Patience) -> ToolResult:
        root = self._sandbox.resolve(wanted.path)
        if not root.is_dir():
            return ToolResult(success=False, error=f"{wanted.path} is not a folder.")
        matches = _matcher(wanted.pattern)
        found: list[tuple[float, str]] = []
        note = ""
        try:
            for name in self._finder.files(root, patience):
                # Some patterns take for ever on some names, as in Grep.
                if matches.fullmatch(name, timeout=patience.left or 0.001):
                    path = root / name
                    found.append((_changed(path), self._sandbox.shown(path)))
        except TimeoutError:
            note = _too_long(self._seconds)
        found.sort(reverse=True)
        if len(found) > MAX_RESULTS:
            note = f"{len(found) - MAX_RESULTS} more are left out: narrow the search."
        return _listing([name for _, name in found[:MAX_RESULTS]], note)


def _is_named(name: str, glob: str | None) -> bool:
    return not glob or fnmatch(name, glob)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file; of anything else, none."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_FILE:
            return
        data = path.read_bytes()
    except OSError:
        return
    if b"\0" not in data[:4096]:
        # Lines end as they do in an editor: other characters that break lines are part of one.
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            yield number, line.removesuffix("\r")


def _matcher(pattern: str) -> regex.Pattern[str]:
    """`*` and `?` stay inside a folder, `**` crosses folders."""
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    pattern = re.sub(r"\*{3,}", "**", re.sub(r"(?:\*\*/){2,}", "**/", pattern))
    found = re.escape(pattern.removeprefix("./"))
    found = found.replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*")
    return regex.compile(found.replace(r"\*", "[^/]*").replace(r"\?", "[^/]"))


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _too_long(seconds: float) -> str:
    return f"Stopped after {seconds:g} seconds: narrow the search, or simplify the pattern."


def _listing(found: list[str], note: str) -> ToolResult:
    text = "\n".join(found) if found else "Nothing was found."
    return ToolResult(success=True, output=f"{text}\n[{note}]" if note else text)
