"""What becomes of prompts that may be taken back. Pure: one book per client.

A prompt waits until it is handed to its session, which owns it from then on. Taking it back while
it waits is certain; afterwards it is for the session to say. Ids live as long as their prompt.
"""

from collections import OrderedDict
from enum import StrEnum

from connection.failures import CommandRefused

# Outcomes that are remembered for cancellations that come late.
_REMEMBERED = 256


class Status(StrEnum):
    """What a cancellation is answered with."""

    CANCELLED = "cancelled"
    OWNED = "owned"
    UNKNOWN = "unknown"


class Admissions:
    """The prompts of one client that are on their way."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self._outcomes: OrderedDict[str, Status] = OrderedDict()

    def begin(self, admission_id: str) -> None:
        """A prompt came. Raises CommandRefused for an id that is in use."""
        if admission_id in self._waiting:
            raise CommandRefused("duplicate_admission", "this admission id is in use")
        self._outcomes.pop(admission_id, None)
        self._waiting.add(admission_id)

    def own(self, admission_id: str) -> bool:
        """Hand the prompt to its session; False when it was taken back before."""
        if admission_id not in self._waiting:
            return False
        self._settle(admission_id, Status.OWNED)
        return True

    def cancel(self, admission_id: str) -> Status:
        """Take a prompt back. What was decided once stays decided."""
        if admission_id in self._waiting:
            self._settle(admission_id, Status.CANCELLED)
        return self._outcomes.get(admission_id, Status.UNKNOWN)

    def taken_back(self, admission_id: str) -> None:
        """The session gave a prompt back that it owned."""
        self._settle(admission_id, Status.CANCELLED)

    def cancel_all(self) -> None:
        """The client is gone: what still waits for its session is not wanted any more."""
        for admission_id in tuple(self._waiting):
            self.cancel(admission_id)

    def _settle(self, admission_id: str, status: Status) -> None:
        self._waiting.discard(admission_id)
        self._outcomes[admission_id] = status
        while len(self._outcomes) > _REMEMBERED:
            self._outcomes.popitem(last=False)
