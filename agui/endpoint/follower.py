"""A client behind an HTTP request, as the registry sees it: it takes frames, and a task reads them.

Live events are limited, as those of every client are; a request that does not read them is cut. The
registry calls `deliver` in the middle of its own decisions, so nothing here waits or raises.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio

from sessions.domain.keys import Cursor, ThreadKey

Frame = tuple[bytes, Cursor | None]


class Ended(Exception):
    """There will be no more frames: the daemon stops, or the request did not keep up."""


@dataclass(slots=True, eq=False)
class HttpFollower:
    """One request that follows a thread."""

    inside: ThreadKey | None
    max_frames: int
    max_bytes: int
    has_ended: str | None = None
    """Why there are no more frames, in words for the log."""
    is_writing: bool = False
    """Its reader waits for the network: only then what piles up is the client's fault."""
    _frames: deque[Frame] = field(default_factory=deque[Frame])
    _live: int = 0
    _live_bytes: int = 0
    _news: anyio.Event = field(default_factory=anyio.Event)

    def deliver(self, frame: bytes, cursor: Cursor | None) -> None:
        if cursor is not None:
            self.deliver_row(((frame, cursor),))
        elif self.has_ended is None:
            self._frames.append((frame, None))
            self._news.set()

    def deliver_row(self, events: Sequence[tuple[bytes, Cursor]]) -> None:
        if self.has_ended is not None:
            return
        self._live += len(events)
        self._live_bytes += sum([len(frame) for frame, _ in events])
        too_much = self._live > self.max_frames or self._live_bytes > self.max_bytes
        if too_much and self.is_writing:
            self.end("it did not keep up with its events")
            return
        self._frames += events
        self._news.set()

    def end(self, reason: str) -> None:
        """Take no more frames, and drop what waits."""
        if self.has_ended is None:
            self.has_ended = reason
            self._frames.clear()
            self._news.set()

    @property
    def waiting(self) -> int:
        """How many frames wait."""
        return len(self._frames)

    def take(self) -> list[Frame]:
        """All that waits, in order."""
        frames = list(self._frames)
        self._frames.clear()
        self._live = self._live_bytes = 0
        return frames

    def take_answers(self, is_one: Callable[[bytes], bool]) -> list[bytes]:
        """What waits, up to the first live event or the first frame that is not one of them."""
        answers: list[bytes] = []
        while self._frames and self._frames[0][1] is None and is_one(self._frames[0][0]):
            answers.append(self._frames.popleft()[0])
        return answers

    async def next(self) -> Frame:
        """The next frame. Raises Ended."""
        await self.wait()
        frame, cursor = self._frames.popleft()
        if cursor is not None:
            self._live -= 1
            self._live_bytes -= len(frame)
        return frame, cursor

    async def wait(self) -> None:
        """Until there is a frame. Raises Ended."""
        while not self._frames:
            if self.has_ended is not None:
                raise Ended(self.has_ended)
            self._news = anyio.Event()
            await self._news.wait()
