"""The daemon's log files: one a day (UTC, as the lines' timestamps), the last fortnight kept."""

from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import IO

_KEPT = 14


class DailyLog:
    """A text file that moves on to the next day's by itself."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._day: date | None = None
        self._file: IO[str] | None = None

    def write(self, text: str) -> None:
        """Append. Raises OSError."""
        day = datetime.now(UTC).date()
        if self._file is None or day != self._day:
            self._open(day)
        assert self._file is not None
        self._file.write(text)

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            # What a full disk did not take is lost anyway.
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _open(self, day: date) -> None:
        self.close()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"daemon-{day.isoformat()}.log"
        self._file = path.open("a", encoding="utf-8", errors="backslashreplace")
        with suppress(OSError):
            path.chmod(0o600)
        self._day = day
        for old in log_files(self._folder)[:-_KEPT]:
            with suppress(OSError):
                old.unlink()


def log_files(folder: Path) -> list[Path]:
    """The log files, oldest first."""
    return sorted(folder.glob("daemon-????-??-??.log"))
