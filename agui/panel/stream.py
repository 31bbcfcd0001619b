"""A feed as an HTTP answer. It ends when its page leaves or is stuck, and when it is ended."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, cast

import anyio
import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agui.endpoint.event_stream import EventStream, Stalled
from agui.panel.feed import FeedStream

log = structlog.get_logger()


class FeedResponse(Response):
    """Sends what the stream says. A page that takes nothing for the whole deadline is cut off.

    Cut off, not closed: closing waits for what is buffered, and a stuck page takes none of it.
    """

    def __init__(
        self, stream: Callable[[], AbstractContextManager[FeedStream]], write_timeout: float
    ) -> None:
        super().__init__()
        self._stream = stream
        self._write_timeout = write_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        events = EventStream(cast("dict[str, Any]", scope), send, self._write_timeout)
        with self._stream() as stream:
            async with anyio.create_task_group() as tasks:

                async def leave_with_the_page() -> None:
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    tasks.cancel_scope.cancel()

                tasks.start_soon(leave_with_the_page)
                await _send(stream, events)
                tasks.cancel_scope.cancel()


async def _send(stream: FeedStream, events: EventStream) -> None:
    try:
        await events.begin()
        piece: bytes | None = await stream.first()
        while piece is not None:
            await events.write(piece)
            piece = await stream.next()
        await events.end()
    except Stalled:
        log.warning("panel_feed_cut", reason="the page does not read")
        events.abort()
