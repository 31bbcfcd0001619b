"""How long, and how often, what was lost is tried again. Pure: time is an argument."""

from dataclasses import dataclass, field

BUDGET = 60.0
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 2.0
_DOUBLINGS = 5
_CATCH_UPS = 3
# One that is not answered fails after 90 s, so that three of them take a while.
_CATCH_UP_WINDOW = 600.0


@dataclass(slots=True)
class Reconnecting:
    """One outage, from the loss on."""

    began: float
    budget: float = BUDGET
    _attempts: int = 0

    def remaining(self, now: float) -> float:
        return max(0.0, self.began + self.budget - now)

    def delay(self, now: float) -> float | None:
        """How long to wait before the next attempt; None when it is time to give up."""
        remaining = self.remaining(now)
        if remaining <= 0:
            return None
        growing = _FIRST_DELAY * 2.0 ** min(self._attempts, _DOUBLINGS)
        wait = min(remaining, _LONGEST_DELAY, growing) if self._attempts else 0.0
        self._attempts += 1
        return wait


@dataclass(slots=True)
class CatchUps:
    """Snapshots that a daemon could not make: each is tried again by a new connection, but not
    for ever."""

    _failed: list[float] = field(default_factory=list[float])

    def failed(self, now: float) -> bool:
        """Note one more, and tell whether that was the last."""
        self._failed = [at for at in self._failed if now - at < _CATCH_UP_WINDOW] + [now]
        return len(self._failed) >= _CATCH_UPS
