"""What a suspended run waits for, and who may still answer it.

Answering takes two steps: a complete answer that went to the worker marks the interrupts; the run
that continues clears them. When it does not come to that, they are open again. So an answer is
taken once, and is not lost with the worker that was to take it.
"""

from dataclasses import dataclass
from enum import Enum, auto

from sessions.domain import lines
from sessions.domain.lines import BadLine
from sessions.domain.ports import Client, Named


class Verdict(Enum):
    """What becomes of a run input."""

    FORWARD = auto()
    DROP = auto()
    """It answers interrupts that are no longer open; its messages go with it."""
    INCOMPLETE = auto()


@dataclass(slots=True)
class Interrupts:
    """The open interrupts of one thread; none when its last run did not end by asking."""

    open: frozenset[str] = frozenset()
    line: bytes = b""
    """The worker's RUN_FINISHED that asked."""
    is_answering: bool = False
    answered_by: str | None = None
    """What gave the last answer that counted, for people; None: it does not say."""
    _answerer: Client | None = None

    def ask(self, line: bytes) -> None:
        """A run has ended with this line, by asking or otherwise."""
        self.clear()
        try:
            self.open = lines.run_finished(line).interrupt_ids
        except BadLine:
            return
        self.line = line if self.open else b""
        if self.open:
            self.answered_by = None

    def clear(self) -> None:
        """A run goes on, or nobody remembers what was asked."""
        self.open, self.line, self.is_answering, self._answerer = frozenset(), b"", False, None

    def judge(self, client: Client | None, answered: frozenset[str]) -> Verdict:
        """Decide about a run input that answers these; a complete answer is taken from here on."""
        if not answered:
            return Verdict.FORWARD
        if not self.open or self.is_answering:
            return Verdict.DROP
        if not answered >= self.open:
            return Verdict.INCOMPLETE
        self.is_answering, self._answerer = True, client
        self.answered_by = client.name if isinstance(client, Named) else None
        return Verdict.FORWARD

    def reopen(self) -> Client | None:
        """The answer did not become a run. Returns who gave it, when it is still there."""
        answerer, self._answerer = self._answerer, None
        self.is_answering = False
        self.answered_by = None
        return answerer

    def forget(self, client: Client) -> None:
        """The client is gone; its answer stays."""
        if self._answerer is client:
            self._answerer = None
