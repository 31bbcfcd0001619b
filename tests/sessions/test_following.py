"""Decisions 1, 3 and 14: who follows what, what is forwarded, and how a mistake is answered."""

import json

import pytest
from anyio import wait_all_tasks_blocked

from tests.support.fakes import FakeClient
from tests.support.scenes import (
    PROJECT,
    READY,
    a_followed_thread,
    a_registry,
    line,
    message,
    run_finished,
    run_started,
    snapshot,
    text,
)


async def test_two_opens_of_a_thread_launch_one_worker_that_gets_both_frames_unchanged() -> None:
    async with a_registry() as scene:
        first, second = FakeClient("first"), FakeClient("second")
        pretty = b'{ "type" : "resume_conversation","id":"c1","project_dir":"/other/../work" }'
        scene.sends(first, pretty)
        scene.opens(second, project="/work", model="openai:other")
        await wait_all_tasks_blocked()
        await scene.worker_says(READY)
        assert len(scene.launcher.launches) == 1
        assert scene.launcher.launches[0][1].model is None
        assert scene.worker.sent[0] == pretty
        assert len(scene.worker.sent) == 2


async def test_each_opener_gets_its_own_snapshot_and_everyone_the_events_after() -> None:
    async with a_registry() as scene:
        first, second = FakeClient("first"), FakeClient("second")
        scene.opens(first)
        scene.opens(second)
        await wait_all_tasks_blocked()
        await scene.worker_says(READY, snapshot("a"), snapshot("b"), run_started(), text("hi"))
        assert first.frames == [snapshot("a"), run_started(), text("hi")]
        assert second.frames == [snapshot("b"), run_started(), text("hi")]


async def test_followers_get_the_very_bytes_of_the_worker() -> None:
    async with a_followed_thread() as (scene, desktop):
        phone = FakeClient("phone")
        await scene.follows(phone)
        odd = b'{"type":"CUSTOM","value":1E2,"x":"\\u00fc", "name":"n"}'
        await scene.worker_says(odd)
        assert desktop.frames[-1] is phone.frames[-1]
        assert desktop.frames[-1] == odd


async def test_lines_in_a_row_that_decide_nothing_are_delivered_as_one_for_everybody() -> None:
    """What is made of them is made once; a line that decides something ends the row."""
    async with a_followed_thread() as (scene, desktop):
        phone = FakeClient("phone")
        await scene.follows(phone)
        texts = [text(letter) for letter in "abcd"]
        await scene.worker_says(run_started(), *texts[:3], run_finished(), texts[3])
        assert desktop.frames == [run_started(), *texts[:3], run_finished(), texts[3]]
        assert desktop.received == phone.received
        assert [[line for line, _ in row] for row in desktop.rows] == [texts[:3], texts[3:]]
        assert all(ours is theirs for ours, theirs in zip(desktop.rows, phone.rows, strict=True))
        places = [cursor.sequence for _, cursor in desktop.received if cursor]
        assert places == sorted(set(places))


async def test_a_new_session_gets_an_id_of_its_own() -> None:
    async with a_registry() as scene:
        scene.sends(FakeClient(), line("new_session", project_dir=PROJECT))
        scene.sends(FakeClient(), line("new_session", project_dir=PROJECT))
        await wait_all_tasks_blocked()
        ids = {key.conversation_id for key, _ in scene.launcher.launches}
        assert len(ids) == 2


async def test_a_client_is_on_one_thread_at_a_time() -> None:
    async with a_followed_thread() as (scene, desktop):
        first_worker = scene.worker
        await scene.follows(desktop, "c2")
        first_worker.says(run_started("old"))
        await scene.worker_says(run_started("new"))
        assert desktop.frames == [run_started("new")]


async def test_the_options_of_the_first_open_are_used_again_at_a_relaunch() -> None:
    async with a_registry() as scene:
        client = FakeClient()
        scene.opens(
            client,
            model="openai:m",
            mode="plan",
            max_turns=0,
            system_prompt="",
            sandbox_directories=[],
            custom_instructions="be kind",
        )
        await wait_all_tasks_blocked()
        await scene.worker_says(READY, snapshot())
        await scene.worker_dies()
        scene.opens(client, model="openai:another")
        await wait_all_tasks_blocked()
        first, again = (options for _, options in scene.launcher.launches)
        assert again == first
        assert (first.model, first.mode, first.custom_instructions) == (
            "openai:m",
            "plan",
            "be kind",
        )
        assert (first.max_turns, first.system_prompt, first.sandbox_directories) == (None, None, ())


@pytest.mark.parametrize(
    "frame",
    [
        message(),
        line("interrupt"),
        line("user_question_response", id="q", answers=[]),
        line("command", id="1", name="get_state", args={}),
    ],
)
async def test_frames_of_a_follower_reach_its_worker_unchanged(frame: bytes) -> None:
    async with a_followed_thread() as (scene, desktop):
        scene.sends(desktop, frame)
        assert scene.worker.sent[-1] == frame


async def test_a_frame_over_several_lines_reaches_the_worker_as_one() -> None:
    async with a_followed_thread() as (scene, desktop):
        scene.sends(desktop, json.dumps(json.loads(message("a\nb")), indent=2).encode())
        assert b"\n" not in scene.worker.sent[-1]
        assert json.loads(scene.worker.sent[-1]) == json.loads(message("a\nb"))


async def test_frames_wait_in_order_for_a_worker_that_is_not_ready() -> None:
    async with a_registry() as scene:
        client = FakeClient()
        scene.opens(client)
        scene.sends(client, message("one", "u1"))
        scene.sends(client, message("two", "u2"))
        await wait_all_tasks_blocked()
        assert scene.worker.sent == []
        await scene.worker_says(READY)
        assert scene.worker.sent_types == [
            "resume_conversation",
            "run_agent_input",
            "run_agent_input",
        ]
        assert scene.worker.sent[1:] == [message("one", "u1"), message("two", "u2")]


async def test_a_foreign_worker_that_writes_no_ready_line_gets_its_frames_at_once() -> None:
    async with a_registry(announces_ready=False) as scene:
        scene.opens(FakeClient())
        await wait_all_tasks_blocked()
        assert scene.worker.sent_types == ["resume_conversation"]


async def test_the_ready_line_is_not_for_clients() -> None:
    async with a_registry(announces_ready=False) as scene:
        client = FakeClient()
        scene.opens(client)
        await wait_all_tasks_blocked()
        await scene.worker_says(READY, snapshot())
        assert client.types == ["MESSAGES_SNAPSHOT"]


async def test_only_run_inputs_and_commands_relaunch_a_worker() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_dies()
        desktop.take()
        scene.sends(desktop, line("interrupt"))
        scene.sends(desktop, line("user_question_response", id="q"))
        await wait_all_tasks_blocked()
        assert len(scene.launcher.workers) == 1
        assert desktop.frames == []
        scene.sends(desktop, message())
        await wait_all_tasks_blocked()
        await scene.worker_says(READY)
        assert len(scene.launcher.workers) == 2
        assert scene.worker.sent == [message()]


async def test_the_result_of_a_command_goes_to_who_asked_only() -> None:
    async with a_followed_thread() as (scene, desktop):
        phone = FakeClient("phone")
        await scene.follows(phone)
        ask = line("command", id="same", name="x", args={})
        scene.sends(desktop, ask)
        scene.sends(phone, ask)
        first = line("command_result", id="same", success=True, data=1)
        second = line("command_result", id="same", success=True, data=2)
        await scene.worker_says(first, second)
        assert desktop.frames == [first]
        assert phone.frames == [second]


async def test_a_command_that_no_worker_can_take_is_answered_as_one() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_dies()
        desktop.take()
        scene.launcher.fails_with = "no such directory"
        scene.sends(desktop, line("command", id="7", name="x", args={}))
        await wait_all_tasks_blocked()
        (result,) = desktop.take()
        assert (result["id"], result["success"], result["code"]) == ("7", False, "no_worker")
        assert "no such directory" in result["error"]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (line("new_session", project_dir="relative/dir"), ["absolute path", "relative/dir"]),
        (line("new_session"), ["project_dir is missing", "absolute path"]),
        (line("new_session", project_dir=""), ["absolute path"]),
        (line("new_session", project_dir=7), ["project_dir", "int", "str"]),
        (line("new_session", project_dir="/p\0q"), ["absolute path"]),
        (line("resume_conversation", project_dir="/p"), ["conversation id"]),
        (line("resume_conversation", project_dir="/p", id=""), ["conversation id"]),
        (line("resume_conversation", project_dir="/p", id="../up"), ["'../up'", "letters"]),
        (line("resume_conversation", project_dir="/p", id=".hidden"), ["'.hidden'", "'.'"]),
        (line("resume_conversation", project_dir="/p", id="x" * 256), ["255"]),
        (line("resume_conversation", project_dir="/p", id="a/b"), ["'a/b'"]),
        (line("resume_conversation", project_dir="/p", id="c", mode="yolo"), ["yolo", "plan"]),
        (line("resume_conversation", project_dir="/p", id="c", max_turns="9"), ["max_turns"]),
        (line("resume_conversation", project_dir="/p", id="c", max_turns=-1), ["max_turns", "-1"]),
        (message(), ["open a thread"]),
        (line("interrupt"), ["open a thread"]),
        (line("run_agent_input"), ["input"]),
        (line("run_agent_input", input={"resume": "all"}), ["resume"]),
        (line("run_agent_input", input={"resume": [{}]}), ["interruptId"]),
        (line("stop_thread", project_dir="p", id="c"), ["absolute path"]),
        (line("stop_thread", project_dir="/p"), ["conversation id"]),
        (line("command", id=1, name="x"), ["id", "int"]),
    ],
)
async def test_bad_input_gets_one_clear_error_and_launches_nothing(
    frame: bytes, words: list[str]
) -> None:
    async with a_registry() as scene:
        client = FakeClient()
        scene.sends(client, frame)
        await wait_all_tasks_blocked()
        (error,) = client.take()
        assert error["type"] == "RUN_ERROR"
        assert "runId" not in error
        for word in words:
            assert word in error["message"]
        assert scene.launcher.launches == []


async def test_a_command_without_a_thread_is_answered_as_a_command() -> None:
    async with a_registry() as scene:
        client = FakeClient()
        scene.sends(client, line("command", id="7", name="x", args={}))
        (result,) = client.take()
        assert (result["type"], result["id"], result["code"]) == (
            "command_result",
            "7",
            "no_worker",
        )


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"not json",
        b"[]",
        b"1",
        b'{"type":7}',
        b'{"no":"type"}',
        b"\xff\xfe",
        b'{"type":"interrupt"',
        b'{"type":"x","a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        line("ping"),
        line("browser_command", id="1"),
        line("RUN_STARTED", threadId="c1", runId="forged"),
        line("no_such_frame"),
    ],
)
async def test_undecodable_and_unknown_frames_are_ignored_and_counted(frame: bytes) -> None:
    async with a_followed_thread() as (scene, desktop):
        sent = len(scene.worker.sent)
        scene.sends(desktop, frame)
        await wait_all_tasks_blocked()
        assert desktop.frames == []
        assert len(scene.worker.sent) == sent
        assert scene.registry.ignored.total() == 1


async def test_a_frame_that_is_too_long_for_a_worker_is_refused_whole() -> None:
    async with a_followed_thread(max_line_bytes=1000) as (scene, desktop):
        sent = len(scene.worker.sent)
        scene.sends(desktop, message("x" * 1000))
        (error,) = desktop.take()
        assert "1,000" in error["message"]
        assert "runId" not in error
        scene.sends(desktop, line("command", id="7", name="x", args="x" * 1000))
        (result,) = desktop.take()
        assert (result["id"], result["success"]) == ("7", False)
        assert len(scene.worker.sent) == sent


async def test_a_worker_that_refuses_a_frame_costs_its_sender_one_error() -> None:
    async with a_followed_thread() as (scene, desktop):
        phone = FakeClient("phone")
        await scene.follows(phone)
        scene.worker.refuses = "it does not read what it was sent before"
        scene.sends(desktop, message())
        scene.opens(phone)
        assert "does not read" in desktop.take()[0]["message"]
        assert "does not read" in phone.take()[0]["message"]
        await scene.worker_says(run_started())
        assert desktop.frames == phone.frames == [run_started()]


async def test_requests_that_pile_up_are_refused_at_a_limit() -> None:
    async with a_registry(max_waiting=2) as scene:
        client = FakeClient()
        for _ in range(3):
            scene.opens(client)
        (error,) = client.take()
        assert "try again" in error["message"]
        await wait_all_tasks_blocked()
        await scene.worker_says(READY, snapshot(), snapshot())
        assert client.types == ["MESSAGES_SNAPSHOT", "MESSAGES_SNAPSHOT"]
        client.take()
        scene.sends(client, message())
        assert client.frames == []


@pytest.mark.parametrize(
    "bad",
    [b"rubbish", b'{"type":"X","d":"\xff"}', b"[1]", b'{"type":3}', b'{"type":"A","runId":{}}'],
)
async def test_a_bad_line_of_a_worker_is_dropped_and_the_next_ones_count_on(bad: bytes) -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), bad, b"", text("after"), run_finished())
        assert desktop.frames == [run_started(), text("after"), run_finished()]
        cursors = [cursor.sequence for _, cursor in desktop.received if cursor]
        # ready and the snapshot were lines 1 and 2; the bad line and the empty one count as lines.
        assert cursors == [3, 6, 7]
