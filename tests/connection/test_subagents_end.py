"""Who ends a conversation by a command of the connection ends what works below it, too."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest
from anyio import wait_all_tasks_blocked

from connection.execution import Directory, Household, Progress, SavedSession
from connection.failures import CommandRefused
from sessions.domain.keys import ThreadKey
from tests.support.fakes import FakeClient, FakeWorker
from tests.support.scenes import PROJECT, a_followed_thread

CHILD = "subagent-c1-aaaaaaaaaaaa"
PARENT = {"projectDir": PROJECT, "sessionId": "c1"}


class FakeSaved:
    """A `SavedSessions` that only notes what is deleted."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    async def list(
        self, project_dir: str | None, progress: Progress | None = None
    ) -> Sequence[SavedSession]:
        return ()

    async def delete(self, key: ThreadKey) -> None:
        self.deleted.append(key.conversation_id)


@asynccontextmanager
async def a_family() -> AsyncGenerator[tuple[Household, FakeSaved, list[FakeWorker]]]:
    """The workers of a parent, of its subagent, of that one's own, and of somebody else."""
    async with a_followed_thread() as (scene, _):
        for name, above in ((CHILD, "c1"), (f"subagent-{CHILD}-b", CHILD), ("other", "another")):
            scene.opens(FakeClient(), name, subagent={"parent": above})
            await wait_all_tasks_blocked()
        saved = FakeSaved()
        yield (
            Household(scene.registry, Directory(scene.registry, saved)),
            saved,
            scene.launcher.workers,
        )


async def test_killing_a_session_stops_its_subagents() -> None:
    async with a_family() as (household, _, workers):
        await household.execute("kill", PARENT)
        assert [bool(worker.stops) for worker in workers] == [True, True, True, False]


async def test_deleting_a_conversation_stops_its_subagents() -> None:
    async with a_family() as (household, saved, workers):
        workers[0].exit("exited with code 0")
        await wait_all_tasks_blocked()
        await household.execute("delete_saved_session", PARENT)
        assert saved.deleted == ["c1"]
        assert [bool(worker.stops) for worker in workers[1:]] == [True, True, False]


async def test_a_conversation_that_is_not_deleted_keeps_its_subagents() -> None:
    async with a_family() as (household, saved, workers):
        with pytest.raises(CommandRefused):
            await household.execute("delete_saved_session", PARENT)
        assert saved.deleted == []
        assert not any(worker.stops for worker in workers)
