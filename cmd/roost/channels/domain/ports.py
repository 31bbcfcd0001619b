"""The ports of a channel. Start reading here.

On one side the messaging service: Receives, Sends, Shows and Announces, together Messaging. The
next service is one adapter of those. On the other side the daemon: Daemon and its Lines, whether it
is this process or another one. Beside them Keeps, the disk, and Reports, for `roost status`.

    MessagingError
      ├── Unreachable      no answer: what was asked may have happened, or not
      ├── TryLater         the service said when
      ├── Refused          the request is wrong, and would be again
      │     └── MarkupRefused   its markup is
      ├── ChatClosed       the person blocked us, or the chat is gone
      ├── Contested        another program receives with our token
      └── BadToken         the service does not know us
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from roost.channels.domain.condition import Condition
from roost.channels.domain.messages import ChatId, Chunk, InFile, MessageId, Outgoing, Update
from sessions.domain.keys import ThreadKey
from sessions.domain.ports import ThreadView


class MessagingError(Exception):
    """Base of what a service fails with. Messages hold no token and no content."""


class Unreachable(MessagingError):
    """No answer. The request may have been carried out all the same."""


class TryLater(MessagingError):
    """Too many requests. Nothing was done."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"too many requests; again in {seconds:g} s")
        self.seconds = seconds


class Refused(MessagingError):
    """The request is wrong; sending it again is useless. Nothing was done."""


class MarkupRefused(Refused):
    """The service can't read the markup. Without it the same text may pass."""


class ChatClosed(MessagingError):
    """Nothing can be sent there until the person writes again."""


class Contested(MessagingError):
    """Another program receives with the same token: each message goes to one of the two."""


class BadToken(MessagingError):
    """The service does not know the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a service bears. Seconds and bytes."""

    edits: bool = True
    """Messages can be changed. Without it a text is sent once it is whole."""
    buttons: bool = True
    """Without them a decision is answered in words."""
    pause: float = 1.05
    """Between two requests for one chat."""
    group_pause: float = 3.1
    growth_pause: float = 2.5
    """Between two edits of a text that still grows."""
    largest_image: int = 10 * 2**20
    """A larger one is sent as a file."""
    largest_file: int = 50 * 2**20


class Receives(Protocol):
    """What people do."""

    async def receive(self, after: int | None) -> Sequence[Update]:
        """Wait for what happened after the update with this number; maybe nothing did.

        Asking confirms everything up to that number: the service forgets it. None: confirm nothing.
        Raises MessagingError.
        """
        ...

    async def fetch(self, file: InFile, largest: int) -> bytes:
        """A file that a person sent. Raises MessagingError, and Refused when it is larger."""
        ...


class Sends(Protocol):
    """What people see."""

    async def send(self, chat: ChatId, message: Outgoing) -> MessageId:
        """Raises MessagingError. After Unreachable, ask `find` before it is sent again."""
        ...

    async def edit(self, chat: ChatId, message_id: MessageId, message: Outgoing) -> None:
        """Make a message be so. That it is so already is no error. Raises MessagingError."""
        ...

    async def find(self, chat: ChatId, place: int, message: Outgoing) -> MessageId | None:
        """The message of ours that came behind the place, if one did. Raises MessagingError."""
        ...


class Shows(Protocol):
    """How things look there. Plain functions."""

    @property
    def limits(self) -> Limits: ...

    def chunks(self, markdown: str) -> Sequence[Chunk]:
        """The messages that a text takes."""
        ...

    def place(self, chat: ChatId, last: Mapping[ChatId, int]) -> int:
        """The end of what is known of a chat: what is sent from now on lies behind it.

        `last` has the newest message that is known, of every chat.
        """
        ...


class Announces(Protocol):
    """What a service has beside messages. A service without it does nothing here."""

    async def acknowledge(self, press: str, words: str) -> None:
        """Answer a press. It is over in seconds, so a failure is not raised."""
        ...

    async def introduce(self, commands: Sequence[tuple[str, str]]) -> str:
        """Offer the commands, and learn our own name there. Raises MessagingError."""
        ...


class Messaging(Receives, Sends, Shows, Announces, Protocol):
    """A messaging service."""


Receive = Callable[[bytes | None], None]
"""Takes a frame; None says that the line is lost. Never waits and never raises."""


class Line(Protocol):
    """A client of the daemon that follows one thread."""

    def send(self, frame: bytes) -> None:
        """Hand over a frame for the thread. Never waits and never raises."""

    def close(self) -> None:
        """Follow no longer. Nothing is received after it."""


@dataclass(frozen=True, slots=True)
class Views:
    """What the daemon knew of all threads, and when it was asked, on our clock.

    A thread that said something after that moment may be elsewhere by now than its view.
    """

    threads: Sequence[ThreadView] = ()
    at: float = -math.inf


class Daemon(Protocol):
    """Where the threads are."""

    def follow(self, thread: ThreadKey, receive: Receive) -> Line:
        """Open a thread, as a client of its own. The first thing received is its snapshot."""
        ...

    def views(self) -> Views:
        """Every thread that is known now, or was when the daemon last answered."""
        ...

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Tell when the views change, or are newer. Returns what ends that."""
        ...


class Keeps(Protocol):
    """The disk."""

    async def save(self, content: bytes) -> None:
        """Replace what is kept, as a whole; it is safe when this returns. Raises OSError."""
        ...


class Reports(Protocol):
    """Whoever wants to know how the channel is."""

    async def report(self, condition: Condition) -> None:
        """Never raises."""
