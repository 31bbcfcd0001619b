"""The conversations of all projects on disk, as the boundary lists them.

An adapter of the connection's `SavedSessions` port over the catalogue that the panel has, too.
Files are looked at in a thread, by one caller at a time.
"""

from collections.abc import Sequence
from typing import Protocol

import anyio
import anyio.from_thread
import anyio.to_thread

from agui.panel.ports import CatalogueRefused, SavedConversation
from connection.execution import Progress, SavedSession
from connection.failures import CommandRefused
from sessions.domain.keys import ThreadKey


class Conversations(Protocol):
    """What is needed of the catalogue. Blocking, and safe to call from any thread."""

    def all(self, progress: Progress | None = None) -> Sequence[SavedConversation]: ...
    def delete(self, thread: ThreadKey) -> None: ...


class SavedSessionFiles:
    """Implements `connection.execution.SavedSessions`."""

    def __init__(self, catalogue: Conversations) -> None:
        self._catalogue = catalogue
        self._looking = anyio.Lock()

    async def list(
        self, project_dir: str | None, progress: Progress | None = None
    ) -> Sequence[SavedSession]:
        def tell(loaded: int, total: int) -> None:
            if progress is not None:
                anyio.from_thread.run_sync(progress, loaded, total)

        async with self._looking:
            found = await anyio.to_thread.run_sync(self._catalogue.all, tell)
        rows = (_row(each) for each in found if each.title or each.name)
        return [row for row in rows if project_dir in (None, row.project_dir)]

    async def delete(self, key: ThreadKey) -> None:
        try:
            async with self._looking:
                await anyio.to_thread.run_sync(self._catalogue.delete, key)
        except CatalogueRefused as exc:
            raise CommandRefused("not_deleted", str(exc)) from exc


def _row(each: SavedConversation) -> SavedSession:
    return SavedSession(
        project_dir=each.project_dir,
        session_id=each.conversation_id,
        name=each.name,
        title=each.title,
        updated_at=each.updated_at,
    )
