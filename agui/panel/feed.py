"""The feed of changes: every row of the list once, then each one that changes, to each open page.

A stream keeps which threads changed, not what each change was: a page that does not read for a
while is sent the newest state of each once, and nothing grows meanwhile.
"""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import anyio
import anyio.to_thread

from agui.panel.entries import Clocks, entry, merged
from agui.panel.ports import Catalogue
from sessions.domain.keys import ThreadKey
from sessions.domain.ports import Threads, ThreadView

# A page that hears nothing for three times this long knows that the connection is dead.
HEARTBEAT = 15.0
_COMMENT = b": still here\n\n"


class FeedStream:
    """One page's view of the changes. `next` until it answers None."""

    def __init__(self, threads: Threads, catalogue: Catalogue, session: str | None) -> None:
        self.session = session
        self._threads = threads
        self._catalogue = catalogue
        self._changed: dict[ThreadKey, None] = {}
        self._news = anyio.Event()
        self._is_over = False

    def mark(self, key: ThreadKey) -> None:
        """Say that a thread changed. Never waits."""
        self._changed[key] = None
        self._news.set()

    def end(self) -> None:
        self._is_over = True
        self._news.set()

    async def first(self) -> bytes:
        """Every row there is. What changes meanwhile comes after it."""
        saved = await anyio.to_thread.run_sync(self._catalogue.all)
        return _event("threads", merged(self._threads.views(), saved, _clocks()))

    async def next(self) -> bytes | None:
        """The rows that changed, or a sign of life; None when the stream is over."""
        with anyio.move_on_after(HEARTBEAT):
            await self._news.wait()
        self._news = anyio.Event()
        if self._is_over:
            return None
        changed, self._changed = list(self._changed), {}
        rows = [await self._row(key) for key in changed]
        return b"".join(rows) or _COMMENT

    async def _row(self, key: ThreadKey) -> bytes:
        saved = await anyio.to_thread.run_sync(self._catalogue.one, key)
        view = _view(self._threads, key)
        if view is None and saved is None:
            return _event("gone", {"project_dir": key.project_dir, "id": key.conversation_id})
        return _event("thread", entry(key, view, saved, _clocks()))


class Feed:
    """All open streams."""

    def __init__(self, threads: Threads, catalogue: Catalogue) -> None:
        self._threads = threads
        self._catalogue = catalogue
        self._streams: set[FeedStream] = set()
        self._unwatch: Callable[[], None] = lambda: None

    @contextmanager
    def stream(self, session: str | None) -> Generator[FeedStream]:
        """A stream of what changes while the block runs."""
        opened = FeedStream(self._threads, self._catalogue, session)
        if not self._streams:
            self._unwatch = self._threads.watch(self._saw)
        self._streams.add(opened)
        try:
            yield opened
        finally:
            self._streams.discard(opened)
            if not self._streams:
                self._unwatch()

    def announce(self, key: ThreadKey) -> None:
        """Say that something else than its view changed of a thread."""
        for stream in self._streams:
            stream.mark(key)

    def end(self, is_over: Callable[[str | None], bool] = lambda session: True) -> None:
        """End the streams of the sessions that the rule names; by default all."""
        for stream in self._streams:
            if is_over(stream.session):
                stream.end()

    def _saw(self, key: ThreadKey, view: ThreadView | None) -> None:
        self.announce(key)


def _view(threads: Threads, key: ThreadKey) -> ThreadView | None:
    with suppress(StopIteration):
        return next(
            view
            for view in threads.views()
            if (view.project_dir, view.conversation_id) == (key.project_dir, key.conversation_id)
        )
    return None


def _clocks() -> Clocks:
    return Clocks(anyio.current_time(), datetime.now(UTC))


def _event(kind: str, data: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
