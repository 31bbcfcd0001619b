"""A panel with saved conversations and sessions that are in memory only."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agui.panel.entries import key_of
from agui.panel.panel import Panel
from agui.panel.ports import Catalogue, CatalogueRefused, SavedConversation, SessionStore
from sessions.domain.keys import ThreadKey
from sessions.domain.ports import Threads
from tests.agui.scenes import TOKEN


def saved(id_: str = "c1", **changed: object) -> SavedConversation:
    """A conversation on the disk."""
    found = SavedConversation(
        project_dir="/p",
        conversation_id=id_,
        slug="p-12345678",
        title="water the plants",
        name=None,
        updated_at="2026-05-04T10:00:00.000Z",
        outcome="success",
        outcome_at="2026-05-04T10:00:00.000Z",
    )
    return replace(found, **changed)  # type: ignore[arg-type]


@dataclass(slots=True)
class FakeCatalogue:
    """Keeps what it is given, as the disk would."""

    kept: dict[ThreadKey, SavedConversation] = field(
        default_factory=dict[ThreadKey, SavedConversation]
    )
    deleted: dict[ThreadKey, SavedConversation] = field(
        default_factory=dict[ThreadKey, SavedConversation]
    )

    def keep(self, conversation: SavedConversation) -> None:
        self.kept[key_of(conversation)] = conversation

    def all(self) -> Sequence[SavedConversation]:
        return list(self.kept.values())

    def one(self, thread: ThreadKey) -> SavedConversation | None:
        return self.kept.get(thread)

    def attachment(self, thread: ThreadKey, name: str) -> bytes | None:
        return b"a picture" if thread in self.kept and name == "attachment-1.png" else None

    def delete(self, thread: ThreadKey) -> None:
        if thread not in self.kept:
            raise CatalogueRefused("There is nothing saved of this conversation.")
        self.deleted[thread] = self.kept.pop(thread)

    def restore(self, thread: ThreadKey) -> None:
        if thread not in self.deleted:
            raise CatalogueRefused("Nothing is kept any more of this conversation.")
        self.kept[thread] = self.deleted.pop(thread)


@dataclass(slots=True)
class MemoryStore:
    """A place for sessions; `full` is a disk without room."""

    hashes: Sequence[str] = ()
    full: bool = False

    def load(self) -> Sequence[str]:
        return self.hashes

    def save(self, hashes: Sequence[str]) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.hashes = tuple(hashes)


def a_panel(
    threads: Threads, catalogue: Catalogue | None = None, store: SessionStore | None = None
) -> Panel:
    return Panel(threads, catalogue or FakeCatalogue(), store or MemoryStore(), TOKEN)
