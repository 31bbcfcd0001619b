"""The files that a warm process was made of: once one of them changes, it is out of date."""

from collections.abc import Iterable
from pathlib import Path


class Sources:
    """Remembers how the files were when this was made."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = list(files)
        self._before = self._state()

    @property
    def have_changed(self) -> bool:
        """One of them was edited, made or removed since."""
        return self._state() != self._before

    def _state(self) -> list[tuple[int, int] | None]:
        found: list[tuple[int, int] | None] = []
        for path in self._files:
            try:
                stat = path.stat()
            except OSError:
                found.append(None)
            else:
                found.append((stat.st_mtime_ns, stat.st_size))
        return found
