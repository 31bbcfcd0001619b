"""What goes between a person's chat and us, in no service's own words. Values only."""

from dataclasses import dataclass
from typing import NewType

import msgspec

ChatId = NewType("ChatId", int)
MessageId = NewType("MessageId", int)


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one message shows: the text, and the service's own markup of it."""

    plain: str
    markup: str


class Button(msgspec.Struct, frozen=True):
    """A button, and what pressing it means to us. The service only learns a short name of it."""

    label: str
    action: str


class OutFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file to send: a text of ours, or a file on this machine."""

    name: str
    text: str | None = None
    path: str | None = None
    is_image: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One message as it should be seen."""

    chunk: Chunk
    as_plain: bool = False
    """Without markup: the service did not take it."""
    buttons: tuple[tuple[tuple[str, str], ...], ...] = ()
    """Rows of labels and the names that a press comes back with, at most 64 bytes each."""
    reply_to: MessageId | None = None
    silent: bool = False
    file: OutFile | None = None


class InFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a person sent, by the service's own id of it."""

    id: str
    name: str
    mime_type: str
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who wrote or pressed: the chat decides whether they may."""

    chat: ChatId
    person: int | None
    """None: nobody in particular, such as an anonymous admin or a channel."""
    name: str
    is_group: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A person wrote a message."""

    sender: Sender
    id: MessageId
    text: str
    reply_to: MessageId | None = None
    files: tuple[InFile, ...] = ()
    unsupported: str | None = None
    """What kind of message it is, when we can't take that kind: "voice messages"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressed:
    """A person pressed a button under one of our messages."""

    sender: Sender
    id: str
    message: MessageId | None
    name: str


@dataclass(frozen=True, slots=True)
class Update:
    """One thing that happened at the service. Numbers grow; a number is confirmed by the next."""

    number: int
    what: Written | Pressed | None
    """None: nothing that is for us."""
