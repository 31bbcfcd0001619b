"""What every OpenChild promises: the fake, threads of a real daemon, and processes of our own."""

import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import msgspec
import pytest

from agent.domain.lineage import ChildThread, Lineage
from agent.domain.subagents import (
    Asked,
    Began,
    Broke,
    ChildLink,
    ChildLost,
    News,
    OpenChild,
    Settled,
    Turned,
)
from agent.infrastructure.children.daemon_children import DaemonChildren
from agent.infrastructure.children.kept_children import KeptChildren
from sessions.domain.keys import ThreadKey
from tests.agent.support.fake_children import FakeChildren
from tests.agent.support.fakes import FakeLog
from tests.agent.support.worker_process import until as written
from tests.agui.real import PATIENCE, a_real_daemon


@pytest.fixture
def anyio_backend() -> str:
    """The WebSocket library runs on asyncio."""
    return "asyncio"


@dataclass(slots=True)
class Way:
    """One adapter, and how to look behind it."""

    open_child: OpenChild
    project: Path

    def leases(self, thread: ChildThread) -> list[str]:
        """Who has the conversation of a child, in the words of its lease."""
        name = f"projects/*/conversations/{thread.conversation_id}.lease"
        found = (self.project.parent / "home").glob(name)
        return [text for lease in found if (text := lease.read_text())]

    def process_of(self, thread: ChildThread) -> int:
        (lease,) = self.leases(thread)
        return int(lease.split()[0])

    def thread(self, *tools: str, name: str = "a1") -> ChildThread:
        lineage = Lineage(parent="parent", depth=1, tools=list(tools))
        return ChildThread(
            conversation_id=f"subagent-parent-{name}",
            project_dir=str(self.project),
            label=name,
            lineage=lineage,
        )


@asynccontextmanager
async def way(name: str, tmp_path: Path) -> AsyncGenerator[Way]:
    if name == "daemon":
        async with a_real_daemon(tmp_path) as daemon, daemon.client() as person:
            await daemon.follows(person, "parent")
            token = next(iter(daemon.registry._workers._tokens))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            assert daemon.registry.worker_with(token) == ThreadKey.parse(
                str(daemon.project), "parent"
            )
            yield Way(DaemonChildren(lambda: daemon.url, token, FakeLog()), daemon.project)
        return
    project = tmp_path / "project"
    project.mkdir()
    if name == "fake":
        yield Way(FakeChildren(), project)
    else:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
        environ["ROOST_HOME"] = str(tmp_path / "home")
        command = [sys.executable, "-P", "-m", "roost"]
        yield Way(KeptChildren(command, environ, FakeLog()), project)


async def until(link: ChildLink, *kinds: type[News]) -> News:
    """The next news of these kinds."""
    with anyio.fail_after(PATIENCE):
        async for news in link:
            if isinstance(news, kinds):
                return news
    raise AssertionError(f"it ended without {kinds}")


async def each_turn_begins_and_is_reported_once(it: Way) -> None:
    async with it.open_child(it.thread(name="turns"), is_known=False) as link:
        for number in (1, 2):
            await link.send(f"m{number}", "think")
            assert isinstance(await until(link, Began, Turned), Began)
            report = await until(link, Began, Turned)
            assert isinstance(report, Turned)
            assert report.report.success
            assert report.report.done
            assert "thought about it" in report.report.text


async def a_tool_outside_of_the_list_is_not_there(it: Way) -> None:
    """None at all is a list too."""
    async with it.open_child(it.thread(name="tools"), is_known=False) as link:
        await link.send("m", "run echo x > made.txt")
        report = await until(link, Turned, Asked)
        assert isinstance(report, Turned)
        assert "no tool of this subagent" in report.report.text
        assert not (it.project / "made.txt").exists()


async def what_it_waits_for_is_told(it: Way) -> None:
    async with it.open_child(it.thread("Bash", name="asks"), is_known=False) as link:
        await link.send("m", "run echo x > made.txt")
        asked = await until(link, Turned, Asked)
        assert isinstance(asked, Asked)
        assert "echo x" in asked.asks[0].message
        assert not (it.project / "made.txt").exists()


async def one_that_is_opened_again_says_where_it_stands(it: Way) -> None:
    thread = it.thread(name="again")
    async with it.open_child(thread, is_known=False) as link:
        await link.send("m", "think")
        await until(link, Turned)
    async with it.open_child(thread, is_known=True) as link:
        assert isinstance(await until(link, Began, Asked, Settled), Settled)


async def a_folder_that_is_not_there_opens_nothing(it: Way) -> None:
    gone = msgspec.structs.replace(it.thread(), project_dir=str(it.project / "missing"))
    with pytest.raises(ChildLost):
        async with it.open_child(gone, is_known=False):
            raise AssertionError("it was opened")


PROMISES = (
    each_turn_begins_and_is_reported_once,
    a_tool_outside_of_the_list_is_not_there,
    what_it_waits_for_is_told,
    one_that_is_opened_again_says_where_it_stands,
    a_folder_that_is_not_there_opens_nothing,
)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
async def test_the_fake_keeps_each_promise(
    promise: Callable[[Way], Awaitable[None]], tmp_path: Path
) -> None:
    async with way("fake", tmp_path) as it:
        await promise(it)


@pytest.mark.parametrize("name", ["daemon", "kept"])
async def test_real_children_keep_all_promises_side_by_side(name: str, tmp_path: Path) -> None:
    """A process is a second of work: so they share a daemon, and the cores."""
    async with way(name, tmp_path) as it, anyio.create_task_group() as promises:
        for promise in PROMISES:
            promises.start_soon(promise, it)


@pytest.mark.parametrize("name", ["daemon", "kept"])
async def test_one_that_is_killed_in_a_turn_is_heard_of(name: str, tmp_path: Path) -> None:
    async with way(name, tmp_path) as it, it.open_child(it.thread(), is_known=False) as link:
        await link.send("m", "slow 1000")
        await until(link, Began)
        with anyio.fail_after(PATIENCE):
            await written(lambda: it.leases(it.thread()))
            os.kill(it.process_of(it.thread()), signal.SIGKILL)
            broke = [news async for news in ending(link)]
        assert not broke or isinstance(broke[-1], Broke)


async def ending(link: ChildLink) -> AsyncGenerator[News]:
    """The news up to the one that says that the turn is broken, or to the end."""
    async for news in link:
        if isinstance(news, Broke):
            yield news
            return
