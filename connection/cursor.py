"""Which events of a session a client has seen: drops what comes twice, follows a new generation.

Pure: events in, verdicts out. Sequences are compared inside one generation only; a generation that
was left is retired, so that a late event of it can't take the client back.
"""

from dataclasses import dataclass, field

from sessions.domain.keys import Cursor, Generation

# Generations of one session that are remembered as left. A worker's relaunch makes one; whoever
# sends an event of a generation this long ago has no place in a client's view.
_RETIRED_KEPT = 64


@dataclass(slots=True)
class EventCursor:
    """How far one client has come in one session's events."""

    current: Cursor | None = None
    _retired: dict[Generation, None] = field(default_factory=dict[Generation, None])

    def admits(self, event: Cursor) -> bool:
        """Whether the event is new, in which case the cursor is moved to it."""
        current = self.current
        if event.generation in self._retired:
            return False
        if current is not None:
            if current.generation != event.generation:
                self._retire(current.generation)
            elif event.sequence <= current.sequence:
                return False
        self.current = event
        return True

    def is_past(self, place: Cursor | None) -> bool:
        """More of that generation has been seen than this."""
        current = self.current
        return (
            current is not None
            and place is not None
            and current.generation == place.generation
            and current.sequence > place.sequence
        )

    def moved_to(self, snapshot: Cursor) -> None:
        """A snapshot was applied: what it holds has been seen, whatever came before."""
        current = self.current
        if current is not None and current.generation != snapshot.generation:
            self._retire(current.generation)
        self._retired.pop(snapshot.generation, None)
        self.current = snapshot

    def _retire(self, generation: Generation) -> None:
        self._retired[generation] = None
        while len(self._retired) > _RETIRED_KEPT:
            del self._retired[next(iter(self._retired))]
