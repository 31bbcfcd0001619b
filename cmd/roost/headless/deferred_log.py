"""A log for the first half second, before logging is set up: it keeps what is told, and hands on.

structlog and the settings that say where logs go take longer to import than a worker may take to
answer its first lines.
"""

from collections.abc import Callable


class DeferredLog:
    """Call it like any log. `hand_over` gives the kept lines, and later ones, to another."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, str, dict[str, object]]] = []
        self._target: Callable[..., None] | None = None

    def __call__(self, level: str, event: str, /, **fields: object) -> None:
        if self._target is None:
            if len(self._kept) < 1000:
                self._kept.append((level, event, fields))
        else:
            self._target(level, event, **fields)

    @property
    def is_open(self) -> bool:
        """Does what is told here go anywhere yet?"""
        return self._target is not None

    def hand_over(self, target: Callable[..., None]) -> None:
        self._target = target
        kept, self._kept = self._kept, []
        for level, event, fields in kept:
            target(level, event, **fields)
