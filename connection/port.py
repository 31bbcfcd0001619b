"""The port of AgentConnection: what a user interface may ask, and what it may be told.

User interfaces express intent and never see transports, registries or sessions. The event
vocabulary inside `SessionEvent` is AG-UI; there is no second one. Only the operations that the
daemon can already keep are here; the others come with the adapters.

    ConnectionFailure
    ├── CapabilityUnavailable   the other side does not offer this
    └── Disconnected            the connection ended before the answer came
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from sessions.domain.keys import Cursor


class ConnectionFailure(Exception):
    """Base of what the operations raise."""


class CapabilityUnavailable(ConnectionFailure):
    """The other side does not offer this. Nothing was sent."""


class Disconnected(ConnectionFailure):
    """The connection ended before the answer came. What was asked may have happened."""


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """One AG-UI event, as the bytes it came in, and its place."""

    event: bytes
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class SessionResynced:
    """The view begins anew from this snapshot (a MESSAGES_SNAPSHOT, as bytes)."""

    snapshot: bytes
    cursor: Cursor | None


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """What the connection itself is doing."""

    status: Literal["connected", "reconnecting", "disconnected"]


@dataclass(frozen=True, slots=True)
class Closed:
    """Nothing follows."""

    reason: str


ConnectionEvent = SessionEvent | SessionResynced | ConnectionStatus | Closed
Listener = Callable[[ConnectionEvent], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's decision about one open interrupt."""

    interrupt_id: str
    approved: bool


class AgentConnection(Protocol):
    """One client's connection to one session at a time."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell the listener of every event. Returns what ends that; a failing listener is alone."""
        ...

    async def prompt(self, text: str) -> None:
        """Send a message. Returns when it was admitted, not when the run ends."""
        ...

    async def abort(self) -> None:
        """End the open run, if any."""
        ...

    async def answer(self, answers: Sequence[Answer]) -> None:
        """Decide all open interrupts at once; the first complete answer of all clients counts."""
        ...

    async def aclose(self) -> None:
        """Leave the session, which goes on without this client. Safe to repeat."""
        ...
