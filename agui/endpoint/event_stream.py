"""One response of server-sent events: framing, keep-alive, and a reader that does not read.

Lines end with LF only, since the usual clients split on nothing else. `id:` is a place in the
thread's events, for those who come back; what has none is not in them.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, cast

import anyio

from agui.uvicorn_http import EXTENSION
from sessions.domain.keys import Cursor

KEEP_ALIVE = b": keep-alive\n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]

Send = Callable[[Any], Awaitable[None]]


class Stalled(Exception):
    """The client took nothing for the whole write deadline, or far too little."""


class Connection(Protocol):
    """What our server lends of a connection."""

    def buffered(self) -> int: ...
    def abort(self) -> None: ...


def framed(events: Sequence[bytes], cursor: Cursor | None = None) -> bytes:
    """Events that came of one line. The last one carries the line's place."""
    if not events:
        return b""
    frames = b"".join([b"data: %b\n\n" % event for event in events[:-1]])
    if cursor is not None:
        frames += b"id: %b:%d\n" % (cursor.generation.encode(), cursor.sequence)
    return b"%bdata: %b\n\n" % (frames, events[-1])


def parse_cursor(value: str | None) -> Cursor | None:
    """A `Last-Event-ID`; None for what none of ours looks like."""
    generation, _, sequence = (value or "").rpartition(":")
    if not generation or not sequence.isdecimal() or len(sequence) > 18:
        return None
    return Cursor(cast(Any, generation), int(sequence))


class EventStream:
    """Written by one task, from the status on."""

    def __init__(self, scope: dict[str, Any], send: Send, write_timeout: float) -> None:
        self._connection = cast("Connection | None", scope.get("extensions", {}).get(EXTENSION))
        self._send = send
        self._write_timeout = write_timeout

    async def begin(self) -> None:
        """Say that events will follow. Raises Stalled."""
        await self._write({"type": "http.response.start", "status": 200, "headers": _HEADERS})

    async def write(self, frames: bytes, is_given_up: Callable[[], bool] = lambda: False) -> None:
        """Write whole frames. Returns when most of what was written before is taken.

        Raises Stalled, also for who takes a little now and then, and was given up meanwhile.
        """
        if frames:
            message = {"type": "http.response.body", "body": frames, "more_body": True}
            await self._write(message, is_given_up)

    async def end(self) -> None:
        """Nothing more follows. Raises Stalled."""
        await self._write({"type": "http.response.body", "body": b"", "more_body": False})

    def abort(self) -> None:
        """Cut the connection, if the server lends it; else it is cut when its request returns."""
        if self._connection is not None:
            self._connection.abort()

    async def _write(
        self, message: dict[str, Any], is_given_up: Callable[[], bool] = lambda: False
    ) -> None:
        while True:
            before = self._buffered()
            with anyio.move_on_after(self._write_timeout) as deadline:
                # The server waits for the client first, and writes then: it can be asked again.
                await self._send(message)
            if not deadline.cancelled_caught:
                return
            if self._buffered() >= before or is_given_up():
                raise Stalled

    def _buffered(self) -> int:
        return 0 if self._connection is None else self._connection.buffered()
