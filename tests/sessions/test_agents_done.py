"""Decisions 11 and 12: whether the agents are done, and the hooks for moving sessions."""

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from sessions.domain.keys import ConversationId, ThreadKey
from sessions.domain.ports import ThreadView
from sessions.registry import RequestFailed
from tests.support.fakes import FakeClient
from tests.support.scenes import (
    PROJECT,
    READY,
    a_followed_thread,
    a_registry,
    line,
    message,
    run_asked,
    run_finished,
    run_started,
    snapshot,
)

KEY = ThreadKey(PROJECT, ConversationId("c1"))


async def test_no_thread_at_all_is_done() -> None:
    async with a_registry() as scene:
        assert scene.registry.agents_done()


async def test_a_run_that_goes_on_or_waits_is_not_done_and_one_that_ended_is() -> None:
    async with a_followed_thread() as (scene, _):
        assert scene.registry.agents_done()
        await scene.worker_says(run_started())
        assert not scene.registry.agents_done()
        await scene.worker_says(run_asked("t1"))
        assert not scene.registry.agents_done()
        await scene.worker_says(run_started("r2"), run_finished("r2"))
        assert scene.registry.agents_done()
        await scene.worker_says(run_started("r3"), line("RUN_ERROR", message="x", runId="r3"))
        assert scene.registry.agents_done()
        await scene.worker_says(run_started("r4"))
        await scene.worker_dies()
        assert scene.registry.agents_done()


async def test_a_thread_that_was_forgotten_while_it_waited_still_counts() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), run_asked("t1"))
        scene.registry.detach(desktop)
        await scene.worker_dies()
        assert scene.registry.views() == []
        assert not scene.registry.agents_done()


async def test_a_session_that_arrived_is_done_after_a_run_of_its_own_or_when_it_left() -> None:
    async with a_followed_thread() as (scene, _):
        registry = scene.registry
        assert not registry.all_teleported_away()
        registry.teleported_here(KEY)
        assert not registry.agents_done()
        await scene.worker_says(run_started(), run_finished())
        assert registry.agents_done()
        assert not registry.all_teleported_away()
        other = ThreadKey(PROJECT, ConversationId("c9"))
        registry.teleported_here(other)
        assert not registry.agents_done()
        registry.teleported_away(other)
        assert registry.agents_done()
        registry.teleported_away(KEY)
        assert registry.all_teleported_away()


async def test_a_session_that_left_while_it_waited_is_done_here() -> None:
    async with a_followed_thread() as (scene, _):
        await scene.worker_says(run_started(), run_asked("t1"))
        scene.registry.teleported_away(KEY)
        assert scene.registry.agents_done()


async def test_quiesce_ends_the_worker_and_keeps_the_clients() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started())
        desktop.take()
        scene.worker.obeys_stop = False
        cancelled = line("RUN_FINISHED", threadId="c1", runId="r1", outcome={"type": "cancelled"})
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(scene.registry.quiesce, KEY)
                await wait_all_tasks_blocked()
                assert scene.worker.stops == [25.0]
                await scene.worker_says(cancelled)
                assert desktop.frames == [cancelled]
                scene.worker.exit("exited with code 0")
        scene.registry.deliver(KEY, line("CUSTOM", name="moved", value=1))
        assert desktop.types == ["RUN_FINISHED", "CUSTOM"]
        scene.sends(desktop, message())
        await wait_all_tasks_blocked()
        await scene.worker_says(READY)
        assert scene.worker.sent == [message()]


async def test_quiesce_and_deliver_to_an_unknown_thread_do_nothing() -> None:
    async with a_registry() as scene:
        await scene.registry.quiesce(KEY)
        scene.registry.deliver(KEY, b"{}")


async def test_a_request_of_the_daemon_gets_its_reply() -> None:
    async with a_registry() as scene:
        replies: list[bytes] = []

        async def asks() -> None:
            frame = line("list_models")
            replies.append(await scene.registry.request(PROJECT, frame))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(asks)
                await wait_all_tasks_blocked()
                await scene.worker_says(READY, line("models", models=["m"]))
        assert replies == [line("models", models=["m"])]


async def test_a_request_of_the_daemon_that_can_not_be_answered_says_why() -> None:
    async with a_registry() as scene:
        scene.launcher.fails_with = "no such directory"
        with anyio.fail_after(30):
            with pytest.raises(RequestFailed, match="no such directory"):
                await scene.registry.request(PROJECT, line("list_models"))
            with pytest.raises(RequestFailed, match="absolute path"):
                await scene.registry.request("relative", line("list_models"))
            with pytest.raises(RequestFailed, match="no panel request"):
                await scene.registry.request(PROJECT, line("interrupt"))


async def test_a_registry_is_idle_when_nobody_needs_anything() -> None:
    async with a_followed_thread() as (scene, desktop):
        assert not scene.registry.idle()
        scene.registry.detach(desktop)
        assert scene.registry.idle()
        await scene.worker_says(run_started())
        assert not scene.registry.idle()
        await scene.worker_says(run_finished())
        assert scene.registry.idle()
        scene.sends(FakeClient(), line("list_models", project_dir=PROJECT))
        assert not scene.registry.idle()


async def test_a_watcher_is_told_of_every_change_until_it_ends() -> None:
    async with a_registry() as scene:
        seen: list[tuple[str, str | None]] = []

        def watcher(key: ThreadKey, view: ThreadView | None) -> None:
            seen.append((key.conversation_id, view.status if view else None))

        end = scene.registry.watch(watcher)
        client = FakeClient()
        await scene.follows(client)
        await scene.worker_says(run_started(), line("CUSTOM", name="x", value=1), run_finished())
        assert [status for _, status in seen if status in ("running", "idle")][-2:] == [
            "running",
            "idle",
        ]
        assert seen[0] == ("c1", "launching") or seen[0] == ("c1", "stopped")
        before = len(seen)
        await scene.worker_says(line("CUSTOM", name="x", value=1), snapshot())
        assert len(seen) == before, "nothing of the view changed"
        scene.registry.detach(client)
        await scene.worker_dies()
        assert seen[-1] == ("c1", None)
        end()
        end()
        await scene.follows(client)
        assert seen[-1] == ("c1", None)
