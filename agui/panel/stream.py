"""A feed as an HTTP answer that ends when its page leaves, or when it is ended."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agui.panel.feed import FeedStream

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]


class FeedResponse(Response):
    """Sends what the stream says. A page that takes nothing for the whole deadline is left."""

    def __init__(
        self, stream: Callable[[], AbstractContextManager[FeedStream]], write_timeout: float
    ) -> None:
        super().__init__()
        self._stream = stream
        self._write_timeout = write_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._stream() as stream:
            async with anyio.create_task_group() as tasks:

                async def leave_with_the_page() -> None:
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    tasks.cancel_scope.cancel()

                tasks.start_soon(leave_with_the_page)
                await self._send(stream, send)
                tasks.cancel_scope.cancel()

    async def _send(self, stream: FeedStream, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        piece: bytes | None = await stream.first()
        while piece is not None:
            with anyio.move_on_after(self._write_timeout) as deadline:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            if deadline.cancelled_caught:
                return
            piece = await stream.next()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
