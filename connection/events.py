"""What a user interface may be told. The vocabulary inside `SessionEvent` is AG-UI's.

Order: after an attach nothing but what comes after its snapshot. After a lost connection:
`ConnectionStatus("reconnecting")`, one `SessionResynced`, the events that were missed if they were
kept, `ConnectionStatus("connected")`. `Closed` comes once, and nothing after it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from connection.shapes import Json, Replay, SessionState, Snapshot
from sessions.domain.keys import Cursor

CloseReason = Literal["killed", "shutdown", "replaced", "lost", "failed"]


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """One AG-UI event, as the bytes it came in, and its place.

    Without a cursor it was said to this client alone: a RUN_ERROR that ended no run.
    """

    event: bytes
    cursor: Cursor | None


@dataclass(frozen=True, slots=True)
class SessionReplaced:
    """The connection is at another session now, or its history is another one: show this."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class SessionResynced:
    """Something may have been missed: show this, and keep what the person is typing.

    Without a snapshot nothing was missed for good: what was is on its way, so keep what is shown.
    """

    snapshot: Snapshot | None
    replay: Replay


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """The session is in another state: it runs, waits, is idle, has another follower."""

    state: SessionState


@dataclass(frozen=True, slots=True)
class ExtensionUiRequest:
    """An extension wants to ask or show something. Nothing sends one yet."""

    id: str
    method: str
    payload: Json


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """What the connection itself is doing. `error` says why it was lost."""

    status: Literal["connected", "reconnecting"]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatsChanged:
    """The heartbeats of some session are other ones. Nothing sends one yet."""


@dataclass(frozen=True, slots=True)
class Closed:
    """Nothing follows. The message says what happened, what is safe and what to do."""

    reason: CloseReason
    message: str


ConnectionEvent = (
    SessionEvent
    | SessionReplaced
    | SessionResynced
    | SessionStatus
    | ExtensionUiRequest
    | ConnectionStatus
    | HeartbeatsChanged
    | Closed
)
Listener = Callable[[ConnectionEvent], None]
"""Takes an event and returns at once. What it raises is logged, and concerns nobody else."""
