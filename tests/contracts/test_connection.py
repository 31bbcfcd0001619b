"""What every AgentConnection promises: the adapter in this process, and the daemon's.

The agent is the real one, with its scripted model; whoever uses a connection is hurt by each of
these in the same way, wherever the session is.
"""

import json
import os
import signal
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from connection.events import Closed, ConnectionEvent, SessionEvent, SessionReplaced
from connection.failures import (
    AdmissionFailed,
    CapabilityUnavailable,
    CommandRefused,
    Disconnected,
    UnknownSession,
)
from connection.port import AgentConnection
from connection.shapes import Answer, QueueMutation
from roost import connect
from roost.daemon.run_file import RunFile, Running
from roost.daemon.starting import STARTED
from roost.home import RoostHome

PATIENCE = 180.0

Connect = Callable[..., AbstractAsyncContextManager[AgentConnection]]


@pytest.fixture
def anyio_backend() -> str:
    """The model's library and the daemon run on asyncio."""
    return "asyncio"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """One roost home for all of them. The daemon in it is started by the first who needs it."""
    folder = tmp_path_factory.mktemp("roost")
    yield folder
    found = RunFile(RoostHome(folder).daemon_json).look()
    if isinstance(found, Running):
        os.kill(found.record.pid, signal.SIGTERM)
    for process in STARTED:
        process.wait(PATIENCE)


@pytest.fixture(params=["in_process", "daemon"])
def door(
    request: pytest.FixtureRequest, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Connect:
    monkeypatch.setenv("ROOST_HOME", str(home))
    monkeypatch.setenv("ROOST_BINDING__PORT", "0")
    project = tmp_path / "project"
    project.mkdir()

    @asynccontextmanager
    async def opened(session: str | None = None, **more: Any) -> AsyncGenerator[AgentConnection]:
        with anyio.fail_after(PATIENCE):
            async with connect(
                project, session, in_process=request.param == "in_process", **more
            ) as connection:
                yield connection

    return opened


class Recorder:
    """Everything that a connection told, and a way to wait for more."""

    def __init__(self, connection: AgentConnection) -> None:
        self.events: list[ConnectionEvent] = []
        self._news = anyio.Event()
        connection.subscribe(self)

    def __call__(self, event: ConnectionEvent) -> None:
        self.events.append(event)
        news, self._news = self._news, anyio.Event()
        news.set()

    @property
    def agui(self) -> list[dict[str, Any]]:
        return self._agui_since(0)

    def _agui_since(self, place: int) -> list[dict[str, Any]]:
        return [json.loads(e.event) for e in self.events[place:] if isinstance(e, SessionEvent)]

    async def until(self, kind: str) -> dict[str, Any]:
        """The last AG-UI event of a type, once there is one."""
        while True:
            for event in reversed(self.agui):
                if event["type"] == kind:
                    return dict(event)
            await self._news.wait()

    async def until_more(self, kind: str) -> None:
        """Wait for an event of a type that is not there yet."""
        seen = len(self.events)
        while kind not in [e["type"] for e in self._agui_since(seen)]:
            await self._news.wait()

    async def until_closed(self) -> Closed:
        while not isinstance(last := self.events[-1], Closed):
            await self._news.wait()
        return last


def texts(messages: tuple[bytes, ...] | Any) -> list[str]:
    return [str(json.loads(bytes(m)).get("content")) for m in messages]


async def test_a_prompt_is_admitted_at_once_and_its_answer_comes_as_events(door: Connect) -> None:
    async with door() as connection:
        told = Recorder(connection)
        admission = await connection.prompt("hello")
        assert admission.admission == "started"
        finished = await told.until("RUN_FINISHED")
        assert finished["outcome"]["type"] == "success"
        assert texts(await connection.get_messages())[0] == "hello"


async def test_prompt_and_wait_tells_how_the_run_ended(door: Connect) -> None:
    async with door() as connection:
        assert (await connection.prompt_and_wait("hello")).outcome == "success"
        waiting = await connection.prompt_and_wait("run echo hi > proof.txt")
        assert waiting.outcome == "interrupt"
        state = await connection.get_state()
        assert state.status == "waiting"
        assert len(state.interrupts) == len(state.waits_for) == 1


async def test_a_decision_is_taken_once_and_a_late_one_is_refused(door: Connect) -> None:
    async with door() as connection:
        told = Recorder(connection)
        await connection.prompt_and_wait("run echo hi")
        (waits,) = (await connection.get_state()).interrupts
        with pytest.raises(CommandRefused) as refused:
            await connection.answer([Answer(interrupt_id="another", approved=True)])
        assert refused.value.code == "not_open"
        await connection.answer([Answer(interrupt_id=waits.id, approved=True)])
        result = await told.until("TOOL_CALL_RESULT")
        assert "hi" in result["content"]
        await connection.wait_for_idle()
        with pytest.raises(CommandRefused):
            await connection.answer([Answer(interrupt_id=waits.id, approved=False)])


async def test_abort_ends_the_run_and_says_whether_there_was_one(door: Connect) -> None:
    async with door() as connection:
        told = Recorder(connection)
        assert await connection.abort() is False
        await connection.prompt("slow 600")
        await told.until("TEXT_MESSAGE_CONTENT")
        assert await connection.abort() is True
        assert (await told.until("RUN_FINISHED"))["outcome"]["type"] == "cancelled"


async def test_messages_wait_while_a_run_goes_on_and_can_be_taken_back(door: Connect) -> None:
    async with door() as connection:
        told = Recorder(connection)
        await connection.prompt("slow 600")
        await told.until("TEXT_MESSAGE_CONTENT")
        assert (await connection.follow_up("later")).admission == "queued"
        assert [m.text for m in await connection.get_queue()] == ["later"]
        with pytest.raises(CommandRefused) as busy:
            await connection.prompt("only if nothing runs", queue_if_busy=False)
        assert busy.value.code == "busy"
        await connection.clear_queue()
        assert list(await connection.get_queue()) == []
        await connection.abort()


async def test_a_joiner_gets_a_snapshot_and_exactly_the_events_after_it(door: Connect) -> None:
    """Whoever comes while a run goes on ends up showing the same text as who was there."""
    async with door() as connection:
        told = Recorder(connection)
        await connection.prompt("slow 600")
        await told.until("TEXT_MESSAGE_CONTENT")
        snapshot = await connection.get_initial_snapshot()
        assert snapshot.cursor is not None
        assert snapshot.state.run_id is not None
        assert json.loads(snapshot.events[0])["type"] == "RUN_STARTED"
        partial = texts(snapshot.messages)[-1]
        await told.until_more("TEXT_MESSAGE_CONTENT")
        await connection.abort()
        await told.until("RUN_FINISHED")
        later = [
            json.loads(e.event)
            for e in told.events
            if isinstance(e, SessionEvent) and not snapshot.covers(e.cursor)
        ]
        rest = "".join(e["delta"] for e in later if e["type"] == "TEXT_MESSAGE_CONTENT")
        assert rest
        assert partial + rest == texts(await connection.get_messages())[-1]


async def test_moving_to_another_session_is_told_once_and_leaves_the_first_as_it_is(
    door: Connect,
) -> None:
    async with door() as connection:
        told = Recorder(connection)
        await connection.prompt_and_wait("first")
        before = (await connection.get_state()).session_id
        invalidated: list[str] = []
        connection.on_before_session_invalidate(lambda: invalidated.append("left"))
        after = await connection.new_session()
        assert after != before
        (replaced,) = [e for e in told.events if isinstance(e, SessionReplaced)]
        assert replaced.snapshot.state.session_id == after
        assert replaced.snapshot.messages == ()
        assert invalidated == ["left"]
        assert await connection.switch_session(before) == before
        assert texts((await connection.get_initial_snapshot()).messages)[0] == "first"


async def test_an_unknown_selector_is_an_error_and_moves_nobody(door: Connect) -> None:
    async with door() as connection:
        here = (await connection.get_state()).session_id
        with pytest.raises(UnknownSession, match="no session goes by 'nobody'"):
            await connection.switch_session("nobody")
        assert (await connection.get_state()).session_id == here


async def test_sessions_are_listed_open_ones_first_and_saved_ones_on_request(
    door: Connect,
) -> None:
    async with door() as connection:
        await connection.prompt_and_wait("remember me")
        old = (await connection.get_state()).session_id
        new = await connection.new_session()
        open_ids = [row.session_id for row in await connection.list_sessions()]
        assert new in open_ids
        rows = {r.session_id: r for r in await connection.list_sessions(include_saved=True)}
        assert rows[old].title == "remember me"
        saved = await connection.list_saved_sessions()
        assert [row.session_id for row in saved] == [old]


async def test_what_is_not_built_says_so_and_does_nothing(door: Connect) -> None:
    async with door() as connection:
        with pytest.raises(CapabilityUnavailable) as lacking:
            await connection.refine()
        assert lacking.value.capability == "refinement"
        assert not connection.supports_negotiated_capability("refinement")
        assert connection.supports_acp_mcp_servers() is False


async def test_a_prompt_that_was_taken_back_before_it_was_sent_is_never_sent(
    door: Connect,
) -> None:
    async with door() as connection:
        cancel = anyio.Event()
        cancel.set()
        for ask in (connection.prompt, connection.prompt_and_wait):
            with pytest.raises(AdmissionFailed) as failed:
                await ask("never", cancel=cancel)
            assert failed.value.status == "cancelled"
        assert await connection.get_messages() == ()


async def test_a_listener_that_fails_harms_nobody_else(door: Connect) -> None:
    async with door() as connection:

        def fails(event: ConnectionEvent) -> None:
            raise RuntimeError("this listener is broken")

        connection.subscribe(fails)
        told = Recorder(connection)
        await connection.prompt_and_wait("hello")
        await told.until("RUN_FINISHED")


async def test_a_closed_connection_sends_nothing_and_says_so(door: Connect) -> None:
    async with door() as connection:
        await connection.aclose()
        await connection.aclose()
        with pytest.raises(Disconnected):
            await connection.prompt("hello")


async def test_another_session_can_be_watched_beside_ones_own(door: Connect) -> None:
    async with door() as connection:
        await connection.prompt_and_wait("first")
        first = (await connection.get_state()).session_id
        await connection.new_session()
        seen: list[ConnectionEvent] = []
        async with connection.watch_session(first, seen.append) as snapshot:
            assert texts(snapshot.messages)[0] == "first"
            assert (await connection.get_state()).session_id != first


async def test_a_long_history_comes_from_its_end_and_the_rest_on_demand(door: Connect) -> None:
    """The first screen of a long conversation must not wait for all of it."""
    async with door(last_messages=2) as connection:
        for text in ("one", "two", "three"):
            await connection.prompt_and_wait(text)
        snapshot = await connection.get_initial_snapshot()
        assert texts(snapshot.messages)[0] == "three"
        assert snapshot.window is not None
        assert (snapshot.window.first, snapshot.window.total) == (4, 6)
        page = await connection.get_earlier_messages(snapshot.window.first, limit=3)
        assert [page.first, page.total, len(page.messages)] == [1, 6, 3]
        assert texts(page.messages)[1] == "two"
        assert len(await connection.get_messages()) == 6


async def test_a_session_is_resumed_by_a_part_of_its_id_or_by_its_name(door: Connect) -> None:
    async with door() as connection:
        await connection.prompt_and_wait("hello")
        assert await connection.set_session_name("  the poem ") == "the poem"
        here = (await connection.get_state()).session_id
    for selector in (here, here[-12:], here[:8]):
        async with door(resume=selector) as connection:
            assert (await connection.get_state()).session_id == here
    with pytest.raises(UnknownSession):
        async with door(resume="no such name"):
            pass


async def test_a_fork_moves_this_client_to_the_copy(door: Connect) -> None:
    async with door() as connection:
        await connection.prompt_and_wait("first")
        await connection.prompt_and_wait("second")
        here = (await connection.get_state()).session_id
        points = await connection.get_user_messages_for_forking()
        forked = await connection.fork(points[1].id)
        assert forked.selected_text == "second"
        assert (await connection.get_state()).session_id == forked.conversation_id != here
        assert texts(await connection.get_messages())[0] == "first"
        assert len(await connection.get_messages()) == 2


async def test_what_there_is_to_know_of_a_session_is_known(door: Connect) -> None:
    async with door() as connection:
        assert await connection.get_last_assistant_text() is None
        await connection.prompt_and_wait("hello")
        tree = await connection.get_session_tree()
        assert [node.role for node in tree.nodes] == ["user", "assistant"]
        assert tree.leaf_id == tree.nodes[-1].id
        stats = await connection.get_session_stats()
        assert (stats.messages, stats.user_messages, stats.assistant_messages) == (2, 1, 1)
        assert "You said: hello." in (await connection.get_last_assistant_text() or "")
        assert await connection.get_system_prompt()
        bash = await connection.get_tool_definition("Bash")
        assert (bash.name, "command" in str(bash.parameters)) == ("Bash", True)
        with pytest.raises(CommandRefused) as unknown:
            await connection.get_tool_definition("Fly")
        assert unknown.value.code == "unknown_tool"
        assert all(command.name for command in await connection.get_commands())
        catalog = await connection.get_model_catalog()
        assert catalog.current in catalog.models
        assert await connection.get_available_models() == catalog.models


async def test_what_is_chosen_holds_and_what_can_not_be_chosen_changes_nothing(
    door: Connect,
) -> None:
    async with door() as connection:
        assert await connection.set_mode("plan") == "plan"
        # What was attached with is not what holds any more, though no event told of it.
        attached = (await connection.get_initial_snapshot()).state.worker
        assert attached is not None
        assert attached.mode == "plan"
        assert await connection.set_thinking_level("low") == "low"
        assert await connection.cycle_thinking_level() == "medium"
        await connection.set_auto_compaction_enabled(False)
        model = await connection.set_model("demo:scripted")
        assert await connection.cycle_model() in await connection.get_available_models()
        with pytest.raises(CommandRefused):
            await connection.set_mode("reckless")
        with pytest.raises(CommandRefused):
            await connection.set_model("no such form")
        worker = (await connection.get_state()).worker
        assert worker is not None
        assert (worker.model, worker.mode, worker.thinking) == (model, "plan", "medium")
        assert worker.auto_compaction is False
        assert await connection.set_thinking_level(None) is None


async def test_a_message_that_waits_is_moved_changed_and_deleted_where_it_was_seen(
    door: Connect,
) -> None:
    async with door() as connection:
        told = Recorder(connection)
        await connection.prompt("slow 600")
        await told.until("TEXT_MESSAGE_CONTENT")
        for text in ("one", "two", "three"):
            assert (await connection.follow_up(text)).lane == "follow_up"
        assert (await connection.steer("now")).lane == "steering"

        async def change(index: int, expected: str, **mutation: Any) -> str:
            wish = QueueMutation(**mutation)
            return await connection.mutate_queued_message("follow_up", index, expected, wish)

        assert await change(0, "another", kind="delete") == "rejected"
        assert await change(9, "one", kind="delete") == "rejected"
        assert await change(2, "three", kind="move", by=-1) == "applied"
        assert await change(0, "one", kind="replace", text="first") == "applied"
        assert await change(2, "two", kind="delete") == "applied"
        waiting = [m.text for m in await connection.get_queue() if m.lane == "follow_up"]
        assert waiting == ["first", "three"]
        removed = await connection.abort_and_clear_queue()
        assert {m.text for m in removed.removed} >= {"first", "three"}
        assert removed.aborted
        state = await connection.wait_for_idle()
        assert state.run_id is None
        assert list(await connection.get_queue()) == []


async def test_the_history_is_gone_back_in_for_everyone_and_written_and_read(
    door: Connect, tmp_path: Path
) -> None:
    async with door() as connection:
        await connection.prompt_and_wait("first")
        await connection.prompt_and_wait("second")
        told = Recorder(connection)
        points = await connection.get_user_messages_for_forking()
        await connection.set_session_entry_label(points[0].id, "the start")
        moved = await connection.navigate_tree(points[1].id)
        assert moved.editor_text == "second"
        everyone = await told.until("MESSAGES_SNAPSHOT")
        assert [m["role"] for m in everyone["messages"]] == ["user", "assistant"]
        assert len(await connection.get_messages()) == 2
        tree = await connection.get_session_tree()
        assert [node.label for node in tree.nodes if node.label] == ["the start"]
        assert len(tree.nodes) == 4
        page = await connection.export_to_html(str(tmp_path / "page.html"))
        assert "first" in Path(page).read_text()
        file = await connection.export_to_jsonl()
        here = (await connection.get_state()).session_id
        imported = await connection.import_from_jsonl(file)
        assert (await connection.get_state()).session_id == imported != here
        assert texts(await connection.get_messages())[0] == "first"
        with pytest.raises(CommandRefused):
            await connection.import_from_jsonl(str(tmp_path / "nothing.jsonl"))
        assert (await connection.get_state()).session_id == imported


async def test_too_little_is_not_summarized_and_there_is_no_compaction_to_stop(
    door: Connect,
) -> None:
    async with door() as connection:
        with pytest.raises(CommandRefused) as refused:
            await connection.compact()
        assert refused.value.code == "nothing_to_compact"
        assert await connection.abort_compaction() is False


async def test_a_saved_session_is_named_and_deleted_and_one_in_use_is_not(door: Connect) -> None:
    async with door() as connection:
        await connection.prompt_and_wait("to be deleted")
        old = (await connection.get_state()).session_id
        with pytest.raises(CommandRefused) as refused:
            await connection.delete_saved_session(old)
        assert refused.value.code == "in_use"
        await connection.new_session()
        await connection.rename_saved_session(old, " a name ")
        assert [row.name for row in await connection.list_saved_sessions()] == ["a name"]
        await connection.kill_session("a name")
        # Another process ends, which is no event of this session.
        while old in [row.session_id for row in await connection.list_sessions()]:  # noqa: ASYNC110
            await anyio.sleep(0.02)
        await connection.delete_saved_session("a name")
        assert list(await connection.list_saved_sessions()) == []


async def test_who_kills_its_own_session_is_told_of_the_end_and_sends_nothing_more(
    door: Connect,
) -> None:
    async with door() as connection:
        told = Recorder(connection)
        await connection.prompt_and_wait("hello")
        here = (await connection.get_state()).session_id
        await connection.kill_session()
        closed = await told.until_closed()
        assert closed.reason == "killed"
        with pytest.raises(Disconnected, match="was stopped"):
            await connection.prompt("more")
    async with door(here) as connection:
        assert texts(await connection.get_messages())[0] == "hello"
