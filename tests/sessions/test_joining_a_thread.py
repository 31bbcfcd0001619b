"""Decision 2: a stream begins with the follower's own snapshot, and misses nothing after it."""

import anyio
from anyio import wait_all_tasks_blocked

from tests.support.fakes import FakeClient
from tests.support.scenes import (
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

STATE = line("STATE_SNAPSHOT", snapshot={"todos": [], "backgroundTasks": {"running": 0}})
TODOS = line("STATE_DELTA", delta=[{"op": "add", "path": "/todos", "value": ["x"]}])
OPEN_TEXT = line("TEXT_MESSAGE_START", messageId="m1", role="assistant")
CLOSE_TEXT = line("TEXT_MESSAGE_END", messageId="m1")


async def test_events_before_the_snapshot_are_withheld_from_the_opener() -> None:
    async with a_followed_thread() as (scene, desktop):
        phone = FakeClient("phone")
        scene.opens(phone)
        await scene.worker_says(line("CUSTOM", name="a", value=1))
        assert phone.frames == []
        await scene.worker_says(snapshot("all"), line("CUSTOM", name="b", value=2))
        assert phone.frames == [snapshot("all"), line("CUSTOM", name="b", value=2)]
        assert snapshot("all") not in desktop.frames


async def test_a_joiner_of_an_open_run_gets_the_run_its_state_and_what_is_open() -> None:
    async with a_followed_thread() as (scene, _):
        step = line("STEP_STARTED", stepName="plan")
        activity = line("ACTIVITY_SNAPSHOT", messageId="a1", activityType="x", content={"n": 1})
        change = line(
            "ACTIVITY_DELTA",
            messageId="a1",
            activityType="x",
            patch=[{"op": "add", "path": "/n", "value": 2}],
        )
        call = line("TOOL_CALL_START", toolCallId="t1", toolCallName="Bash")
        done_step = line("STEP_STARTED", stepName="done")
        await scene.worker_says(
            run_started(), STATE, TODOS, step, done_step, activity, change, OPEN_TEXT, text("par")
        )
        await scene.worker_says(line("STEP_FINISHED", stepName="done"), call)
        phone = FakeClient("phone")
        scene.opens(phone)
        await scene.worker_says(snapshot("partial"))
        assert phone.frames == [
            snapshot("partial"),
            run_started(),
            STATE,
            TODOS,
            activity,
            change,
            step,
            OPEN_TEXT,
            call,
        ]
        assert all(cursor is None for _, cursor in phone.received)
        await scene.worker_says(text("tial"), CLOSE_TEXT)
        assert phone.frames[-2:] == [text("tial"), CLOSE_TEXT]


async def test_the_state_of_an_earlier_run_is_told_to_a_joiner_of_one_that_did_not_say_it() -> None:
    async with a_followed_thread() as (scene, _):
        await scene.worker_says(run_started("r1"), STATE, TODOS, run_finished("r1"))
        await scene.worker_says(run_started("r2"))
        phone = FakeClient("phone")
        await scene.follows(phone)
        scene.opens(phone)
        await scene.worker_says(snapshot())
        assert phone.frames == [snapshot(), run_started("r2"), STATE, TODOS]


async def test_a_joiner_of_an_idle_thread_gets_the_snapshot_alone() -> None:
    async with a_followed_thread() as (scene, _):
        await scene.worker_says(run_started(), STATE, OPEN_TEXT, CLOSE_TEXT, run_finished())
        phone = FakeClient("phone")
        scene.opens(phone)
        await scene.worker_says(snapshot("all"))
        assert phone.frames == [snapshot("all")]


async def test_a_joiner_of_a_suspended_thread_gets_the_line_that_asks() -> None:
    async with a_followed_thread() as (scene, _):
        await scene.worker_says(run_started(), run_asked("t1"))
        phone = FakeClient("phone")
        scene.opens(phone)
        await scene.worker_says(snapshot("all"))
        assert phone.frames == [snapshot("all"), run_asked("t1")]


async def test_a_run_that_ends_before_the_snapshot_is_not_replayed() -> None:
    async with a_followed_thread() as (scene, _):
        phone = FakeClient("phone")
        await scene.worker_says(run_started(), OPEN_TEXT)
        scene.opens(phone)
        await scene.worker_says(CLOSE_TEXT, run_finished(), snapshot("all"))
        assert phone.frames == [snapshot("all")]


async def test_opening_the_thread_one_follows_is_an_open_like_any_other() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), OPEN_TEXT)
        desktop.take()
        scene.opens(desktop)
        await scene.worker_says(text("inside the snapshot"), snapshot("again"), text("after"))
        assert desktop.frames == [snapshot("again"), run_started(), OPEN_TEXT, text("after")]


async def test_a_client_that_opens_twice_begins_with_the_last_snapshot() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started())
        desktop.take()
        scene.opens(desktop)
        scene.opens(desktop)
        await scene.worker_says(snapshot("one"), text("between"), snapshot("two"), text("after"))
        assert desktop.frames == [snapshot("one"), snapshot("two"), run_started(), text("after")]


async def test_a_snapshot_nobody_asked_for_goes_to_every_follower() -> None:
    async with a_followed_thread() as (scene, desktop):
        phone = FakeClient("phone")
        await scene.follows(phone)
        await scene.worker_says(snapshot("news"))
        assert desktop.frames == phone.frames == [snapshot("news")]


async def test_a_chunk_that_a_joiner_cannot_place_is_withheld_from_it_alone() -> None:
    async with a_followed_thread() as (scene, desktop):
        first = line("TOOL_CALL_CHUNK", toolCallId="t1", toolCallName="Bash", delta="{")
        rest = line("TOOL_CALL_CHUNK", delta="}")
        other = line("TEXT_MESSAGE_CHUNK", messageId="m2", delta="a")
        more = line("TEXT_MESSAGE_CHUNK", delta="b")
        await scene.worker_says(run_started(), first)
        phone = FakeClient("phone")
        scene.opens(phone)
        await scene.worker_says(snapshot())
        phone.take()
        await scene.worker_says(rest, other, more)
        assert desktop.frames[-3:] == [rest, other, more]
        assert phone.frames == [other, more]


async def test_a_state_that_outgrows_its_log_is_thinned_by_what_later_patches_overwrite() -> None:
    async with a_followed_thread(join_lines=8) as (scene, _):
        deltas = [
            line("STATE_DELTA", delta=[{"op": "add", "path": "/usage", "value": n}])
            for n in range(20)
        ]
        await scene.worker_says(run_started(), STATE, TODOS, *deltas)
        phone = FakeClient("phone")
        scene.opens(phone)
        await scene.worker_says(snapshot())
        assert phone.frames[:4] == [snapshot(), run_started(), STATE, TODOS]
        assert phone.frames[-1] == deltas[-1]
        assert len(phone.frames) < 4 + 8


async def test_a_joiner_of_a_state_that_can_not_be_kept_gets_it_with_the_next_snapshot() -> None:
    async with a_followed_thread(join_lines=8) as (scene, desktop):
        deltas = [
            line("STATE_DELTA", delta=[{"op": "add", "path": f"/k{n}", "value": n}])
            for n in range(20)
        ]
        await scene.worker_says(run_started(), STATE, *deltas)
        phone = FakeClient("phone")
        scene.opens(phone)
        await scene.worker_says(snapshot())
        phone.take()
        await scene.worker_says(TODOS, text("live"))
        assert phone.frames == [text("live")]
        assert desktop.frames[-2:] == [TODOS, text("live")]
        await scene.worker_says(STATE, TODOS)
        assert phone.frames == [text("live"), STATE, TODOS]


async def test_who_joined_between_runs_is_told_what_a_patch_applies_to_before_the_patch() -> None:
    """A worker need not repeat the state in every run."""
    async with a_followed_thread() as (scene, desktop):
        shown = line("ACTIVITY_SNAPSHOT", messageId="a", activityType="x", content={"n": 1})
        change = line("ACTIVITY_DELTA", messageId="a", activityType="x", patch=[])
        await scene.worker_says(run_started(), STATE, shown, run_finished())
        phone = FakeClient("phone")
        await scene.follows(phone)
        await scene.worker_says(run_started("r2"), change, TODOS, TODOS)
        assert phone.frames == [run_started("r2"), shown, change, STATE, TODOS, TODOS]
        assert desktop.frames[-3:] == [change, TODOS, TODOS]


async def test_an_activity_that_is_to_be_kept_is_not_replaced_for_a_joiner_either() -> None:
    async with a_followed_thread() as (scene, _):
        shown = line("ACTIVITY_SNAPSHOT", messageId="a", activityType="x", content={"n": 1})
        ignored = line(
            "ACTIVITY_SNAPSHOT", messageId="a", activityType="x", content={}, replace=False
        )
        await scene.worker_says(run_started(), shown, ignored)
        phone = FakeClient("phone")
        scene.opens(phone)
        await scene.worker_says(snapshot())
        assert phone.frames == [snapshot(), run_started(), shown]


@virtual_time
async def test_an_open_without_a_snapshot_is_answered_after_ninety_seconds() -> None:
    """A foreign worker may not know the frame; its client must not wait for ever."""
    async with a_registry(announces_ready=False) as scene:
        client = FakeClient()
        scene.opens(client)
        await wait_all_tasks_blocked()
        await anyio.sleep(89)
        assert client.frames == []
        await anyio.sleep(2)
        (error,) = client.take()
        assert error["type"] == "RUN_ERROR"
        assert "90 s" in error["message"]
        await scene.worker_says(run_started())
        assert client.frames == [run_started()]


async def test_messages_sent_right_behind_the_open_are_not_held_for_the_snapshot() -> None:
    """The extension opens and sends at once; it does not wait."""
    async with a_registry() as scene:
        client = FakeClient()
        scene.opens(client)
        scene.sends(client, message())
        await wait_all_tasks_blocked()
        await scene.worker_says(READY)
        assert scene.worker.sent_types == ["resume_conversation", "run_agent_input"]
