"""Which files a search has to look at: all below a folder, or those that may hold a match.

Both ways give the same files in the same order. ripgrep, where it is installed, reads with all
cores and leaves out most files that hold nothing; what is a match, what is shown and where it ends
is decided by the search alone, so that an answer never depends on what is installed.
"""

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

MAX_FILE = 4 * 1024 * 1024
# Never what is looked for, and often larger than all the rest.
SKIPPED = (".git", "node_modules", "__pycache__", ".venv")

# A pattern that both regular expressions read alike. Everything else (sets in sets, looking around,
# possessive counts, flags, references) is left to the search's own.
_SET = r"\[\^?\]?(?:[^\\\[\]&~|-]|\\[dwstfvr.\[\]^$*+?(){}|/-]|-(?=[^\[\]-]))*\]"
_ESCAPED = r"\\[dDwWsSbBtfvr.\[\]^$*+?(){}|\\/-]"
_ALIKE = re.compile(
    rf"(?:[^\\\[\](){{}}*+?\n]|{_ESCAPED}|{_SET}|\((?:\?:)?|\)|(?:[*+?]|{{\d+(?:,\d*)?}})\??(?![*+?{{]))*"
)
# A line that is not UTF-8. The search reads what it can't decode as U+FFFD, which ripgrep does not.
_NOT_UTF8 = (
    r"(?-u:[\xC0\xC1\xF5-\xFF]|(?:^|[\x00-\x7F])[\x80-\xBF]|[\xC2-\xF4](?:[^\x80-\xBF]|$)"
    r"|[\xE0-\xF4][\x80-\xBF](?:[^\x80-\xBF]|$)|[\xF0-\xF4][\x80-\xBF]{2}(?:[^\x80-\xBF]|$))"
)


class Patience:
    """How long a search may go on: so many seconds, or until nobody waits for it any more."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def left(self) -> float:
        """The seconds that are left; 0 when it is over."""
        return max(self._ends - time.monotonic(), 0.0)

    def check(self) -> None:
        """Raises TimeoutError when it is over."""
        if not self.left:
            raise TimeoutError

    def give_up(self) -> None:
        """It is over now; a program that was asked ends. From any thread."""
        with self._lock:
            self._ends = 0.0
            if self._process is not None:
                self._process.kill()

    def output_of(self, process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
        """What a program prints, and its errors, to its end. Raises TimeoutError: then it ended."""
        with self._lock:
            self._process = process
        try:
            printed = process.communicate(timeout=self.left)
        except subprocess.TimeoutExpired as exc:
            raise TimeoutError from exc
        finally:
            with self._lock:
                self._process = None
            process.kill()
            process.communicate()  # what is left in its pipes, and its end
        self.check()
        return printed


class Finder(Protocol):
    """Names relative to the folder, those of a folder before those of the folders in it.

    No link is followed or named, so that nothing leads out or round; no pipe or device either. Each
    raises TimeoutError when the patience is over.
    """

    def files(self, root: Path, patience: Patience) -> Iterator[str]:
        """Every file below."""
        ...

    def holding(
        self, root: Path, pattern: str, ignore_case: bool, patience: Patience
    ) -> Iterator[str]:
        """At least every file up to MAX_FILE with a line that matches."""
        ...


class Walk:
    """Goes through all folders."""

    def files(self, root: Path, patience: Patience) -> Iterator[str]:
        # Not recursive, unlike the library's: a project may have more folders in folders than that.
        left = [""]
        while left:
            below = left.pop()
            patience.check()
            folders, names = _entries(root / below)
            left += [f"{below}{name}/" for name in reversed(folders) if name not in SKIPPED]
            for name in names:
                patience.check()
                yield below + name

    def holding(
        self, root: Path, pattern: str, ignore_case: bool, patience: Patience
    ) -> Iterator[str]:
        return self.files(root, patience)


class Ripgrep:
    """Lets `rg` look; what it can't be asked, or does not answer, is walked."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._walk = Walk()

    def files(self, root: Path, patience: Patience) -> Iterator[str]:
        found = self._ask(root, patience, "--files")
        return self._walk.files(root, patience) if found is None else iter(found)

    def holding(
        self, root: Path, pattern: str, ignore_case: bool, patience: Patience
    ) -> Iterator[str]:
        if not _ALIKE.fullmatch(pattern):
            return self.files(root, patience)
        found = self._ask(
            root,
            patience,
            "--files-with-matches",
            "--text",
            "--crlf",
            f"--max-filesize={MAX_FILE}",
            "--ignore-case" if ignore_case else "--case-sensitive",
            f"--regexp={pattern}",
            f"--regexp={_NOT_UTF8}",
        )
        return self._walk.files(root, patience) if found is None else iter(found)

    def _ask(self, root: Path, patience: Patience, *arguments: str) -> list[str] | None:
        skipped = [f"--glob=!**/{name}/" for name in SKIPPED]
        patience.check()
        try:
            process = subprocess.Popen(
                [
                    self._program,
                    "--no-config",
                    "--no-messages",  # what can't be read is left out, here as there
                    "--no-ignore",
                    "--hidden",
                    "--null",
                    *skipped,
                    *arguments,
                    "--",
                    ".",
                ],
                cwd=root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError:
            return None  # it was uninstalled, or the folder is gone
        output, errors = patience.output_of(process)
        if process.returncode > 1 and errors:
            return None  # it did not take the question, such as a pattern too large for it
        names = os.fsdecode(output).split("\0")[:-1]
        return sorted((name.removeprefix("./") for name in names), key=_walked_at)


def finder(environ: Mapping[str, str]) -> Finder:
    """The fastest one here. A `rg` that a relative folder of the PATH names is not trusted."""
    folders = [each for each in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(each)]  # noqa: PTH117 - of text
    program = shutil.which("rg", path=os.pathsep.join(folders)) if folders else None
    return Walk() if program is None else Ripgrep(program)


def _entries(folder: Path) -> tuple[list[str], list[str]]:
    """The folders and the files in it, each sorted; none of one that can't be read."""
    folders: list[str] = []
    files: list[str] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                files.append(entry.name)
    return sorted(folders), sorted(files)


def _walked_at(name: str) -> list[tuple[bool, str]]:
    *folders, last = name.split("/")
    return [*((True, folder) for folder in folders), (False, last)]
