"""What a project has to show, off the event loop. Trouble with a file is logged, never raised."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from agent.domain.ports import Log
from agent.domain.project import ConversationSummary, Skill
from agent.infrastructure.conversation_list import ConversationList, RecentFile
from agent.infrastructure.input_history import InputHistory
from agent.infrastructure.skills import Skills

T = TypeVar("T")


def recent_file(conversations: Path) -> RecentFile:
    """The hint for lists of these conversations, beside their folder."""
    return RecentFile(conversations.parent / "recent")


class ProjectFiles:
    """The project's conversations, inputs and skills."""

    def __init__(self, project_dir: Path, home: Path, conversations: Path, log: Log) -> None:
        self._list = ConversationList(conversations, recent_file(conversations))
        self._inputs = InputHistory(conversations.parent / "inputs.jsonl")
        self._skills = Skills(project_dir, home, log)
        self._log = log
        # A list is for one caller at a time, and so is the order of inputs.
        self._listing = anyio.Lock()
        self._typing = anyio.Lock()

    async def conversations(self) -> list[ConversationSummary]:
        """At most fifty, newest first."""
        async with self._listing:
            return await self._off_loop("conversations", self._list.list, [])

    async def inputs(self) -> list[str]:
        """At most a thousand, oldest first."""
        async with self._typing:
            return await self._off_loop("inputs", self._inputs.list, [])

    async def add_input(self, text: str) -> None:
        async with self._typing:
            await self._off_loop("inputs", lambda: self._inputs.add(text), None)

    async def skills(self) -> list[Skill]:
        async with self._listing:
            return await self._off_loop("skills", self._skills.list, [])

    async def _off_loop(self, what: str, work: Callable[[], T], otherwise: T) -> T:
        try:
            return await anyio.to_thread.run_sync(work)
        except OSError as exc:
            self._log("warning", "project_files_unread", what=what, reason=str(exc.strerror))
            return otherwise
