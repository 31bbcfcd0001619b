"""What a panel asks of a worker: answered at once, in order, beside whatever runs."""

import anyio
import msgspec
import pytest
from trio.testing import MockClock

from agent.domain.approval import Effect
from agent.domain.project import ConversationSummary
from tests.agent.support.fakes import FakeTool, Line
from tests.agent.support.scene import Scene, calls, one_session, says

VIRTUAL = pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})]
)


async def reply(scene: Scene, kind: str, start: int = 0) -> Line:
    return await scene.lines.wait_for(lambda line: line["type"] == kind, start)


async def until_asked(scene: Scene) -> Line:
    line = await reply(scene, "CUSTOM")
    assert line["name"] == "approval_request"
    return msgspec.convert(line["value"], dict[str, object])


async def test_the_lists_have_the_shapes_that_panels_read() -> None:
    async with one_session() as scene:
        scene.project.saved = [ConversationSummary("c", "Hello", "2026-01-02T03:04:05Z", 2)]
        scene.project.typed = ["one", "two"]
        for kind in ("list_conversations", "list_history", "list_skills", "list_models"):
            await scene.send(type=kind, project_dir="/project")
        assert await reply(scene, "conversations") == {
            "type": "conversations",
            "conversations": [
                {
                    "id": "c",
                    "title": "Hello",
                    "updated_at": "2026-01-02T03:04:05Z",
                    "message_count": 2,
                }
            ],
        }
        assert (await reply(scene, "history"))["history"] == ["one", "two"]
        assert (await reply(scene, "skills"))["skills"] == [
            {"name": "review", "description": "How to review.", "scope": "project"}
        ]
        models = await reply(scene, "models")
        assert models["models"] == ["fake:one", "fake:two"]
        assert models["current"] == "fake:one"


async def test_what_is_typed_can_be_called_back_at_once() -> None:
    async with one_session(says("ok")) as scene:
        await scene.ask("list the files", "m1")
        await scene.send(type="list_history")
        assert (await reply(scene, "history"))["history"] == ["list the files"]


async def test_a_prompt_that_nobody_typed_is_not_called_back() -> None:
    async with one_session(says("a"), says("b")) as scene:
        await scene.turn("1", "m1")
        await scene.send(type="run_agent_input", input={"messages": []})
        await scene.send(type="list_history")
        assert (await reply(scene, "history"))["history"] == ["1"]


async def test_panels_are_answered_in_the_middle_of_a_run_between_whole_lines() -> None:
    gate = anyio.Event()
    tool = FakeTool(work=gate.wait)
    async with one_session(calls(("c1", "Do", "x")), says("ok"), mode="auto", tool=tool) as scene:
        await scene.ask()
        await scene.lines.wait_for(lambda line: line["type"] == "TOOL_CALL_END")
        for kind in ("list_models", "list_conversations", "list_history", "list_skills"):
            await scene.send(type=kind)
        for kind in ("models", "conversations", "history", "skills"):
            await reply(scene, kind)
        assert "RUN_FINISHED" not in scene.types()
        gate.set()
        await scene.wait_end()


async def test_replies_of_one_kind_leave_in_the_order_of_their_requests() -> None:
    """Who is hurt: who asked first would be shown what another one chose."""
    async with one_session() as scene:
        await scene.send(type="list_models")
        await scene.send(type="select_model", model="fake:two")
        await scene.send(type="list_models")
        await scene.send(type="set_mode", mode="plan")
        await scene.lines.wait_for(lambda line: line.get("mode") == "plan")
        told = [(line["type"], line.get("current"), line.get("mode")) for line in scene.lines.lines]
        assert told == [
            ("models", "fake:one", None),
            ("models", "fake:two", None),
            ("mode", None, "standard"),
            ("models", "fake:two", None),
            ("mode", None, "plan"),
        ]


async def test_a_chosen_model_answers_the_next_turn() -> None:
    async with one_session(says("one")) as scene:
        scene.models.other.responses.append(says("two"))
        await scene.turn("a", "m1")
        await scene.send(type="select_model", model="fake:two")
        await reply(scene, "mode")
        await scene.turn("b", "m2")
        assert len(scene.model.requests) == len(scene.models.other.requests) == 1


async def test_a_model_that_does_not_exist_changes_nothing_and_both_replies_come() -> None:
    async with one_session() as scene:
        await scene.send(type="select_model", model="nonsense")
        await reply(scene, "mode")
        assert scene.lines.lines[0]["current"] == "fake:one"
        assert "model_not_selected" in scene.log.names()


@pytest.mark.parametrize("mode", ["yolo", "", None, 3])
async def test_a_mode_that_can_not_be_is_ignored_and_the_reply_shows_the_old_one(
    mode: object,
) -> None:
    async with one_session() as scene:
        await scene.send(type="set_mode", mode=mode)
        assert (await reply(scene, "mode"))["mode"] == "standard"


async def test_a_mode_counts_from_the_next_turn_also_inside_a_run() -> None:
    """Who is hurt: who chooses 'plan' because an agent is about to do harm."""
    gate = anyio.Event()
    tool = FakeTool(work=gate.wait)
    async with one_session(
        calls(("c1", "Do", "a")), calls(("c2", "Do", "b")), says("ok"), mode="auto", tool=tool
    ) as scene:
        await scene.ask()
        await scene.lines.wait_for(lambda line: line["type"] == "TOOL_CALL_END")
        await scene.send(type="set_mode", mode="plan")
        await reply(scene, "mode")
        gate.set()
        await scene.wait_end()
        assert tool.ran == ["a"]


# -- tool requests -----------------------------------------------------------------------------


async def test_a_tool_request_that_reads_is_answered_without_asking() -> None:
    async with one_session() as scene:
        await scene.send(type="tool_request", id="t1", tool_name="Look", tool_args='{"what":"x"}')
        assert await reply(scene, "tool_result") == {
            "type": "tool_result",
            "id": "t1",
            "success": True,
            "output": "did x",
            "error": "",
        }


async def test_a_request_that_needs_approval_asks_and_runs_once_it_is_given() -> None:
    async with one_session() as scene:
        await scene.send(type="tool_request", id="t1", tool_name="Do", tool_args='{"what":"x"}')
        asked = await until_asked(scene)
        assert asked == {
            "type": "approval_request",
            "tool_name": "Do",
            "tool_args": '{"what":"x"}',
            "tool_call_id": "t1",
        }
        assert scene.tool.ran == []
        await scene.send(type="approval_response", tool_call_id="other", approved=True)
        await scene.send(type="approval_response", tool_call_id="t1", approved=True)
        assert (await reply(scene, "tool_result"))["success"] is True
        await scene.send(type="approval_response", tool_call_id="t1", approved=True)
        assert scene.tool.ran == ["x"]
        assert scene.history.kinds() == [
            "conversation",
            "tool_request",
            "tool_request_result",
        ]


@pytest.mark.parametrize("approved", [False, None, "true", 1])
async def test_a_request_that_is_not_plainly_approved_never_runs(approved: object) -> None:
    async with one_session() as scene:
        await scene.send(type="tool_request", id="t1", tool_name="Do", tool_args="{}")
        await until_asked(scene)
        await scene.send(type="approval_response", tool_call_id="t1", approved=approved)
        result = await reply(scene, "tool_result")
        assert result["success"] is False
        assert "not approved" in str(result["error"])
        assert scene.tool.ran == []


@VIRTUAL
async def test_an_approval_that_nobody_gives_expires_as_denied(anyio_backend: object) -> None:
    del anyio_backend
    async with one_session() as scene:
        await scene.send(type="tool_request", id="t1", tool_name="Do", tool_args="{}")
        await anyio.sleep(299)
        assert "tool_result" not in scene.types()
        await anyio.sleep(2)
        assert "tool_result" in scene.types()
        assert scene.tool.ran == []
        await scene.send(type="approval_response", tool_call_id="t1", approved=True)
        await anyio.wait_all_tasks_blocked()
        assert scene.tool.ran == []
        assert scene.types().count("tool_result") == 1


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ({"tool_name": "Nope"}, "no tool 'Nope'"),
        ({"tool_name": None}, "no tool"),
        ({"tool_name": "Look", "tool_args": "{"}, "do not fit"),
        ({"tool_name": "Look", "tool_args": {"what": "x"}}, "must be a string"),
    ],
)
async def test_a_request_that_can_not_be_run_is_one_failed_result(
    frame: dict[str, object], words: str
) -> None:
    async with one_session() as scene:
        await scene.send(type="tool_request", id="t1", **frame)
        result = await reply(scene, "tool_result")
        assert (result["id"], result["success"]) == ("t1", False)
        assert words in str(result["error"])
        assert scene.types() == ["tool_result"]


async def test_plan_mode_refuses_a_panels_change_too() -> None:
    async with one_session(mode="plan") as scene:
        await scene.send(type="tool_request", id="t1", tool_name="Do", tool_args="{}")
        assert "the mode is 'plan'" in str((await reply(scene, "tool_result"))["error"])


async def test_requests_do_not_wait_for_each_other_nor_for_a_run() -> None:
    gate = anyio.Event()
    tool = FakeTool(work=gate.wait)
    async with one_session(calls(("c1", "Do", "x")), says("ok"), mode="auto", tool=tool) as scene:
        await scene.ask()
        await scene.lines.wait_for(lambda line: line["type"] == "TOOL_CALL_END")
        await scene.send(type="tool_request", id="slow", tool_name="Do", tool_args="{}")
        await scene.send(type="tool_request", id="fast", tool_name="Look", tool_args="{}")
        assert (await reply(scene, "tool_result"))["id"] == "fast"
        gate.set()
        await scene.lines.wait_for(lambda line: line.get("id") == "slow")
        await scene.wait_end()


async def test_a_request_is_no_part_of_what_the_model_reads_or_a_snapshot_shows() -> None:
    async with one_session(says("ok")) as scene:
        await scene.send(type="tool_request", id="t1", tool_name="Look", tool_args="{}")
        await reply(scene, "tool_result")
        await scene.turn("hi", "m1")
        assert [m.role for m in scene.model.requests[0].messages] == ["user"]
        assert [m["role"] for m in await scene.snapshot()] == ["user", "assistant"]


async def test_a_tools_state_of_a_request_is_kept_for_the_next_snapshot() -> None:
    tool = FakeTool(effect=Effect.NOTES, state={"todos": [{"content": "x", "status": "pending"}]})
    async with one_session(says("ok"), tool=tool) as scene:
        await scene.send(type="tool_request", id="t1", tool_name="Do", tool_args="{}")
        await reply(scene, "tool_result")
        lines = await scene.turn("hi", "m1")
        assert msgspec.convert(lines[1]["snapshot"], dict[str, object])["todos"] == [
            {"content": "x", "status": "pending"}
        ]


async def test_the_end_answers_what_is_under_way_once() -> None:
    async with one_session(tool=FakeTool(work=anyio.sleep_forever), mode="auto") as scene:
        await scene.send(type="tool_request", id="t1", tool_name="Do", tool_args="{}")
        await anyio.wait_all_tasks_blocked()
        scene.session.end(0)
        result = await reply(scene, "tool_result")
        assert result["success"] is False
        assert scene.types().count("tool_result") == 1


async def test_a_bug_in_a_tool_is_its_failed_result_and_the_worker_lives() -> None:
    async def bug() -> None:
        raise ZeroDivisionError("secret")

    async with one_session(tool=FakeTool(work=bug), mode="auto") as scene:
        await scene.send(type="tool_request", id="t1", tool_name="Do", tool_args="{}")
        assert "secret" not in str((await reply(scene, "tool_result"))["error"])
        await scene.send(type="command", id="k", name="ping")
        assert scene.lines.lines[-1]["success"] is True


async def test_a_full_disk_keeps_a_request_from_running() -> None:
    async with one_session(mode="auto") as scene:
        scene.history.is_full = True
        await scene.send(type="tool_request", id="t1", tool_name="Do", tool_args="{}")
        assert "could not be written" in str((await reply(scene, "tool_result"))["error"])
        assert scene.tool.ran == []


async def test_a_request_is_served_in_the_mode_that_was_chosen_before_it() -> None:
    """Who is hurt: a page that sets `plan` and asks for a command that must not run any more."""
    async with one_session(mode="auto") as scene:
        await scene.send(type="set_mode", mode="plan")
        await scene.send(type="tool_request", id="t1", tool_name="Do", tool_args='{"what":"x"}')
        told = await scene.lines.wait_for(lambda line: line["type"] == "tool_result")
        assert "the mode is 'plan'" in str(told["error"])
        assert scene.tool.ran == []
