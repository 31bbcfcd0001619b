"""What waits to be written to one client of the local server, and when it is too much. Pure.

Answers and snapshots are exempt: they were asked for, and a snapshot is made chunk by chunk as it
is written. Live events are limited. Past the limit a session's events are dropped until all that
waits was written; then it gets one catch-up, which is a snapshot, instead of them.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from connection.records import encode

# One write takes about so much: enough that the call is cheap, little enough to be interrupted.
_WRITE_BYTES = 256 * 1024


@dataclass(slots=True)
class Outgoing:
    """Records for one client, in the order they were put in."""

    max_events: int
    max_bytes: int
    _items: deque[bytes | Iterator[msgspec.Struct]] = field(
        default_factory=deque[bytes | Iterator[msgspec.Struct]]
    )
    _answer_bytes: int = 0
    _live_events: int = 0
    _live_bytes: int = 0

    def put(self, record: bytes) -> None:
        """Add an answer."""
        self._items.append(record)
        self._answer_bytes += len(record)

    def put_transfer(self, records: Iterator[msgspec.Struct]) -> None:
        """Add a snapshot, whose records are made when they are written."""
        self._items.append(records)

    def put_live(self, record: bytes, count: int = 1) -> bool:
        """Add a live event, or so many as lines; False, and nothing changed, past the limit.

        One that is larger than the limit passes when nothing else waits: nobody is to blame for it.
        """
        events, size = self._live_events + count, self._live_bytes + len(record)
        is_alone = count == 1 and not self._items
        if (events > self.max_events or size > self.max_bytes) and not is_alone:
            return False
        self._items.append(record)
        self._live_events, self._live_bytes = events, size
        return True

    def take(self) -> bytes:
        """What to write next, as lines; empty when nothing waits."""
        lines: list[bytes] = []
        size = 0
        while self._items and size < _WRITE_BYTES:
            item = self._items[0]
            if isinstance(item, bytes):
                self._items.popleft()
                line = item
            elif (record := next(item, None)) is not None:
                line = encode(record)
            else:
                self._items.popleft()
                continue
            lines.append(line)
            size += len(line)
        if not self._items:
            self._answer_bytes = self._live_events = self._live_bytes = 0
        if lines:
            lines.append(b"")
        return b"\n".join(lines)

    def __bool__(self) -> bool:
        return bool(self._items)

    @property
    def is_clogged(self) -> bool:
        """More answers wait than a client should ask more on top of."""
        return self._answer_bytes > self.max_bytes
