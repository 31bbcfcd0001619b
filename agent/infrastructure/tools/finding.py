"""Which files a search has to look at: all below a folder, or those that may hold a match.

Both ways give the same files in the same order. ripgrep, where it is installed, reads with all
cores and leaves out most files that hold nothing; what is a match, what is shown and where it ends
is decided by the search alone, so that an answer never depends on what is installed.
"""

import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
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


class Finder(Protocol):
    """Names relative to the folder, those of a folder before those of the folders in it.

    No link is followed or named, so that nothing leads out or round; no pipe or device either. Each
    raises TimeoutError when `ends`, a moment of the monotonic clock, is over.
    """

    def files(self, root: Path, ends: float) -> Iterator[str]:
        """Every file below."""
        ...

    def holding(self, root: Path, pattern: str, ignore_case: bool, ends: float) -> Iterator[str]:
        """At least every file up to MAX_FILE with a line that matches."""
        ...


class Walk:
    """Goes through all folders."""

    def files(self, root: Path, ends: float) -> Iterator[str]:
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(name for name in folders if name not in SKIPPED)
            below = os.path.relpath(folder, root)
            for name in sorted(names):
                if time.monotonic() > ends:
                    raise TimeoutError
                if _is_file(f"{folder}/{name}"):
                    yield name if below == "." else f"{below}/{name}"

    def holding(self, root: Path, pattern: str, ignore_case: bool, ends: float) -> Iterator[str]:
        return self.files(root, ends)


class Ripgrep:
    """Lets `rg` look; what it can't be asked, or does not answer, is walked."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._walk = Walk()

    def files(self, root: Path, ends: float) -> Iterator[str]:
        found = self._ask(root, ends, "--files")
        return self._walk.files(root, ends) if found is None else iter(found)

    def holding(self, root: Path, pattern: str, ignore_case: bool, ends: float) -> Iterator[str]:
        if not _ALIKE.fullmatch(pattern):
            return self.files(root, ends)
        found = self._ask(
            root,
            ends,
            "--files-with-matches",
            "--text",
            "--crlf",
            f"--max-filesize={MAX_FILE}",
            "--ignore-case" if ignore_case else "--case-sensitive",
            f"--regexp={pattern}",
            f"--regexp={_NOT_UTF8}",
        )
        return self._walk.files(root, ends) if found is None else iter(found)

    def _ask(self, root: Path, ends: float, *arguments: str) -> list[str] | None:
        skipped = [f"--glob=!**/{name}/" for name in SKIPPED]
        try:
            done = subprocess.run(
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
                capture_output=True,
                timeout=max(ends - time.monotonic(), 0.001),
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise TimeoutError from exc
        except OSError:
            return None  # it was uninstalled, or the folder is gone
        if done.returncode > 1 and done.stderr:
            return None  # it did not take the question, such as a pattern too large for it
        names = os.fsdecode(done.stdout).split("\0")[:-1]
        return sorted((name.removeprefix("./") for name in names), key=_walked_at)


def finder(environ: Mapping[str, str]) -> Finder:
    """The fastest one here. A `rg` that a relative folder of the PATH names is not trusted."""
    folders = [each for each in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(each)]  # noqa: PTH117 - of text
    program = shutil.which("rg", path=os.pathsep.join(folders)) if folders else None
    return Walk() if program is None else Ripgrep(program)


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _walked_at(name: str) -> list[tuple[bool, str]]:
    *folders, last = name.split("/")
    return [*((True, folder) for folder in folders), (False, last)]
