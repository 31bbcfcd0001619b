"""The conversations of all projects on disk, as the boundary lists them.

An adapter of the connection's `SavedSessions` port over the catalogue that the panel has, too.
Files are looked at in a thread, by one caller at a time.
"""

from collections.abc import Sequence

import anyio
import anyio.to_thread

from agui.panel.ports import Catalogue, CatalogueRefused, SavedConversation
from connection.failures import CommandRefused
from connection.selectors import active_session_id
from connection.shapes import SessionSummary
from sessions.domain.keys import ThreadKey


class SavedSessionFiles:
    """Implements `connection.execution.SavedSessions`."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._looking = anyio.Lock()

    async def list(self, project_dir: str | None) -> Sequence[SessionSummary]:
        async with self._looking:
            found = await anyio.to_thread.run_sync(self._catalogue.all)
        rows = (_row(each) for each in found if each.title or each.name)
        return [row for row in rows if project_dir in (None, row.project_dir)]

    async def delete(self, key: ThreadKey) -> None:
        try:
            async with self._looking:
                await anyio.to_thread.run_sync(self._catalogue.delete, key)
        except CatalogueRefused as exc:
            raise CommandRefused("not_deleted", str(exc)) from exc


def _row(each: SavedConversation) -> SessionSummary:
    return SessionSummary(
        active_session_id=active_session_id(each.project_dir, each.conversation_id),
        session_id=each.conversation_id,
        project_dir=each.project_dir,
        status="saved",
        name=each.name,
        title=each.title,
        updated_at=each.updated_at,
    )
