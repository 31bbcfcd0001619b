"""What waits to be written to one client, and when it is too much. Pure; nothing here waits.

Live events are limited, because a client that does not read them can come back for a snapshot.
Answers to the client itself (replies, errors, the frames of a join) are not: they were asked for,
and without them it would come back for ever. What bounds those is `clogged`: a client that lets
its answers pile up is not read from until it took them.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Outbox:
    """Frames for one client, in the order they were put in."""

    max_frames: int
    max_bytes: int
    _frames: list[bytes] = field(default_factory=list[bytes])
    _bytes: int = 0
    _live_frames: int = 0
    _live_bytes: int = 0

    def put_answer(self, frame: bytes) -> None:
        """Add a frame that is exempt from the limits."""
        self._frames.append(frame)
        self._bytes += len(frame)

    def put_live(self, frame: bytes, events: int = 1) -> bool:
        """Add a live event, or several in a row; False, and nothing changed, past a limit.

        One that is larger than the limit passes when nothing else waits: nobody is to blame for it.
        """
        size = len(frame)
        count, total = self._live_frames + events, self._live_bytes + size
        if (count > self.max_frames or total > self.max_bytes) and self._frames:
            return False
        self._frames.append(frame)
        self._bytes += size
        self._live_frames = count
        self._live_bytes = total
        return True

    def take(self) -> list[bytes]:
        """Everything that waits, in order; then nothing does."""
        frames = self._frames
        self._frames = []
        self._bytes = self._live_frames = self._live_bytes = 0
        return frames

    def __bool__(self) -> bool:
        """Does anything wait?"""
        return bool(self._frames)

    @property
    def clogged(self) -> bool:
        """More waits than a client should ask more on top of."""
        return self._bytes > self.max_bytes
