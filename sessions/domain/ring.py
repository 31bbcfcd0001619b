"""The last events of one generation, and what an attach with a cursor gets of them.

Replay is an optimisation, never the truth: whatever is not complete is answered with a snapshot.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from sessions.domain.keys import Cursor, Generation


class Coverage(StrEnum):
    """How much of what a client missed is still here."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """The answer to an attach. `current` is where the thread was then, if it ran at all."""

    coverage: Coverage
    current: Cursor | None
    reason: str | None = None


@dataclass(slots=True)
class Ring:
    """Events of one generation, oldest dropped first, bounded by count and by bytes.

    A single event larger than the byte limit leaves the ring empty: it can't be replayed.
    """

    generation: Generation
    max_events: int
    max_bytes: int
    last: int = 0
    """Sequence of the newest event ever put in; 0 before the first."""
    dropped_to: int = 0
    """What came up to here is not kept: it was dropped, or came before this ring."""
    _bytes: int = 0
    _events: deque[tuple[int, bytes]] = field(default_factory=deque[tuple[int, bytes]])

    def append(self, sequence: int, line: bytes) -> None:
        """Keep an event. Sequences grow, with gaps."""
        events = self._events
        events.append((sequence, line))
        self.last = sequence
        self._bytes += len(line)
        while len(events) > self.max_events or self._bytes > self.max_bytes:
            self.dropped_to, dropped = events.popleft()
            self._bytes -= len(dropped)

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.generation, self.last)

    def attach(self, cursor: Cursor | None) -> Attachment:
        """Judge a cursor. The generation is compared before any number is."""
        if cursor is None:
            return Attachment(coverage=Coverage.COMPLETE, current=self.cursor)
        if cursor.generation != self.generation:
            return self._refused("event_generation_changed")
        if cursor.sequence > self.last:
            return self._refused("resume_cursor_ahead_of_session")
        if cursor.sequence >= self.dropped_to:
            return Attachment(coverage=Coverage.COMPLETE, current=self.cursor)
        if self._events:
            return Attachment(
                coverage=Coverage.PARTIAL, current=self.cursor, reason="event_replay_not_available"
            )
        return self._refused("event_replay_not_available")

    def after(self, sequence: int) -> list[tuple[Cursor, bytes]]:
        """The kept events behind a sequence, oldest first."""
        return [(Cursor(self.generation, s), line) for s, line in self._events if s > sequence]

    def _refused(self, reason: str) -> Attachment:
        return Attachment(coverage=Coverage.UNAVAILABLE, current=self.cursor, reason=reason)
