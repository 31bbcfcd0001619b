"""Decisions 8, 9 and 13: exits, stops, failed launches: who is told what, what starts again."""

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from structlog.testing import capture_logs

from sessions.domain.keys import ConversationId, Generation, ThreadKey, ThreadOptions
from sessions.domain.settings import RegistrySettings
from sessions.domain.thread import Orders, Thread
from tests.support.fakes import FakeClient, FakeWorker
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
    text,
)
from tests.support.time import virtual_time

STOP = line("stop_thread", project_dir=PROJECT, id="c1")


async def test_a_crash_in_a_run_ends_it_once_for_followers_and_waiters() -> None:
    async with a_followed_thread() as (scene, desktop):
        phone = FakeClient("phone")
        await scene.worker_says(run_started("r7"))
        scene.opens(phone)
        await wait_all_tasks_blocked()
        desktop.take()
        await scene.worker_dies("was killed by SIGKILL")
        for client in (desktop, phone):
            (error,) = client.take()
            assert error["type"] == "RUN_ERROR"
            assert error["runId"] == "r7"
            assert "exited mid-run" in error["message"]
            assert "SIGKILL" in error["message"]


async def test_a_crash_outside_a_run_is_news_for_waiters_only() -> None:
    async with a_followed_thread() as (scene, desktop):
        phone = FakeClient("phone")
        scene.opens(phone)
        await wait_all_tasks_blocked()
        await scene.worker_dies("exited with code 3")
        assert desktop.frames == []
        (error,) = phone.take()
        assert "runId" not in error
        assert "exited before it answered" in error["message"]
        assert "code 3" in error["message"]


async def test_a_crash_with_nobody_waiting_says_nothing() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_dies()
        assert desktop.frames == []


async def test_a_crash_between_a_message_and_its_run_is_told_to_all_who_follow() -> None:
    """Else whoever sent it waits for ever, for a run that no worker will begin."""
    async with a_followed_thread() as (scene, desktop):
        phone = FakeClient("phone")
        scene.opens(phone)
        await scene.worker_says(snapshot())
        phone.take()
        scene.sends(desktop, message())
        await scene.worker_dies("was killed by SIGKILL")
        for client in (desktop, phone):
            (error,) = client.take()
            assert (error["type"], error["code"]) == ("RUN_ERROR", "worker_exit")
            assert "runId" not in error
            assert "safe to send it again" in error["message"]
        # Told once: the next worker owes nobody anything.
        scene.opens(phone)
        await wait_all_tasks_blocked()
        await scene.worker_says(READY, snapshot())
        phone.take()
        await scene.worker_dies()
        assert desktop.frames == phone.frames == []


async def test_a_stop_between_a_message_and_its_run_is_told_too() -> None:
    async with a_followed_thread() as (scene, desktop):
        scene.sends(desktop, message())
        scene.sends(FakeClient(), STOP)
        await scene.worker_dies("exited with code 0")
        (error,) = desktop.take()
        assert error["code"] == "worker_exit"


@pytest.mark.parametrize("heard", [run_started("r1"), line("RUN_ERROR", message="bad input")])
async def test_a_message_that_was_heard_needs_no_word_when_the_idle_worker_dies(
    heard: bytes,
) -> None:
    async with a_followed_thread() as (scene, desktop):
        scene.sends(desktop, message())
        await scene.worker_says(heard)
        if heard == run_started("r1"):
            await scene.worker_says(run_finished("r1"))
        desktop.take()
        await scene.worker_dies()
        assert desktop.frames == []


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_message_that_was_queued_in_a_run_may_be_lost_with_a_crash_after_it(
    is_stopped: bool,
) -> None:
    """Only the worker knows whether the run took it; a worker that ends in order has done so."""
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started("r1"))
        scene.sends(desktop, message())
        await scene.worker_says(run_finished("r1"))
        desktop.take()
        if is_stopped:
            scene.sends(FakeClient(), STOP)
        await scene.worker_dies()
        told = [error["code"] for error in desktop.take()]
        assert told == ([] if is_stopped else ["worker_exit"])


async def test_a_worker_that_dies_before_it_is_ready_answers_all_that_waited_for_it() -> None:
    async with a_registry() as scene:
        opener, sender = FakeClient("opener"), FakeClient("sender")
        scene.opens(opener)
        scene.opens(sender)
        scene.sends(sender, message())
        scene.sends(opener, line("command", id="9", name="x", args={}))
        await wait_all_tasks_blocked()
        await scene.worker_dies("exited with code 1")
        error, result = opener.take()
        assert error["type"] == "RUN_ERROR"
        assert (result["id"], result["success"]) == ("9", False)
        assert [e["type"] for e in sender.take()] == ["RUN_ERROR"]
        await wait_all_tasks_blocked()
        assert len(scene.launcher.workers) == 1


async def test_a_failed_launch_answers_every_waiter_with_the_reason() -> None:
    async with a_registry() as scene:
        scene.launcher.fails_with = "no worker could be started in /work/project: it does not exist"
        clients = [FakeClient("a"), FakeClient("b")]
        for client in clients:
            scene.opens(client)
        await wait_all_tasks_blocked()
        for client in clients:
            (error,) = client.take()
            assert "/work/project" in error["message"]
            assert "runId" not in error


async def test_a_worker_that_can_not_begin_answers_waiters_and_followers_once() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_dies()
        phone = FakeClient("phone")
        scene.opens(phone)
        scene.opens(desktop)
        scene.sends(phone, message())
        await wait_all_tasks_blocked()
        error = line("RUN_ERROR", message="no models")
        await scene.worker_says(error)
        assert desktop.frames == phone.frames == [error]
        await scene.worker_dies()
        assert desktop.frames == phone.frames == [error]


async def test_a_foreign_workers_bare_error_answers_who_waits() -> None:
    async with a_registry(announces_ready=False) as scene:
        phone = FakeClient("phone")
        scene.opens(phone)
        await wait_all_tasks_blocked()
        await scene.worker_says(line("RUN_ERROR", message="x"), snapshot())
        assert phone.types == ["RUN_ERROR", "MESSAGES_SNAPSHOT"]


async def test_a_ready_workers_bare_error_answers_nobodys_open() -> None:
    """One client's bad input must not cost another the question that waits."""
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), run_asked("t1"))
        desktop.take()
        phone = FakeClient("phone")
        scene.opens(phone)
        error = line("RUN_ERROR", message="bad input")
        await scene.worker_says(error, snapshot("all"))
        assert desktop.frames == [error]
        assert phone.frames == [snapshot("all"), run_asked("t1")]


async def test_a_foreign_error_that_ends_a_run_is_given_the_runs_id() -> None:
    """Clients take an error without it for one that ends nothing, and would show a busy thread."""
    async with a_followed_thread(announces_ready=False) as (scene, desktop):
        await scene.worker_says(run_started("r7"), line("RUN_ERROR", message="x", code="y"))
        assert desktop.events[-1] == {
            "type": "RUN_ERROR",
            "message": "x",
            "code": "y",
            "runId": "r7",
        }
        own = line("RUN_ERROR", message="x", runId="r8")
        await scene.worker_says(run_started("r8"), own)
        assert desktop.frames[-1] == own


async def test_our_own_workers_bare_error_ends_no_run() -> None:
    """Somebody else's input was refused: the run goes on, and its followers must not lose it."""
    async with a_followed_thread() as (scene, desktop):
        error = line("RUN_ERROR", message="bad input")
        await scene.worker_says(run_started(), error)
        assert desktop.frames == [run_started(), error]
        [view] = scene.registry.views()
        assert (view.status, view.run_id) == ("running", "r1")
        phone = FakeClient("phone")
        scene.opens(phone)
        await scene.worker_says(error, snapshot(), run_finished())
        assert phone.frames == [snapshot(), run_started(), run_finished()]


async def test_who_follows_a_crashed_thread_still_follows_it() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started())
        await scene.worker_dies()
        scene.sends(desktop, message())
        await wait_all_tasks_blocked()
        desktop.take()
        await scene.worker_says(READY, run_started("r2"))
        assert desktop.frames == [run_started("r2")]


async def test_a_run_goes_on_when_everyone_has_left() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started())
        scene.registry.detach(desktop)
        scene.registry.detach(desktop)
        await scene.worker_says(text("unseen"))
        assert scene.worker.stops == []
        phone = FakeClient("phone")
        scene.opens(phone)
        await scene.worker_says(snapshot("unseen"))
        assert phone.frames == [snapshot("unseen"), run_started()]


async def test_the_answer_to_a_client_that_left_is_not_handed_to_the_next() -> None:
    async with a_followed_thread() as (scene, _):
        gone, phone = FakeClient("gone"), FakeClient("phone")
        scene.opens(gone)
        scene.sends(gone, line("command", id="1", name="x", args={}))
        scene.opens(phone)
        scene.sends(phone, line("command", id="1", name="x", args={}))
        await wait_all_tasks_blocked()
        scene.registry.detach(gone)
        await scene.worker_says(
            snapshot("for the one who left"),
            line("command_result", id="1", success=True, data="old"),
            snapshot("for the phone"),
            line("command_result", id="1", success=True, data="new"),
        )
        assert gone.frames == []
        assert phone.types == ["MESSAGES_SNAPSHOT", "command_result"]
        assert phone.frames[0] == snapshot("for the phone")
        assert phone.events[1]["data"] == "new"


async def test_what_a_client_asked_to_be_run_is_run_though_it_left() -> None:
    async with a_registry() as scene:
        client = FakeClient()
        scene.opens(client)
        scene.sends(client, message())
        scene.registry.detach(client)
        await wait_all_tasks_blocked()
        await scene.worker_says(READY)
        assert scene.worker.sent == [message()]


async def test_stop_thread_stops_at_once_whoever_asks_and_answers_nothing() -> None:
    async with a_followed_thread() as (scene, desktop):
        stranger = FakeClient("stranger")
        await scene.worker_says(run_started())
        desktop.take()
        scene.launcher.worker.obeys_stop = False
        scene.sends(stranger, line("stop_thread", project_dir=f"{PROJECT}/x/..", id="c1"))
        assert scene.worker.stops == [25.0]
        cancelled = line("RUN_FINISHED", threadId="c1", runId="r1", outcome={"type": "cancelled"})
        await scene.worker_says(cancelled)
        await scene.worker_dies("exited with code 0")
        assert desktop.frames == [cancelled]
        assert stranger.frames == []


async def test_a_stopped_worker_that_did_not_end_its_run_has_it_ended_for_it() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started())
        desktop.take()
        scene.sends(desktop, STOP)
        await wait_all_tasks_blocked()
        assert [e["runId"] for e in desktop.take()] == ["r1"]


async def test_stop_of_an_unknown_thread_does_nothing() -> None:
    async with a_registry() as scene:
        client = FakeClient()
        scene.sends(client, STOP)
        await wait_all_tasks_blocked()
        assert client.frames == []
        assert scene.launcher.launches == []


async def test_a_message_after_a_stop_waits_for_the_old_worker_and_gets_a_new_one() -> None:
    """Two workers of one conversation at a time would both write its history."""
    async with a_followed_thread() as (scene, desktop):
        old = scene.worker
        old.obeys_stop = False
        scene.sends(desktop, STOP)
        scene.sends(desktop, message())
        await wait_all_tasks_blocked()
        assert len(scene.launcher.workers) == 1
        old.exit("exited with code 0")
        await wait_all_tasks_blocked()
        assert len(scene.launcher.workers) == 2
        await scene.worker_says(READY)
        assert scene.worker.sent == [message()]
        assert desktop.frames == []


async def test_an_open_after_a_stop_is_answered_by_the_next_worker_alone() -> None:
    async with a_followed_thread() as (scene, desktop):
        phone = FakeClient("phone")
        scene.worker.obeys_stop = False
        scene.sends(desktop, STOP)
        scene.opens(phone)
        await scene.worker_dies("exited with code 0")
        assert phone.frames == []
        await scene.worker_says(READY, snapshot("all"))
        assert phone.frames == [snapshot("all")]


def test_the_exit_of_a_worker_that_was_replaced_changes_nothing() -> None:
    client, worker = FakeClient(), FakeWorker(7)
    key = ThreadKey(PROJECT, ConversationId("c1"))
    thread = Thread(
        key, ThreadOptions(), RegistrySettings(), Orders(launch=lambda thread, delay: None), 0.0
    )
    thread.open(client, b"{}", 0.0)
    thread.launched(worker, Generation("new"), 0.0)
    thread.take_lines([READY, snapshot(), run_started()], 0.0)
    client.take()
    thread.exited(Generation("old"), "was killed by SIGKILL", 0.0)
    assert client.frames == []
    assert thread.view().worker_pid == 7
    assert thread.view().status == "running"


async def test_a_stop_while_the_worker_starts_answers_who_waited_and_ends_it() -> None:
    async with a_registry() as scene:
        client = FakeClient()
        scene.opens(client)
        scene.sends(client, STOP)
        (error,) = client.take()
        assert "stopped" in error["message"]
        await wait_all_tasks_blocked()
        assert all(worker.stops for worker in scene.launcher.workers)
        assert client.frames == []


async def test_an_open_after_such_a_stop_keeps_the_worker_that_starts() -> None:
    async with a_registry() as scene:
        client = FakeClient()
        scene.opens(client)
        scene.sends(client, STOP)
        client.take()
        scene.opens(client)
        await wait_all_tasks_blocked()
        await scene.worker_says(READY, snapshot())
        assert client.frames == [snapshot()]
        assert len(scene.launcher.workers) == 1


@virtual_time
async def test_workers_that_say_nothing_are_started_less_and_less_then_refused() -> None:
    async with a_registry() as scene:
        client = FakeClient()
        started_after: list[float] = []
        for _ in range(4):
            asked = anyio.current_time()
            before = len(scene.launcher.workers)
            scene.launcher.launched = anyio.Event()
            scene.opens(client)
            await scene.launcher.launched.wait()
            started_after.append(round(anyio.current_time() - asked, 2))
            assert len(scene.launcher.workers) == before + 1
            await wait_all_tasks_blocked()
            await scene.worker_dies("exited with code 1")
            client.take()
        assert started_after == [0.0, 0.25, 1.0, 5.0]
        scene.opens(client)
        await wait_all_tasks_blocked()
        (error,) = client.take()
        assert "4 times" in error["message"]
        assert "30 s" in error["message"]
        assert len(scene.launcher.workers) == 4
        await anyio.sleep(30.1)
        scene.opens(client)
        await anyio.sleep(5.1)
        await scene.worker_says(READY, snapshot())
        assert client.frames == [snapshot()]
        await scene.worker_dies()
        scene.opens(client)
        await wait_all_tasks_blocked()
        assert len(scene.launcher.workers) == 6


async def test_a_thread_nobody_needs_is_forgotten() -> None:
    async with a_followed_thread() as (scene, desktop):
        scene.registry.detach(desktop)
        assert len(scene.registry.views()) == 1
        await scene.worker_dies()
        assert scene.registry.views() == []


async def test_the_log_says_how_many_lines_were_dropped_and_frames_ignored() -> None:
    with capture_logs() as logs:
        async with a_followed_thread() as (scene, desktop):
            scene.sends(desktop, line("no_such_frame"))
            await scene.worker_says(b"rubbish", b"", b"[]")
            await scene.worker_dies()
    exited = next(log for log in logs if log["event"] == "worker_exited")
    assert (exited["dropped_lines"], exited["overgrown_states"]) == (2, 0)
    ignored = next(log for log in logs if log["event"] == "frames_ignored")
    assert ignored["unknown_type"] == 1


async def test_views_tell_who_runs_who_waits_and_who_is_idle() -> None:
    async with a_followed_thread() as (scene, _):
        (view,) = scene.registry.views()
        assert (view.status, view.followers, view.worker_pid) == ("idle", 1, 1000)
        await scene.worker_says(run_started("r3"))
        (view,) = scene.registry.views()
        assert (view.status, view.run_id) == ("running", "r3")
        asked = line(
            "RUN_FINISHED",
            threadId="c1",
            runId="r3",
            outcome={"type": "interrupt", "interrupts": [{"id": "b"}, {"id": "a"}]},
        )
        await scene.worker_says(asked)
        (view,) = scene.registry.views()
        assert (view.status, view.run_id, view.interrupts) == ("waiting", None, ("a", "b"))
        await scene.worker_dies()
        (view,) = scene.registry.views()
        assert (view.status, view.worker_pid) == ("waiting", None)
        await scene.worker_says(run_finished())
