"""The conversations of all projects on disk, as the boundary lists them.

An adapter of the connection's `SavedSessions` port over the agent's conversation files. Files are
looked at in a thread; what was read of a folder is kept, so that a second look is cheap.
"""

from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from agent.infrastructure.conversation_list import ConversationList
from agent.infrastructure.jsonl_history import file_stem
from agent.infrastructure.lease import ConversationInUse, lease
from agent.infrastructure.project_files import recent_file
from connection.failures import CommandRefused, refused
from connection.selectors import active_session_id
from connection.shapes import SessionSummary
from roost.home import RoostHome
from sessions.domain.keys import ThreadKey


class _Begun(msgspec.Struct):
    kind: str = ""
    project_dir: str | None = None


class SavedSessionFiles:
    """Implements `connection.execution.SavedSessions`."""

    def __init__(self, home: RoostHome) -> None:
        self._home = home
        self._lists: dict[Path, ConversationList] = {}
        self._dirs: dict[Path, str] = {}
        self._looking = anyio.Lock()

    async def list(self, project_dir: str | None) -> Sequence[SessionSummary]:
        async with self._looking:
            return await anyio.to_thread.run_sync(self._list, project_dir)

    async def rename(self, key: ThreadKey, name: str) -> None:
        raise CommandRefused(
            "not_offered", "a saved session is renamed by opening it and naming it there"
        )

    async def delete(self, key: ThreadKey) -> None:
        await anyio.to_thread.run_sync(self._delete, key)

    def _list(self, project_dir: str | None) -> Sequence[SessionSummary]:
        if project_dir is not None:
            folders = [self._home.conversations(project_dir)]
        else:
            folders = sorted(self._home.projects.glob("*/conversations"))
        found = [row for folder in folders for row in self._rows(folder, project_dir)]
        return sorted(found, key=lambda row: row.updated_at or "", reverse=True)

    def _rows(self, folder: Path, project_dir: str | None) -> Sequence[SessionSummary]:
        known = self._lists.get(folder)
        if known is None:
            known = self._lists[folder] = ConversationList(folder, recent_file(folder))
        try:
            listed = known.list()
        except OSError:
            return ()  # it went away, or is not ours to read
        rows: list[SessionSummary] = []
        for each in listed:
            where = project_dir or self._project_dir(folder, each.id)
            if where is not None:
                rows.append(
                    SessionSummary(
                        active_session_id=active_session_id(where, each.id),
                        session_id=each.id,
                        project_dir=where,
                        status="saved",
                        title=each.title,
                        updated_at=each.updated_at,
                        message_count=each.message_count,
                    )
                )
        return rows

    def _project_dir(self, folder: Path, conversation_id: str) -> str | None:
        """All conversations of a folder are of one project, which each names in its first line."""
        if folder not in self._dirs:
            try:
                with (folder / f"{file_stem(conversation_id)}.jsonl").open("rb") as file:
                    begun = msgspec.json.decode(file.readline(), type=_Begun)
            except (OSError, msgspec.MsgspecError):
                return None
            if begun.project_dir is None:
                return None
            self._dirs[folder] = begun.project_dir
        return self._dirs[folder]

    def _delete(self, key: ThreadKey) -> None:
        folder = self._home.conversations(key.project_dir)
        stem = file_stem(key.conversation_id)
        file = folder / f"{stem}.jsonl"
        if not file.exists():
            raise refused("unknown_session", f"there is no conversation {key.conversation_id!r}")
        try:
            with lease(folder / f"{stem}.lease"):
                file.unlink(missing_ok=True)
        except ConversationInUse as exc:
            raise CommandRefused("in_use", str(exc)) from exc
