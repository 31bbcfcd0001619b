"""A spool in a file that has no name: whatever happens to its owner, nothing of it is left."""

import errno
import os
import tempfile
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

_READ_BYTES = 256 * 1024


@dataclass(slots=True)
class FileSpool:
    """Made at the first append, in the folder; emptied when all was taken."""

    folder: Path
    max_bytes: int
    """The file's size, with what was taken from it since it was last empty."""
    _file: FileIO | None = None
    _begin: int = 0
    _end: int = 0

    def append(self, data: bytes) -> None:
        """Keep all of it or, raising OSError, nothing."""
        if self._end + len(data) > self.max_bytes:
            raise OSError(errno.ENOSPC, "the spool is as large as it may get")
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0, dir=self.folder)  # noqa: SIM115
        view = memoryview(data)
        at = self._end
        while view:
            written = os.pwrite(self._file.fileno(), view, at)
            view, at = view[written:], at + written
        self._end = at

    def take(self) -> bytes:
        """The oldest bytes; empty when there are none."""
        if self._file is None or self._begin == self._end:
            return b""
        count = min(_READ_BYTES, self._end - self._begin)
        data = os.pread(self._file.fileno(), count, self._begin)
        self._begin += len(data)
        if self._begin == self._end:
            self.clear()
        return data

    def __len__(self) -> int:
        return self._end - self._begin

    def clear(self) -> None:
        self._begin = self._end = 0
        if self._file is not None:
            self._file.close()
            self._file = None
