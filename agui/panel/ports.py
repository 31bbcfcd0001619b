"""What the panel needs of others: the saved conversations, and a place for its sessions.

Every method of both ports blocks on the disk: call them off the event loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from sessions.domain.keys import ThreadKey

Outcome = Literal["success", "interrupt", "cancelled", "error", "interrupted", "open"]


class CatalogueRefused(Exception):
    """It was not done, and nothing changed. The message says why, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedConversation:
    """What a list says of one conversation on the disk. Stamps are RFC 3339."""

    project_dir: str
    conversation_id: str
    slug: str
    """The project's folder among the artifacts."""
    title: str
    """How it begins; empty before anything was said."""
    name: str | None
    """What a person called it."""
    updated_at: str
    outcome: Outcome | None
    """How its last run ended; `open` when the file does not say so yet. None: no run yet."""
    outcome_at: str | None


class Catalogue(Protocol):
    """The saved conversations of all projects, read from the disk without any worker."""

    def all(self) -> Sequence[SavedConversation]:
        """Newest first. A file that can't be read is left out."""
        ...

    def one(self, thread: ThreadKey) -> SavedConversation | None: ...

    def attachment(self, thread: ThreadKey, name: str) -> bytes | None:
        """A file that came with a message, by the name it was saved under; None: no such file."""
        ...

    def delete(self, thread: ThreadKey) -> None:
        """Put it aside, for `restore`. Raises CatalogueRefused."""
        ...

    def restore(self, thread: ThreadKey) -> None:
        """Put back what `delete` put aside. Raises CatalogueRefused."""
        ...


class SessionStore(Protocol):
    """Keeps the hashes of the panel's sessions across the daemon's restarts."""

    def load(self) -> Sequence[str]: ...

    def save(self, hashes: Sequence[str]) -> None:
        """Replace them as a whole. Raises OSError."""
        ...
