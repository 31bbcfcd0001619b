"""Which projects the user trusts: their own settings may then decide what runs and what is allowed.

The record is in the roost home, never in the project, so a checkout can't trust itself. Folders
are compared after following links: a link put in a trusted folder's place is not that folder.
"""

import fcntl
import json
import os
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from roost.atomic_file import write_atomically

_LONGEST_WAIT = 5.0
_LOOK_EVERY = 0.02


class BadTrustFile(Exception):
    """The record can't be read. The message is one line with the file and what to do."""


@dataclass(frozen=True, slots=True)
class TrustedProjects:
    """The record of trusted projects in one file."""

    file: Path

    def directories(self) -> tuple[str, ...]:
        """All trusted folders, sorted. Raises BadTrustFile."""
        try:
            record: object = json.loads(self.file.read_bytes())
        except FileNotFoundError:
            return ()
        except OSError as exc:
            raise BadTrustFile(f"{self.file} can't be read: {exc.strerror}") from exc
        except ValueError as exc:
            raise BadTrustFile(self._damaged()) from exc
        found = cast("dict[str, object]", record).get("trusted") if _is_dict(record) else None
        if not isinstance(found, list):
            raise BadTrustFile(self._damaged())
        directories = cast("list[object]", found)
        if not all(isinstance(directory, str) for directory in directories):
            raise BadTrustFile(self._damaged())
        return tuple(sorted(cast("list[str]", directories)))

    def includes(self, project_dir: str) -> bool:
        """Is it trusted itself? Folders inside a trusted one are not. Raises BadTrustFile."""
        return _real(project_dir) in self.directories()

    def add(self, project_dir: str) -> str:
        """Trust a folder; answers the path that was recorded. Raises BadTrustFile, OSError."""
        directory = _real(project_dir)
        with self._alone():
            self._write({*self.directories(), directory})
        return directory

    def remove(self, project_dir: str) -> bool:
        """Trust it no longer; False when it was not trusted. Raises BadTrustFile, OSError."""
        with self._alone():
            known = set(self.directories())
            gone = {_real(project_dir), project_dir} & known
            if gone:
                self._write(known - gone)
            return bool(gone)

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Between reading and writing, nobody else changes the record. Raises BadTrustFile."""
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The folder is what is locked: the record itself is replaced by each change.
        lock = os.open(self.file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            give_up = time.monotonic() + _LONGEST_WAIT
            while not _locked(lock):
                if time.monotonic() > give_up:
                    raise BadTrustFile(
                        f"{self.file} is being changed by another program; try again"
                    )
                time.sleep(_LOOK_EVERY)
            yield
        finally:
            os.close(lock)

    def _write(self, directories: Iterable[str]) -> None:
        record = json.dumps({"trusted": sorted(directories)}, indent=2, ensure_ascii=False)
        write_atomically(self.file, record.encode(errors="surrogateescape") + b"\n")

    def _damaged(self) -> str:
        return (
            f'{self.file} is damaged: it should hold {{"trusted": [folders]}}.'
            " Repair it, or delete it and trust your projects again"
        )


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _real(directory: str) -> str:
    return str(Path(directory).resolve())


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)
