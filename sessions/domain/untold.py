"""Which documents joiners were not told, so that a replay does not take them for known.

A joiner is not told a document that is lost, nor between runs one that nobody needs yet. It is told
before the first patch that could be applied to it. Who comes back with a cursor from in between
may be such a joiner: what it misses must not hold a patch without its base.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

# Stretches of one generation that are remembered; before the oldest of them nothing is replayed.
_KEPT = 64


@dataclass(slots=True)
class _Open:
    """A document that somebody was not told, and may still not have."""

    since: int
    is_patched: bool = False


@dataclass(slots=True)
class Untold:
    """The documents of one generation, by name: the state is None, an activity its message id."""

    _open: dict[str | None, _Open] = field(default_factory=dict[str | None, _Open])
    _hidden: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])
    """From where to before where a cursor may be that of somebody who lacks the base of a patch."""
    _floor: int = 0

    def joined(self, names: Iterable[str | None], at: int) -> None:
        """Somebody's snapshot came at this place, without these documents."""
        for name in names:
            self._open.setdefault(name, _Open(at))

    def patched(self, name: str | None, at: int, *, is_lost: bool) -> None:
        """A patch of the document: whoever follows was told it before, unless it is lost."""
        if (known := self._open.get(name)) is None:
            return
        known.is_patched = True
        if not is_lost:
            self._close(name, known, at)

    def snapshot(self, name: str | None, at: int) -> None:
        """Everybody has the document from here on."""
        if (known := self._open.get(name)) is not None:
            self._close(name, known, at)

    def hides(self, cursor: int) -> bool:
        """A replay from here on may hold a patch that cannot be applied."""
        return (
            cursor < self._floor
            or any(since <= cursor < until for since, until in self._hidden)
            or any(known.is_patched and known.since <= cursor for known in self._open.values())
        )

    def lacked_at(self, cursor: int) -> set[str | None]:
        """The documents that have to be told before their next patch."""
        return {name for name, known in self._open.items() if known.since <= cursor}

    def _close(self, name: str | None, known: _Open, at: int) -> None:
        del self._open[name]
        if known.is_patched:
            self._hidden.append((known.since, at))
            if len(self._hidden) > _KEPT:
                _, self._floor = self._hidden.popleft()
