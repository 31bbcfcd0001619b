"""A stand-in for the registry: it records what the binding tells it, and can answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio

from sessions.domain.keys import Cursor, Generation, ThreadKey, ThreadOptions
from sessions.domain.ports import Client, Threads, ThreadView
from sessions.domain.ring import Attachment, Coverage


def live(sequence: int) -> Cursor:
    """The cursor of a live event."""
    return Cursor(Generation("g"), sequence)


@dataclass(slots=True)
class FakeThreads:
    """Keeps frames and clients; `wait_for` lets a test wait for what it expects."""

    handled: list[tuple[Client, bytes]] = field(default_factory=list[tuple[Client, bytes]])
    detached: list[Client] = field(default_factory=list[Client])
    known: tuple[ThreadView, ...] = ()
    worker_tokens: dict[str, ThreadKey] = field(default_factory=dict[str, ThreadKey])
    on_frame: Callable[[Client, bytes], None] = lambda client, frame: None
    _news: anyio.Event = field(default_factory=anyio.Event)

    def handle(self, client: Client, frame: bytes) -> None:
        self.handled.append((client, frame))
        self.on_frame(client, frame)
        self._tell()

    def detach(self, client: Client) -> None:
        self.detached.append(client)
        self._tell()

    def attach(
        self,
        client: Client,
        thread: ThreadKey,
        cursor: Cursor | None = None,
        *,
        options: ThreadOptions | None = None,
        last_messages: int | None = None,
    ) -> Attachment:
        return Attachment(coverage=Coverage.COMPLETE, current=None)

    def view(self, thread: ThreadKey) -> ThreadView | None:
        return None

    def views(self) -> Sequence[ThreadView]:
        return self.known

    def watch(self, watcher: Callable[[ThreadKey, ThreadView | None], None]) -> Callable[[], None]:
        return lambda: None

    def worker_with(self, token: str) -> ThreadKey | None:
        return self.worker_tokens.get(token)

    @property
    def frames(self) -> list[bytes]:
        return [frame for _, frame in self.handled]

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(120):
            while not condition():
                self._news = anyio.Event()
                await self._news.wait()

    async def wait_for_client(self) -> Client:
        """The client behind the first frame."""
        await self.wait_for(lambda: bool(self.handled))
        return self.handled[0][0]

    def _tell(self) -> None:
        self._news.set()


_conforms: Callable[[], Threads] = FakeThreads
