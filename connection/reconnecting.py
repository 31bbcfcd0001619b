"""How long, and how often, a lost daemon is looked for. Pure: time is an argument."""

from dataclasses import dataclass

BUDGET = 60.0
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 2.0
_DOUBLINGS = 5


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
