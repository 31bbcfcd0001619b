"""From a worker's lines to what one client is sent: read, expanded, guarded, and made old. Pure."""

from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET, Raw

from agui.stream.chunks import BadChunk, ChunkExpander
from agui.stream.downgrade import Downgrade
from agui.stream.events import (
    AnyEvent,
    BadEvent,
    RunError,
    RunFinished,
    RunStarted,
    encode,
    read_event,
)
from agui.stream.guard import BAD_STREAM, StreamGuard

# The published client gives up on an event of more than 10 Mi characters.
MOST_BYTES = 8 * 2**20


class _Ends(msgspec.Struct):
    """Of a RUN_ERROR: the run that it ended. Not a member of the protocol: it may be anything."""

    runId: Raw = Raw(b"null")


_ends = msgspec.json.Decoder(_Ends)
_ENDS = frozenset({RunFinished, RunError})


@dataclass(slots=True)
class Outgoing:
    """One stream to one client."""

    guard: StreamGuard
    downgrade: Downgrade | None = None
    """For a client of before 1.0."""
    unknown: int = 0
    """Events of types that the protocol does not know."""
    has_ended: bool = False
    """A run's terminal event was the last that was sent."""
    _expander: ChunkExpander = field(default_factory=ChunkExpander)
    _renamed: dict[str, str] = field(default_factory=dict[str, str])

    def rename(self, run_id: str, shown: str) -> None:
        """Show a run under the id that was asked for; its worker gave it one of its own."""
        self._renamed[run_id] = shown

    def take(self, line: bytes) -> list[bytes]:
        """The events that the client is sent for a line."""
        try:
            event = read_event(line)
        except BadEvent as exc:
            return self._sent(self.guard.fail(f"an event is malformed ({exc})"))
        if event is None:
            self.unknown += 1
            return []
        if type(event) is RunError and bytes(_ends.decode(line).runId) == b"null":
            return []  # it answers somebody, and ends no run
        return self._sent(self._guarded(event, len(line)))

    def say(self, event: AnyEvent) -> list[bytes]:
        """Send an event of our own."""
        return self._sent(self.guard.take(event))

    def fail(self, reason: str, code: str) -> list[bytes]:
        """End the open run with an error."""
        return self._sent(self.guard.fail(reason, code))

    def fail_to_begin(self) -> list[bytes]:
        """The start of the run could not be sent: an error stands for all of it."""
        text = "the worker's run began with an event that can't be read"
        return self._sent([RunError(message=text, code=BAD_STREAM)])

    def _guarded(self, event: AnyEvent, size: int) -> list[AnyEvent]:
        if isinstance(event, (RunStarted, RunFinished)):
            event.run_id = self._renamed.get(event.run_id, event.run_id)
        if size > MOST_BYTES:
            if not isinstance(event, RunStarted):
                return self.guard.fail("an event is too large for this protocol's clients")
            event.input = UNSET
        try:
            expanded = self._expander.expand(event)
        except BadChunk as exc:
            return self.guard.fail(str(exc))
        if len(expanded) == 1:
            return self.guard.take(expanded[0])
        return [each for part in expanded for each in self.guard.take(part)]

    def _sent(self, events: list[AnyEvent]) -> list[bytes]:
        if events:
            self.has_ended = type(events[-1]) in _ENDS
        if self.downgrade is not None:
            events = [self.downgrade(event) for event in events]
        return [encode(event) for event in events]
