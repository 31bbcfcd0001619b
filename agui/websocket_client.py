"""A client behind a WebSocket, as the registry sees it: `deliver`, and nothing that waits.

Decides when a client is hung up on. The registry calls `deliver` in the middle of its own
decisions, so a hang-up only marks the client and cuts its connection; the task that owns the
connection tells the registry when it notices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio

from agui.hello import Hello
from agui.outbox import Outbox
from agui.wire import Stalled, Wire
from sessions.domain.keys import Cursor, ThreadKey

GOING_AWAY = 1001
_LONGEST_NAME = 80


@dataclass(slots=True, eq=False)
class WebSocketClient:
    """One connection that said hello. `write_out` is run by the task that owns it."""

    hello: Hello
    wire: Wire
    outbox: Outbox
    scope: anyio.CancelScope
    """Everything that is done for the connection; cancelled by a hang-up."""
    inside: ThreadKey | None = None
    """The thread whose worker it comes from: it decides nothing (see `agui.peers`)."""
    hung_up: str | None = None
    """Why we cut it, in words for the log."""
    close_code: int = GOING_AWAY
    """What its stream is closed with at its `end`."""
    _takes_no_more: bool = False
    _idle: bool = False
    """`write_out` waits for news: only then is waking it worth the price."""
    _encode: Callable[[bytes], bytes] = field(init=False)
    _news: anyio.Event = field(default_factory=anyio.Event)
    _taken: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        self._encode = self.wire.encode

    @property
    def name(self) -> str:
        """What it calls itself in its hello, for people."""
        return (
            self.hello.attributes.get("name", "")[:_LONGEST_NAME] or f"a {self.hello.kind} client"
        )

    def deliver(self, frame: bytes, cursor: Cursor | None) -> None:
        if self._takes_no_more:
            return
        encoded = self._encode(frame)
        if cursor is None:
            self.outbox.put_answer(encoded)
        elif not self.outbox.put_live(encoded) and not self._made_room(encoded):
            self.hang_up("it did not keep up with its events")
            return
        if self._idle:
            self._wake()

    def deliver_row(self, events: Sequence[tuple[bytes, Cursor]]) -> None:
        if self._takes_no_more:
            return
        frames = self.wire.encode_row(events)
        if frames is None:
            for frame, cursor in events:
                self.deliver(frame, cursor)
            return
        count = len(events)
        if self._idle and not self.outbox and self.wire.keeps_up():
            # No task has to wake for it, but to watch over a client that this was too much for.
            self.wire.write_now([frames])
            if not self.wire.keeps_up():
                self._wake()
            return
        if not self.outbox.put_live(frames, count) and not self._made_room(frames, count):
            self.hang_up("it did not keep up with its events")
        elif self._idle:
            self._wake()

    def send(self, frame: bytes) -> None:
        """Answer this client only."""
        self.deliver(frame, None)

    def hang_up(self, reason: str) -> None:
        """Cut the connection. Does nothing the second time."""
        if self.hung_up is None:
            self.hung_up = reason
            self._takes_no_more = True
            self.outbox.take()
            self.wire.abort()
            self.scope.cancel()

    def end(self, close_code: int = GOING_AWAY) -> None:
        """Take no more frames, and let `write_out` return once those it has are written."""
        if not self._takes_no_more:
            self.close_code = close_code
        self._takes_no_more = True
        self._wake()

    async def write_out(self) -> None:
        """Write what is delivered, everything that waits at once, until `end` or a hang-up."""
        while self.outbox or not self._takes_no_more:
            if not self.outbox:
                self._news = anyio.Event()
                self._idle = True
                await self._news.wait()
            try:
                await self.wire.write(self.outbox.take())
            except Stalled:
                self.hang_up("it took nothing for the whole write deadline")
                return
            self._taken.set()

    async def wait_unclogged(self) -> None:
        """Wait while the answers to this client pile up unread."""
        while self.outbox.clogged:
            self._taken = anyio.Event()
            await self._taken.wait()

    def _wake(self) -> None:
        self._idle = False
        self._news.set()

    def _made_room(self, encoded: bytes, events: int = 1) -> bool:
        """A burst in one turn of the loop is no lag: write early, if the client keeps up."""
        if not self.wire.keeps_up():
            return False
        self.wire.write_now(self.outbox.take())
        return self.outbox.put_live(encoded, events)
