"""The daemon that this process is: each line is a client of the registry, without a socket."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio

from roost.channels.domain.ports import Line, Receive, Views
from sessions.domain.frames import resume_conversation
from sessions.domain.keys import Cursor, ThreadKey
from sessions.domain.ports import Threads


@dataclass(frozen=True, slots=True)
class RegistryDaemon:
    """Implements `Daemon` over the registry's driving side."""

    threads: Threads
    name: str
    """What the clients are called where they are shown to people."""

    def follow(self, thread: ThreadKey, receive: Receive) -> Line:
        line = _RegistryLine(self.threads, receive, self.name)
        line.send(resume_conversation(thread.project_dir, thread.conversation_id))
        return line

    def views(self) -> Views:
        return Views(self.threads.views(), anyio.current_time())

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self.threads.watch(lambda key, view: changed())


@dataclass(slots=True, eq=False)
class _RegistryLine:
    threads: Threads
    receive: Receive
    name: str
    inside: None = None
    """A person's client: it may decide."""

    def send(self, frame: bytes) -> None:
        self.threads.handle(self, frame)

    def close(self) -> None:
        self.threads.detach(self)

    def deliver(self, frame: bytes, cursor: Cursor | None) -> None:
        self.receive(frame)

    def deliver_row(self, events: Sequence[tuple[bytes, Cursor]]) -> None:
        for frame, _ in events:
            self.receive(frame)
