"""What each mode asks for: rules that allow, plans that are accepted, a plain no, and `auto`."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from agent.domain.allow import AllowList
from agent.domain.approval import Effect
from agent.domain.messages import Message
from agent.domain.ports import ArgumentsPiece, CallBegan, Piece
from agent.equipment import Equipment
from agent.infrastructure.tools.plans import ProposePlan
from tests.agent.support.fakes import DONE, FakeHistory, FakeTool, Line
from tests.agent.support.judge import judge
from tests.agent.support.scene import Scene, calls, one_session, says


def allowing(*rules: str) -> Callable[[Equipment], Equipment]:
    return lambda equipment: replace(equipment, allowed=AllowList.of(rules))


def plans(text: str = "First this.\nThen that.") -> list[Piece]:
    arguments = msgspec.json.encode({"plan": text}).decode()
    return [CallBegan(0, "p-1", "ProposePlan"), ArgumentsPiece(0, arguments), DONE]


def outcome(line: Line) -> dict[str, object]:
    return msgspec.convert(line["outcome"], dict[str, object])


def result(line: Line) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(str(line["content"]))
    return found


def results(scene: Scene) -> list[dict[str, object]]:
    return [result(line) for line in scene.lines.lines if line["type"] == "TOOL_CALL_RESULT"]


async def test_a_rule_spares_the_question_and_only_for_what_it_covers() -> None:
    response = calls(("c1", "Do", "make test"), ("c2", "Do", "make test; rm x"))
    async with one_session(response, equip=allowing("Do(make *)")) as scene:
        await scene.turn()
        assert scene.tool.ran == ["make test"]
        interrupts = scene.session.conversation.interrupts()
        assert [interrupt.id for interrupt in interrupts] == ["c2"]


async def test_what_a_mode_refuses_no_rule_allows() -> None:
    async with one_session(
        calls(("c1", "Do", "make")), says("ok"), mode="plan", equip=allowing("Do")
    ) as scene:
        await scene.turn()
        assert scene.tool.ran == []


async def test_a_rule_answers_no_question_that_is_the_persons() -> None:
    asks = FakeTool("Ask", effect=Effect.PLANS)
    async with one_session(calls(("c1", "Ask", "x")), mode="plan", equip=allowing("Ask")) as scene:
        scene.add_tool(asks)
        assert outcome((await scene.turn())[-1])["type"] == "interrupt"
        assert asks.ran == []


async def test_a_panels_request_takes_the_rules_too() -> None:
    async with one_session(equip=allowing("Do(make *)")) as scene:
        await scene.send(
            type="tool_request", id="t1", tool_name="Do", tool_args='{"what":"make all"}'
        )
        told = await scene.lines.wait_for(lambda line: line["type"] == "tool_result")
        assert told["success"] is True


# -- plans -------------------------------------------------------------------------------------


async def test_a_plan_is_only_proposed_where_there_is_something_to_accept() -> None:
    async with one_session(says("a"), says("b"), mode="plan") as scene:
        scene.add_tool(ProposePlan())
        await scene.turn("1", "m1")
        await scene.send(type="set_mode", mode="standard")
        await scene.turn("2", "m2")
        offered = [[tool.name for tool in each.tools] for each in scene.model.requests]
        assert offered == [["Do", "Look", "ProposePlan"], ["Do", "Look"]]


@pytest.mark.parametrize(
    ("payload", "mode"),
    [
        (None, "standard"),
        ({"mode": "auto"}, "auto"),
        ({"mode": "auto-with-judge"}, "auto-with-judge"),
    ],
)
async def test_accepting_a_plan_ends_the_mode_and_the_run_goes_on(
    payload: object, mode: str
) -> None:
    async with one_session(plans(), says("doing it"), mode="plan") as scene:
        scene.add_tool(ProposePlan())
        suspended = (await scene.turn())[-1]
        [interrupt] = msgspec.convert(outcome(suspended)["interrupts"], list[dict[str, object]])
        assert interrupt["reason"] == "tool_call"
        assert interrupt["message"] == "The plan waits for you: First this."
        start = len(scene.lines.lines)
        await scene.answer(p_1=payload)
        assert outcome(await scene.wait_end(start)) == {"type": "success"}
        assert f"The mode is '{mode}' now" in str(results(scene)[-1]["output"])
        assert [tool.name for tool in scene.model.requests[1].tools] == ["Do", "Look"]
        await scene.send(type="set_mode", mode="nonsense")
        told = await scene.lines.wait_for(lambda line: line["type"] == "mode")
        assert told["mode"] == mode
        judge(scene.lines.lines[:-1])


async def test_a_mode_that_no_plan_can_end_in_leaves_the_plan_open() -> None:
    async with one_session(plans(), mode="plan") as scene:
        scene.add_tool(ProposePlan())
        await scene.turn()
        await scene.answer(p_1={"mode": "plan"})
        refused = await scene.lines.wait_for(lambda line: line["type"] == "RUN_ERROR")
        assert "standard, auto-with-judge, auto" in str(refused["message"])
        assert scene.session.conversation.suspended is not None


async def test_a_plan_that_is_not_accepted_with_a_reason_is_made_anew() -> None:
    async with one_session(plans(), says("another one"), mode="plan") as scene:
        scene.add_tool(ProposePlan())
        await scene.turn()
        start = len(scene.lines.lines)
        await scene.answer(p_1={"approved": False, "reason": "too long"})
        await scene.wait_end(start)
        assert "too long. The mode is still 'plan'" in str(results(scene)[-1]["error"])
        assert [tool.name for tool in scene.model.requests[1].tools][-1] == "ProposePlan"


async def test_an_accepted_plan_is_accepted_after_a_crash_too() -> None:
    """The decision and the mode are one record: a person must not have to say yes twice."""
    history = FakeHistory()
    async with one_session(plans(), mode="plan", history=history) as scene:
        scene.add_tool(ProposePlan())
        await scene.turn()
        history.refused = {"result"}
        start = len(scene.lines.lines)
        await scene.answer(p_1=None)
        await scene.wait_end(start)
    left = FakeHistory()
    kept = [line for line in history.lines if msgspec.json.decode(line)["kind"] != "run_ended"]
    left.lines = [*kept[: kept.index(next(x for x in kept if b'"answers"' in x)) + 2]]
    async with one_session(says("now"), mode="plan", history=left) as scene:
        told = [m for m in await scene.snapshot() if m["role"] == "tool"]
        assert "The mode is 'standard' now" in str(told[0]["content"])
        await scene.turn("go on", "m2")
        assert [tool.name for tool in scene.model.requests[0].tools] == ["Do", "Look"]


# -- a plain no --------------------------------------------------------------------------------


def asked(message: Message) -> tuple[str, str]:
    return message.role, message.text[:60]


async def test_a_plain_no_is_the_persons_turn_and_stays_readable() -> None:
    response = calls(("c-1", "Do", "one"), ("c-2", "Do", "two"))
    async with one_session(response, says("as you wish")) as scene:
        await scene.turn("hello", "m1")
        start = len(scene.lines.lines)
        await scene.answer(c_1=None, c_2={"approved": False})
        ended = await scene.wait_end(start)
        assert outcome(ended) == {"type": "success"}
        assert scene.tool.ran == ["one"]
        assert len(scene.model.requests) == 1
        notice = next(x for x in scene.lines.lines if x["type"] == "ACTIVITY_SNAPSHOT")
        assert "Say what you want instead" in str(notice["content"])
        await scene.turn("do three", "m2")
        read = [asked(m) for m in scene.model.requests[1].messages if m.role in ("tool", "user")]
        assert read == [
            ("user", "hello"),
            ("tool", '{"success":true,"output":"did one","error":""}'),
            ("tool", '{"success":false,"output":"","error":"Not run: declined by t'),
            ("user", "do three"),
        ]
        judge(scene.lines.lines)


async def test_a_no_that_comes_with_a_message_goes_on_with_it() -> None:
    async with one_session(calls(("c-1", "Do", "one")), says("three then")) as scene:
        await scene.turn()
        start = len(scene.lines.lines)
        await scene.send(
            type="run_agent_input",
            input={
                "messages": [{"id": "m2", "role": "user", "content": "do three"}],
                "resume": [{"interruptId": "c-1", "status": "cancelled"}],
            },
        )
        await scene.wait_end(start)
        assert "do three" in [m.text for m in scene.model.requests[1].messages]


# -- auto --------------------------------------------------------------------------------------


async def test_auto_says_so_each_time_that_it_is_chosen() -> None:
    async with one_session(*[says("ok")] * 5, mode="standard") as scene:
        said: list[int] = []
        for number, mode in enumerate(["auto", "auto", "standard", "auto", None]):
            if mode != "auto" or number != 1:
                await scene.send(type="command", id=f"s{number}", name="set_mode",
                                 args={"mode": mode or "auto"})  # fmt: skip
            lines = await scene.turn(str(number), f"m{number}")
            said.append(sum(line["type"] == "ACTIVITY_SNAPSHOT" for line in lines))
        assert said == [1, 0, 0, 1, 1]
        chosen = [line for line in scene.lines.lines if line["type"] == "command_result"]
        notices = [msgspec.convert(line["data"], dict[str, object])["notice"] for line in chosen]
        assert str(notices[0]).startswith("Mode auto")
        assert notices[1] is None
