"""One turn is one run: what leaves, in which order, and what is on the disk before it does."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import anyio
import msgspec
import pytest

from agent.domain.approval import Effect
from agent.domain.messages import ToolCall
from agent.domain.ports import (
    ArgumentsPiece,
    CallBegan,
    ModelFailed,
    Piece,
    ReasoningPiece,
    Retrying,
    TextPiece,
)
from tests.agent.support.fakes import (
    DONE,
    BrokenPiece,
    FakeHistory,
    FakeLines,
    FakeTool,
    Line,
)
from tests.agent.support.scene import calls, one_session, says
from tests.support.agui_model import Verifier


def verified(lines: Iterable[Line]) -> None:
    """The lines of runs follow the protocol's order."""
    verifier = Verifier()
    for line in lines:
        kind = str(line["type"])
        is_bare = kind == "RUN_ERROR" and "runId" not in line
        if kind.isupper() and not is_bare and kind != "MESSAGES_SNAPSHOT":
            verifier.feed(line)
    assert verifier.run is None


def kinds(lines: Iterable[Line]) -> list[str]:
    return [str(line["type"]) for line in lines]


async def test_a_text_run_is_framed_and_streamed_piece_by_piece() -> None:
    async with one_session(says("Hel", "lo")) as scene:
        lines = await scene.turn("hi", "m1", runId="r1")
        verified(lines)
        assert kinds(lines) == [
            "RUN_STARTED",
            "STATE_SNAPSHOT",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "STATE_DELTA",
            "RUN_FINISHED",
        ]
        started, finished = lines[0], lines[-1]
        assert (started["threadId"], started["runId"]) == ("c", "r1")
        assert started["protocolVersion"] == "1.0"
        assert lines[1]["snapshot"] == {
            "todos": [],
            "usage": [],
            "backgroundTasks": {"running": 0, "jobs": []},
            "subagents": {},
            "queue": [],
            "retry": None,
            "mcpServers": [],
        }
        assert finished["outcome"] == {"type": "success"}
        assert finished["usage"] == [
            {
                "provider": "fake",
                "model": "one",
                "inputTokens": 10,
                "outputTokens": 5,
                "totalTokens": 15,
            }
        ]
        assert finished["result"] == {"totalToolCalls": 0}


async def test_followers_learn_the_users_message_from_the_start_of_the_run() -> None:
    """Who is hurt: the second window would show answers to questions it never saw."""
    async with one_session(says("ok")) as scene:
        lines = await scene.turn("what?", "m1")
        echo = msgspec.convert(lines[0]["input"], dict[str, object])
        assert echo["messages"] == [{"id": "m1", "role": "user", "content": "what?"}]


async def test_a_used_run_id_is_replaced_by_a_fresh_one_also_after_a_restart() -> None:
    history = FakeHistory()
    async with one_session(says("a"), history=history) as scene:
        await scene.turn("1", "m1", runId="r1")
    async with one_session(says("b"), history=history) as scene:
        lines = await scene.turn("2", "m2", runId="r1")
        assert lines[0]["runId"] != "r1"
        assert lines[-1]["runId"] == lines[0]["runId"]


async def test_reasoning_and_text_are_messages_of_their_own() -> None:
    response: list[Piece] = [ReasoningPiece("hm"), TextPiece("so")]
    response += [ReasoningPiece("but"), TextPiece("no"), DONE]
    async with one_session(response) as scene:
        verified(await scene.turn())
        told = [(m["role"], m["content"]) for m in (await scene.snapshot())[1:]]
        assert told == [
            ("reasoning", "hm"),
            ("assistant", "so"),
            ("reasoning", "but"),
            ("assistant", "no"),
        ]


async def test_a_call_that_needs_nobody_runs_and_its_result_goes_back_to_the_model() -> None:
    async with one_session(calls(("c1", "Look", "around")), says("done")) as scene:
        lines = await scene.turn()
        verified(lines)
        result = next(line for line in lines if line["type"] == "TOOL_CALL_RESULT")
        assert result["toolCallId"] == "c1"
        assert msgspec.json.decode(str(result["content"])) == {
            "success": True,
            "output": "did around",
            "error": "",
        }
        second = scene.model.requests[1]
        assert [m.role for m in second.messages] == ["user", "assistant", "tool"]
        assert lines[-1]["result"] == {"totalToolCalls": 1}


async def test_all_calls_that_need_approval_suspend_together_after_the_others_ran() -> None:
    response = calls(("c1", "Do", "one"), ("c2", "Look", "two"), ("c3", "Do", "three"))
    async with one_session(response) as scene:
        lines = await scene.turn()
        verified(lines)
        assert scene.tool.ran == ["two"]
        outcome = msgspec.convert(lines[-1]["outcome"], dict[str, object])
        assert outcome["type"] == "interrupt"
        interrupts = msgspec.convert(outcome["interrupts"], list[dict[str, object]])
        assert [(i["id"], i["toolCallId"], i["reason"]) for i in interrupts] == [
            ("c1", "c1", "tool_call"),
            ("c3", "c3", "tool_call"),
        ]
        assert "three" in str(interrupts[1]["message"])


async def test_an_approved_call_runs_once_and_a_declined_one_never() -> None:
    response = calls(("c-1", "Do", "one"), ("c-2", "Do", "two"))
    async with one_session(response, says("well")) as scene:
        await scene.turn()
        start = len(scene.lines.lines)
        await scene.answer(c_1=None, c_2={"approved": False, "reason": "too risky"})
        await scene.wait_end(start)
        lines = scene.lines.lines[start:]
        verified(lines)
        assert scene.tool.ran == ["one"]
        assert kinds(lines)[:4] == [
            "RUN_STARTED",
            "STATE_SNAPSHOT",
            "TOOL_CALL_RESULT",
            "TOOL_CALL_RESULT",
        ]
        declined = msgspec.json.decode(str(lines[3]["content"]))
        assert declined["success"] is False
        assert "declined by the user: too risky" in declined["error"]
        # A second answer is late: nothing more happens.
        await scene.answer(c_1=None, c_2=None)
        await scene.turn("more", "m9") if scene.model.responses else None
        assert scene.tool.ran == ["one"]


async def test_of_two_answers_at_once_the_first_counts() -> None:
    """Who is hurt: two people at two windows, one of whom believes that she stopped it."""
    async with one_session(calls(("c-1", "Do", "one")), says("well")) as scene:
        await scene.turn()
        start = len(scene.lines.lines)
        await scene.answer("cancelled", c_1=None)
        await scene.answer("resolved", c_1=None)
        await scene.wait_end(start)
        assert scene.tool.ran == []
        assert "answers_ignored" in scene.log.names()


async def test_an_answer_that_comes_while_the_call_runs_is_late() -> None:
    gate = anyio.Event()
    tool = FakeTool(work=gate.wait)
    async with one_session(calls(("c-1", "Do", "one")), says("well"), tool=tool) as scene:
        await scene.turn()
        start = len(scene.lines.lines)
        await scene.answer(c_1=None)
        with anyio.fail_after(60):
            while not tool.ran:
                await anyio.wait_all_tasks_blocked()
        await scene.answer(c_1=None)
        gate.set()
        await scene.wait_end(start)
        await anyio.wait_all_tasks_blocked()
        assert tool.ran == ["one"]
        assert scene.types(start).count("RUN_STARTED") == 1


@pytest.mark.parametrize("payload", [{"approved": "yes"}, {"approved": None}, {"approved": 1}])
async def test_an_answer_that_is_not_plainly_yes_declines(payload: object) -> None:
    """Who is hurt: a client's typo would run a command that its user did not want."""
    async with one_session(calls(("c-1", "Do", "one")), says("ok")) as scene:
        await scene.turn()
        start = len(scene.lines.lines)
        await scene.answer(c_1=payload)
        await scene.wait_end(start)
        assert scene.tool.ran == []


async def test_a_resume_that_leaves_one_open_runs_nothing_and_names_it() -> None:
    response = calls(("c-2", "Do", "two"), ("c-1", "Do", "one"), ("c-3", "Do", "three"))
    async with one_session(response, says("ok")) as scene:
        await scene.turn()
        start = len(scene.lines.lines)
        await scene.answer(c_3=None)
        error = scene.lines.lines[start]
        assert error["type"] == "RUN_ERROR"
        assert "runId" not in error
        assert "missing: c-1, c-2" in str(error["message"])
        assert scene.tool.ran == []
        await scene.answer(c_1=None, c_2=None, c_3=None)
        await scene.wait_end(start + 1)
        assert scene.tool.ran == ["two", "one", "three"]


async def test_a_decision_that_is_answered_in_two_ways_at_once_is_not_made() -> None:
    async with one_session(calls(("c-1", "Do", "x")), says("ok")) as scene:
        await scene.turn()
        start = len(scene.lines.lines)
        yes, no = ({"interruptId": "c-1", "status": each} for each in ("resolved", "cancelled"))
        await scene.send(type="run_agent_input", input={"resume": [yes, no]})
        refused = await scene.lines.wait_for(lambda line: line["type"] == "RUN_ERROR", start)
        assert "in two ways" in str(refused["message"])
        assert "runId" not in refused
        assert scene.tool.ran == []
        await scene.send(type="run_agent_input", input={"resume": [yes, yes]})
        await scene.wait_end(start)
        assert scene.tool.ran == ["x"]


async def test_answers_to_what_is_not_open_are_ignored_and_logged() -> None:
    async with one_session(says("hi")) as scene:
        await scene.answer(nothing=None)
        await scene.turn()
        assert kinds(scene.lines.lines).count("RUN_STARTED") == 1
        assert "answers_ignored" in scene.log.names()


async def test_a_message_that_comes_while_suspended_waits_for_the_answer() -> None:
    async with one_session(calls(("c-1", "Do", "x")), says("one")) as scene:
        await scene.turn("first", "m1")
        start = len(scene.lines.lines)
        await scene.ask("second", "m2", runId="r2")
        await anyio.wait_all_tasks_blocked()
        assert len(scene.lines.lines) == start
        assert scene.history.kinds()[-1] == "input"
        await scene.answer(c_1=None)
        await scene.wait_end(start)
        verified(scene.lines.lines)
        roles = [m.role for m in scene.model.requests[-1].messages]
        assert roles == ["user", "assistant", "tool", "user"]


async def test_a_message_that_the_conversation_has_is_dropped_also_after_a_restart() -> None:
    """Who is hurt: a client that sends again after a lost connection would pay twice."""
    history = FakeHistory()
    async with one_session(says("a"), history=history) as scene:
        await scene.turn("1", "m1")
    async with one_session(says("b"), history=history) as scene:
        await scene.ask("1", "m1")
        await anyio.wait_all_tasks_blocked()
        assert scene.lines.lines == []


async def test_an_empty_input_goes_on_with_a_prompt_that_no_snapshot_shows() -> None:
    async with one_session(says("a"), says("b")) as scene:
        await scene.turn("1", "m1")
        start = len(scene.lines.lines)
        await scene.send(type="run_agent_input", input={"messages": []})
        await scene.wait_end(start)
        assert "input" not in scene.lines.lines[start]
        assert [m["role"] for m in await scene.snapshot()] == ["user", "assistant", "assistant"]
        assert scene.model.requests[1].messages[-1].role == "user"


async def test_an_interrupt_closes_what_is_open_and_ends_the_run_as_cancelled() -> None:
    async with one_session(
        [TextPiece("half"), CallBegan(0, "c1", "Do"), ArgumentsPiece(0, '{"wh')]
    ) as scene:

        async def stall() -> None:
            if any(line["type"] == "TOOL_CALL_ARGS" for line in scene.lines.lines):
                await anyio.sleep_forever()
            await anyio.lowlevel.checkpoint()

        scene.model.before_piece = stall
        await scene.ask()
        await scene.lines.wait_for(lambda line: line["type"] == "TOOL_CALL_ARGS")
        await scene.send(type="interrupt")
        finished = await scene.wait_end()
        verified(scene.lines.lines)
        assert finished["outcome"] == {"type": "cancelled"}
        assert "result" not in finished
        assert kinds(scene.lines.lines)[-3:] == [
            "TOOL_CALL_END",
            "TOOL_CALL_RESULT",
            "RUN_FINISHED",
        ]
        assert scene.history.kinds()[-1] == "run_ended"


async def test_an_interrupt_without_a_run_does_nothing_also_while_suspended() -> None:
    async with one_session(calls(("c-1", "Do", "x")), says("ok")) as scene:
        await scene.turn()
        count = len(scene.lines.lines)
        await scene.send(type="interrupt")
        await anyio.wait_all_tasks_blocked()
        assert len(scene.lines.lines) == count
        await scene.answer(c_1=None)
        await scene.wait_end(count)
        assert scene.tool.ran == ["x"]


async def test_a_stopped_call_is_told_as_stopped() -> None:
    async with one_session(
        calls(("c1", "Do", "x")), mode="auto", tool=FakeTool(work=anyio.sleep_forever)
    ) as scene:
        await scene.ask()
        await scene.lines.wait_for(lambda line: line["type"] == "TOOL_CALL_END")
        await anyio.wait_all_tasks_blocked()
        await scene.send(type="interrupt")
        await scene.wait_end()
        result = next(line for line in scene.lines.lines if line["type"] == "TOOL_CALL_RESULT")
        assert "Stopped before it was done" in str(result["content"])


async def test_a_models_failure_is_one_clear_error_and_keeps_what_arrived() -> None:
    broken = BrokenPiece(error=ModelFailed("The key was refused. Check it.", "model_key"))
    async with one_session([TextPiece("so far"), broken], says("again")) as scene:
        lines = await scene.turn("1", "m1")
        verified(lines)
        error = lines[-1]
        assert error["message"] == "The key was refused. Check it."
        assert error["code"] == "model_key"
        assert error["runId"] == lines[0]["runId"]
        assert (await scene.snapshot())[-1]["content"] == "so far"
        assert (await scene.turn("2", "m2"))[-1]["outcome"] == {"type": "success"}


async def test_a_bug_ends_its_run_and_not_the_worker() -> None:
    async def bug() -> None:
        raise ZeroDivisionError("secret detail")

    async with one_session(
        calls(("c1", "Do", "x")), says("fine"), mode="auto", tool=FakeTool(work=bug)
    ) as scene:
        lines = await scene.turn("1", "m1")
        assert lines[-1]["code"] == "internal"
        assert "secret" not in str(lines[-1]["message"])
        assert "run_crashed" in scene.log.names()
        assert (await scene.turn("2", "m2"))[-1]["outcome"] == {"type": "success"}


async def test_a_run_stops_at_its_most_turns_with_a_clear_message() -> None:
    looks = [calls((f"c{turn}", "Look", "x")) for turn in range(3)]
    async with one_session(*looks, max_turns=2) as scene:
        error = (await scene.turn())[-1]
        assert error["code"] == "max_turns"
        assert "2 model turns" in str(error["message"])


async def test_plan_mode_refuses_changes_with_a_reason_the_model_reads() -> None:
    async with one_session(calls(("c1", "Do", "x")), says("ok"), mode="plan") as scene:
        await scene.turn()
        assert scene.tool.ran == []
        assert "the mode is 'plan'" in scene.model.requests[1].messages[-1].text
        assert "The mode is 'plan'" in scene.model.requests[0].instructions
        await scene.command("set_mode", mode="standard")
        scene.model.responses = [says("done")]
        await scene.turn("go", "m2")
        assert scene.model.requests[2].instructions == "Be good."


async def test_auto_mode_never_asks_and_says_so_once() -> None:
    async with one_session(calls(("c1", "Do", "x")), says("ok"), says("ok"), mode="auto") as scene:
        first = await scene.turn("1", "m1")
        second = await scene.turn("2", "m2")
        assert scene.tool.ran == ["x"]
        assert kinds(first).count("ACTIVITY_SNAPSHOT") == 1
        assert "ACTIVITY_SNAPSHOT" not in kinds(second)


async def test_unknown_tools_and_broken_arguments_are_results_the_model_reads() -> None:
    broken: list[Piece] = [CallBegan(0, "c1", "Nope"), CallBegan(1, "c2", "Do")]
    broken += [ArgumentsPiece(1, "{"), DONE]
    async with one_session(broken, says("ok")) as scene:
        lines = await scene.turn()
        verified(lines)
        results = [str(line["content"]) for line in lines if line["type"] == "TOOL_CALL_RESULT"]
        assert "There is no tool 'Nope'" in results[0]
        assert "do not fit" in results[1]


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([DONE], "answered nothing"),
        ([TextPiece("ha"), replace(DONE, cut="length")], "the most that the model may write"),
        ([replace(DONE, cut="filter")], "filter did not let"),
    ],
)
async def test_an_answer_that_is_not_whole_says_so(pieces: Sequence[Piece], words: str) -> None:
    """Who is hurt: who reads half a sentence, or nothing, and takes it for the answer."""
    async with one_session(pieces, says("more")) as scene:
        lines = await scene.turn()
        verified(lines)
        assert lines[-1]["outcome"] == {"type": "success"}
        (notice,) = (line for line in lines if line["type"] == "ACTIVITY_SNAPSHOT")
        assert words in str(notice["content"])
        await scene.turn("continue", "m2")
        read = [m for m in scene.model.requests[1].messages if m.role != "activity"]
        assert words not in str(read)


async def test_what_of_the_input_was_cached_is_told_with_the_run() -> None:
    cached = replace(DONE, cached_input_tokens=4)
    calling = [*calls(("c1", "Look", "x"))[:-1], cached]
    async with one_session(calling, [TextPiece("ok"), cached]) as scene:
        (usage,) = msgspec.convert((await scene.turn())[-1]["usage"], list[dict[str, object]])
        assert (usage["inputTokens"], usage["cachedInputTokens"]) == (20, 8)


async def test_a_call_without_an_id_or_a_name_is_answered_all_the_same() -> None:
    pieces: list[Piece] = [CallBegan(0, "", ""), CallBegan(1, "", "Look"), DONE]
    async with one_session(pieces, says("ok")) as scene:
        lines = await scene.turn()
        verified(lines)
        ids = [str(line["toolCallId"]) for line in lines if line["type"] == "TOOL_CALL_START"]
        assert len(set(ids)) == 2
        assert all(ids)
        results = [str(line["content"]) for line in lines if line["type"] == "TOOL_CALL_RESULT"]
        assert "There is no tool ''" in results[0]


async def test_a_call_that_was_cut_is_not_run_and_the_model_reads_why() -> None:
    half = [
        *calls(("c1", "Do", "whole"))[:-1],
        CallBegan(1, "c2", "Do"),
        ArgumentsPiece(1, '{"what": "ha'),
        replace(DONE, cut="length"),
    ]
    async with one_session(half, says("ok"), mode="auto") as scene:
        await scene.turn()
        assert scene.tool.ran == ["whole"]
        read = [m.text for m in scene.model.requests[1].messages if m.role == "tool"]
        assert "do it in smaller pieces" not in read[0]
        assert "do it in smaller pieces" in read[1]


async def test_a_call_id_that_a_model_uses_again_becomes_one_of_its_own() -> None:
    """Who is hurt: users of local servers that number the calls of each answer from zero."""
    async with one_session(
        calls(("call_0", "Look", "a")), calls(("call_0", "Look", "b")), says("ok")
    ) as scene:
        lines = await scene.turn()
        verified(lines)
        ids = [line["toolCallId"] for line in lines if line["type"] == "TOOL_CALL_RESULT"]
        assert len(set(ids)) == 2
        assert scene.tool.ran == ["a", "b"]


async def test_a_tools_state_is_told_as_one_add_of_the_whole_key() -> None:
    tool = FakeTool(effect=Effect.NOTES, state={"todos": [{"content": "x", "status": "pending"}]})
    async with one_session(calls(("c1", "Do", "x")), says("ok"), says("b"), tool=tool) as scene:
        lines = await scene.turn("1", "m1")
        deltas = [line["delta"] for line in lines if line["type"] == "STATE_DELTA"]
        assert deltas[1] == [{"op": "add", "path": "/todos", "value": tool.state["todos"]}]
        second = await scene.turn("2", "m2")
        snapshot = msgspec.convert(second[1]["snapshot"], dict[str, object])
        assert snapshot["todos"] == tool.state["todos"]
        assert snapshot["usage"] == [{"model": "fake:one", "inputTokens": 20, "outputTokens": 10}]


async def test_what_a_client_is_told_was_recorded_before() -> None:
    """Who is hurt: after a crash a client would know of an answer that the worker forgot."""
    history = FakeHistory()
    seen: list[tuple[str, list[str], int]] = []

    def on_line(line: Line) -> None:
        seen.append((str(line["type"]), history.kinds(), history.synced))

    needed = {
        "RUN_STARTED": "run_started",
        "TEXT_MESSAGE_END": "message",
        "TOOL_CALL_END": "calls",
        "TOOL_CALL_RESULT": "result",
        "RUN_FINISHED": "run_ended",
    }
    async with one_session(
        [TextPiece("x"), *calls(("c1", "Look", "x"))],
        says("done"),
        history=history,
        lines=FakeLines(on_line),
    ) as scene:
        await scene.turn()
    counts: dict[str, int] = {}
    for kind, on_disk, synced in seen:
        if kind in needed:
            counts[kind] = counts.get(kind, 0) + 1
            assert on_disk[:synced].count(needed[kind]) >= counts[kind], kind


async def test_a_side_effect_begins_only_when_its_start_is_on_the_disk() -> None:
    history = FakeHistory()
    at_start: list[str] = []

    async def work() -> None:
        at_start.extend(history.kinds()[: history.synced])

    async with one_session(
        calls(("c1", "Do", "x")), says("ok"), mode="auto", history=history, tool=FakeTool(work=work)
    ) as scene:
        await scene.turn()
    assert at_start[-1] == "call_started"


async def test_a_full_disk_is_one_clear_error_and_the_worker_lives_on() -> None:
    async with one_session(says("lost"), says("kept")) as scene:

        async def fill() -> None:
            scene.history.is_full = True
            await anyio.lowlevel.checkpoint()

        scene.model.before_piece = fill
        lines = await scene.turn("1", "m1")
        verified(lines)
        assert lines[-1]["type"] == "RUN_ERROR"
        assert "could not be written" in str(lines[-1]["message"])
        start = len(scene.lines.lines)
        await scene.ask("2", "m2")
        bare = scene.lines.lines[start]
        assert bare["type"] == "RUN_ERROR"
        assert "runId" not in bare
        scene.history.is_full = False
        scene.model.before_piece = anyio.lowlevel.checkpoint
        assert (await scene.turn("2", "m2"))[-1]["outcome"] == {"type": "success"}


async def test_a_run_that_can_not_even_begin_is_told_once_and_its_message_keeps_its_place() -> None:
    async with one_session(says("1")) as scene:
        scene.history.refused.add("run_started")
        await scene.ask("a", "m1", runId="r1")
        await anyio.wait_all_tasks_blocked()
        assert kinds(scene.lines.lines) == ["RUN_ERROR"]
        assert "runId" not in scene.lines.lines[0]
        scene.history.refused.clear()
        await scene.ask("b", "m2", runId="r2")
        await scene.lines.wait_for(
            lambda line: line["type"] == "RUN_FINISHED" and line["runId"] == "r1"
        )
        assert [m.text for m in scene.model.requests[-1].messages] == ["a", "b"]


async def test_one_task_ends_when_its_run_can_not_begin() -> None:
    async with one_session(says("1"), serve=False) as scene:
        scene.history.refused.add("run_started")
        await scene.ask("a", "m1")
        with anyio.fail_after(60):
            await scene.session.run_alone()
        assert scene.session.last_end is None


async def test_a_reader_that_stops_reading_slows_the_run_and_not_the_rest() -> None:
    """Who is hurt: a stuck daemon would make a worker eat all memory, or hang for ever."""
    async with one_session(says(*("word " for _ in range(500)))) as scene:
        scene.lines.is_full = True
        await scene.ask()
        await anyio.wait_all_tasks_blocked()
        assert len(scene.lines.lines) < 10
        await scene.send(type="command", id="k", name="ping")
        assert scene.lines.lines[-1]["type"] == "command_result"
        scene.lines.let_go()
        await scene.wait_end()


async def test_a_run_can_be_stopped_while_nobody_reads() -> None:
    tool = FakeTool(work=anyio.sleep_forever)
    async with one_session(calls(("c1", "Do", "x")), mode="auto", tool=tool) as scene:
        await scene.ask()
        with anyio.fail_after(60):
            while not tool.ran:
                await anyio.wait_all_tasks_blocked()
        scene.lines.is_full = True
        await scene.send(type="interrupt")
        assert (await scene.wait_end())["outcome"] == {"type": "cancelled"}


async def test_a_late_joiner_ends_with_the_same_messages_as_the_first() -> None:
    async with one_session(
        [ReasoningPiece("hm"), TextPiece("one "), TextPiece("two"), *calls(("c1", "Look", "x"))],
        says("end"),
    ) as scene:
        partial: list[dict[str, object]] = []

        async def look() -> None:
            if scene.types().count("TOOL_CALL_ARGS") == 1 and not partial:
                partial.extend(m for m in await scene.snapshot())
            await anyio.lowlevel.checkpoint()

        scene.model.before_piece = look
        await scene.turn("q", "m1")
        whole = await scene.snapshot()
        assert [m["id"] for m in partial] == [m["id"] for m in whole[: len(partial)]]
        assert partial[-1]["content"] == "one two"
        half = msgspec.convert(partial[-1]["toolCalls"], list[ToolCall])
        assert half[0].function.arguments == '{"what":'


async def test_a_snapshot_after_a_restart_is_the_same_to_the_byte() -> None:
    history = FakeHistory()
    async with one_session(
        [ReasoningPiece("hm"), TextPiece("x"), *calls(("c1", "Look", "x"))],
        says("end"),
        history=history,
    ) as scene:
        await scene.turn("q", "m1")
        before = await scene.snapshot()
    async with one_session(history=history) as scene:
        assert await scene.snapshot() == before


async def test_a_failed_call_is_shown_as_failed_before_and_after_a_restart() -> None:
    history = FakeHistory()
    async with one_session(calls(("c1", "Nope", "x")), says("end"), history=history) as scene:
        await scene.turn("q", "m1")
        before = await scene.snapshot()
        assert "no tool" in str(next(m for m in before if m["role"] == "tool")["error"])
    async with one_session(history=history) as scene:
        assert await scene.snapshot() == before


async def test_who_waits_sees_that_a_request_is_sent_again_and_when_that_is_over() -> None:
    retrying = Retrying(1, 0.5, "limits the rate")
    async with one_session([retrying, TextPiece("hi"), DONE]) as scene:
        lines = await scene.turn()
        verified(lines)
        deltas = [line["delta"] for line in lines if line["type"] == "STATE_DELTA"]
        changes = [msgspec.convert(each, list[dict[str, object]])[0] for each in deltas]
        told = [each["value"] for each in changes if each["path"] == "/retry"]
        assert told == [{"attempt": 1, "seconds": 0.5, "reason": "limits the rate"}, None]


async def test_a_retry_that_ends_in_an_error_does_not_stay_in_the_state() -> None:
    broken = BrokenPiece(error=ModelFailed("no", "model_rate"))
    async with one_session([Retrying(1, 0.5, "busy"), broken]) as scene:
        lines = await scene.turn()
        deltas = [line["delta"] for line in lines if line["type"] == "STATE_DELTA"]
        assert deltas[-1] == [{"op": "add", "path": "/retry", "value": None}]


async def test_what_is_known_of_the_cost_is_told_with_the_run_and_adds_up() -> None:
    done = replace(DONE, cost=0.25)
    async with one_session([TextPiece("a"), done], [TextPiece("b"), done]) as scene:
        first = await scene.turn("1", "m1")
        assert first[-1]["result"] == {"totalToolCalls": 0, "cost": 0.25}
        second = await scene.turn("2", "m2")
        usage = [line["delta"] for line in second if line["type"] == "STATE_DELTA"][-1]
        rows = msgspec.convert(usage, list[dict[str, object]])[0]["value"]
        assert msgspec.convert(rows, list[dict[str, object]])[0]["cost"] == 0.5


async def test_how_much_to_think_is_a_command_and_counts_from_the_next_turn() -> None:
    async with one_session(says("a"), says("b")) as scene:
        await scene.send(type="command", id="k", name="set_thinking", args={"level": "high"})
        assert scene.lines.lines[-1]["data"] == {"level": "high"}
        await scene.turn("1", "m1")
        await scene.send(type="command", id="k", name="set_thinking", args={"level": "lots"})
        assert scene.lines.lines[-1]["code"] == "bad_arguments"
        await scene.send(type="command", id="k", name="set_thinking", args={})
        await scene.turn("2", "m2")
        assert [request.thinking for request in scene.model.requests] == ["high", None]
