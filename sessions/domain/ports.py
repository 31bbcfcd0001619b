"""The ports of the sessions hexagon. Start reading here.

A frame is one JSON object from or to a client, a line one from or to a worker, both as the bytes
they arrived in; the registry forwards those bytes and never rebuilds them. No adapter, framework
or event loop is named below. Called by the registry: Client, Worker, LaunchWorker, FindSurvivors,
BrowserRelay.
Called by the adapters that clients come through: Threads.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sessions.domain.kept import Kept, Note
from sessions.domain.keys import Cursor, ThreadKey, ThreadOptions
from sessions.domain.ring import Attachment


class SessionsError(Exception):
    """Base of what this context raises: LaunchFailed, WorkerLost."""


class LaunchFailed(SessionsError):
    """No worker came to be. The message names the directory and the cause, for clients to read."""


class WorkerLost(SessionsError):
    """The worker can't take the line: gone, stopping, or not reading. The message says which."""


class Client(Protocol):
    """Someone frames are delivered to. Compared by identity."""

    @property
    def inside(self) -> ThreadKey | None:
        """The thread from whose worker this client comes; None for a person's client.

        Such a client may open threads of its own below that one, and talk to those. It decides
        nothing: no interrupt, no approval, no setting.
        """
        ...

    def deliver(self, frame: bytes, cursor: Cursor | None) -> None:
        """Take the frame, or hang up. Never waits and never raises.

        A frame with a cursor is a live event of the followed thread. One without is an answer to
        this client (a reply, an error, a frame of a join) and is exempt from the outbox limits.
        The same ``bytes`` object goes to every follower.
        """

    def deliver_row(self, events: Sequence[tuple[bytes, Cursor]]) -> None:
        """Take live events that came in a row, as `deliver` would one by one.

        The same sequence goes to every follower, so what is made of it can be shared.
        """


@runtime_checkable
class Named(Protocol):
    """A client that says to people what it is, in words that follow "answered in"."""

    @property
    def name(self) -> str: ...


TakeLines = Callable[[Sequence[bytes]], None]
"""Called from the event loop, between two of its turns and not by any task."""


class Worker(Protocol):
    """The process that runs one thread's agent."""

    @property
    def pid(self) -> int: ...

    def send(self, line: bytes) -> None:
        """Put one line (no newline in it) into the worker's bounded inbox. Raises WorkerLost."""

    def stop(self, grace: float) -> None:
        """Ask the worker to end, and see to it after ``grace`` seconds. Returns at once.

        A later call with a shorter grace hurries. The lines go on until the worker is gone.
        """

    def remember(self, note: bytes, idle_since: float | None) -> None:
        """Leave a note with the worker, for the daemon that looks after it next. The last counts.

        With it goes since when nobody needs the worker, if nobody does. Nothing comes of either
        where workers end with their daemon.
        """

    async def pump(self, take: TakeLines) -> None:
        """Hand over the lines until the worker is gone.

        They come in the batches they were read in: non-empty, without their newlines. What
        ``take`` raises ends the call, and is raised. Cancellation loses no line: another call
        goes on behind the last one that was taken.
        """

    def exit_reason(self) -> str:
        """Why the lines ended, in words that follow "the worker": "exited with code 1"."""
        ...


class LaunchWorker(Protocol):
    """Start a worker that lives as long as the ``async with`` block. Raises LaunchFailed.

    The token is the worker's own: clients that show it come from inside that worker.
    """

    def __call__(
        self, thread: ThreadKey, options: ThreadOptions, token: str
    ) -> AbstractAsyncContextManager[Worker]: ...


@dataclass(frozen=True, slots=True)
class Survivor:
    """A worker that an earlier daemon launched, and that runs."""

    thread: ThreadKey
    kept: Kept
    note: Note
    worker: AbstractAsyncContextManager[Worker]
    """To be entered once; leaving it ends the worker, as with a launched one."""


class FindSurvivors(Protocol):
    """Find the workers that outlived their daemon. Takes no longer than its own deadline."""

    async def __call__(self) -> Sequence[Survivor]: ...


class BrowserRelay(Protocol):
    """Runs one browser command at a time, for all threads."""

    async def forward(self, command: bytes) -> bytes:
        """Exactly one ``browser_result`` with the command's id. A failure is a result, too.

        Never raises, and takes no longer than the command's own deadline.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadView:
    """What anybody may know of a thread, at one moment."""

    project_dir: str
    conversation_id: str
    status: str
    """launching, idle, running, waiting (for a person), stopping or stopped."""
    run_id: str | None
    interrupts: tuple[str, ...]
    followers: int
    worker_pid: int | None
    generation: str | None
    since: float
    """When the status began, on the registry's monotonic clock, in seconds."""
    is_answering: bool = False
    """An answer to the interrupts is with the worker: they are closed when its run begins."""
    answered_by: str | None = None
    """What answered the last decision, as it calls itself; None: it does not say."""
    parent: str | None = None
    """The conversation of the thread that opened this one as its subagent, as it was recorded."""
    cursor: Cursor | None = None
    """Where its events are now; None while it has no worker."""


Watcher = Callable[[ThreadKey, ThreadView | None], None]
"""Is told of a thread's new view, or None when it was forgotten. Never waits and never raises."""


class Threads(Protocol):
    """The driving side. All of it is plain functions: nothing here waits."""

    def handle(self, client: Client, frame: bytes) -> None:
        """Decide what a frame from this client means. Bad frames never raise."""

    def detach(self, client: Client) -> None:
        """Forget the client, at once. Unknown clients are fine. A run goes on without it."""

    def attach(
        self,
        client: Client,
        thread: ThreadKey,
        cursor: Cursor | None = None,
        *,
        options: ThreadOptions | None = None,
        last_messages: int | None = None,
    ) -> Attachment:
        """Make the client follow the thread, as `resume_conversation` does, from where it left off.

        When the events after the cursor are all still here they follow and no snapshot is sent;
        else the thread is opened as usual. The answer says which. Whoever can do with a part of a
        long history asks for so many of its last messages; a worker may send more.
        """
        ...

    def view(self, thread: ThreadKey) -> ThreadView | None:
        """One thread, or None when the registry does not know it now."""
        ...

    def views(self) -> Sequence[ThreadView]:
        """Every thread the registry knows now."""
        ...

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Tell the watcher of every change of a view. Returns what ends that."""
        ...

    def worker_with(self, token: str) -> ThreadKey | None:
        """The thread whose present worker was given this token. Compared in constant time."""
        ...
