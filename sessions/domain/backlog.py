"""What waits to be read by a daemon that is slow: in memory, then in a file, then not at all.

"Not at all" is the caller's part: while `is_full`, it reads no more, and the pipe holds the worker
up as it would without us.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

MIB = 1024 * 1024

Piece = bytes | memoryview
"""What is left of a long line that is written bit by bit is looked at, and never copied."""


def drop_front(pieces: deque[Piece], count: int) -> None:
    """Take so many bytes out at the front."""
    while count:
        piece = pieces.popleft()
        if len(piece) > count:
            pieces.appendleft(memoryview(piece)[count:])
            return
        count -= len(piece)


class Spool(Protocol):
    """First in, first out, outside of memory."""

    def append(self, data: bytes) -> None:
        """Keep all of it or, raising OSError, nothing: it is full, or the disk is."""

    def take(self) -> bytes:
        """The oldest bytes, as many as are handy; empty when there are none."""
        ...

    def __len__(self) -> int: ...

    def clear(self) -> None: ...


@dataclass(slots=True)
class Backlog:
    """Bytes on their way out, in order: the oldest in memory, then the file's, then the latest.

    The latest are what the file did not take.
    """

    spool: Spool
    memory_limit: int = 4 * MIB
    _memory: "deque[Piece]" = field(default_factory=lambda: deque())
    _latest: "deque[Piece]" = field(default_factory=lambda: deque())
    _held: int = 0

    @property
    def is_full(self) -> bool:
        """Put no more in, if you can help it: what is put in is kept all the same."""
        return bool(self._latest)

    def __len__(self) -> int:
        return self._held + len(self.spool)

    def put(self, *pieces: bytes) -> None:
        """Append; the pieces stay together."""
        size = sum(map(len, pieces))
        if self._latest:
            self._latest.extend(pieces)
        elif len(self.spool) or (self._held and self._held + size > self.memory_limit):
            try:
                self.spool.append(b"".join(pieces))
            except OSError:
                self._latest.extend(pieces)
            else:
                return
        else:
            self._memory.extend(pieces)
        self._held += size

    def pieces(self) -> "deque[Piece]":
        """What to write next, the oldest first; say with `written` how much of it went."""
        if not self._memory:
            if len(self.spool):
                data = self.spool.take()
                self._memory.append(data)
                self._held += len(data)
            else:
                self._memory, self._latest = self._latest, self._memory
        return self._memory

    def written(self, count: int) -> None:
        """So many bytes of the pieces are out."""
        self._held -= count
        drop_front(self._memory, count)

    def clear(self) -> None:
        """Nobody reads it any more."""
        self._memory.clear()
        self._latest.clear()
        self._held = 0
        self.spool.clear()
