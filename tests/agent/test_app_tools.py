"""Tools that the client's application runs: offered to the model, called, answered by an input."""

import msgspec

from tests.agent.support.fakes import FakeHistory
from tests.agent.support.scene import calls, one_session, says

COLOUR = {
    "name": "setColour",
    "description": "Paints the page.",
    "parameters": {"type": "object", "properties": {"colour": {"type": "string"}}},
}
PAINT = ("c1", "setColour", '{"colour":"red"}')


def answer(call_id: str = "c1", text: str = "painted") -> dict[str, object]:
    return {"id": f"r-{call_id}", "role": "tool", "toolCallId": call_id, "content": text}


def inside(value: object, key: str) -> object:
    """A member of a JSON object."""
    return msgspec.convert(value, dict[str, object])[key]


async def test_a_call_of_the_applications_tool_ends_the_run_unanswered() -> None:
    """The application runs it; who waited for a result of ours would wait for ever."""
    async with one_session(calls(PAINT)) as scene:
        lines = await scene.turn("paint it", tools=[COLOUR])
        assert lines[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["c1"]}
        assert "TOOL_CALL_RESULT" not in [line["type"] for line in lines]
        offered = {spec.name: spec for spec in scene.model.requests[0].tools}
        assert offered["setColour"].parameters == COLOUR["parameters"]


async def test_its_result_comes_with_the_next_input_and_the_model_reads_it() -> None:
    async with one_session(calls(PAINT), says("Done.")) as scene:
        await scene.turn("paint it", tools=[COLOUR])
        start = len(scene.lines.lines)
        await scene.send(
            type="run_agent_input", input={"runId": "r2", "messages": [answer()], "tools": [COLOUR]}
        )
        end = await scene.wait_end(start)
        assert (end["runId"], end["outcome"]) == ("r2", {"type": "success"})
        started = scene.lines.lines[start]
        assert inside(started["input"], "messages") == [answer()], (
            "every follower learns the result"
        )
        results = [m for m in scene.model.requests[1].messages if m.role == "tool"]
        assert [(m.tool_call_id, m.text) for m in results] == [("c1", "painted")]
        assert scene.model.requests[1].messages[-1].role == "tool", "nobody says 'continue'"


async def test_calls_of_ours_in_the_same_response_are_run_first() -> None:
    async with one_session(calls(("c0", "Look", "{}"), PAINT)) as scene:
        lines = await scene.turn("look and paint", tools=[COLOUR])
        results = [line["toolCallId"] for line in lines if line["type"] == "TOOL_CALL_RESULT"]
        assert results == ["c0"]
        assert lines[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["c1"]}


async def test_an_approval_comes_before_the_application_and_both_are_answered_at_once() -> None:
    async with one_session(calls(("c0", "Do", "{}"), PAINT), says("Done.")) as scene:
        lines = await scene.turn("do and paint", tools=[COLOUR])
        assert inside(lines[-1]["outcome"], "type") == "interrupt"
        start = len(scene.lines.lines)
        resume = [{"interruptId": "c0", "status": "resolved"}]
        await scene.send(type="run_agent_input", input={"messages": [answer()], "resume": resume})
        assert (await scene.wait_end(start))["outcome"] == {"type": "success"}
        results = {m.tool_call_id for m in scene.model.requests[1].messages if m.role == "tool"}
        assert results == {"c0", "c1"}


async def test_a_tool_named_like_one_of_ours_is_ours_with_its_approvals() -> None:
    """An application, or a page that got into it, must not make 'Do' harmless."""
    async with one_session(calls(("c1", "Do", "{}"))) as scene:
        lines = await scene.turn("do it", tools=[{**COLOUR, "name": "Do"}])
        assert inside(lines[-1]["outcome"], "type") == "interrupt"
        assert [spec.name for spec in scene.model.requests[0].tools].count("Do") == 1


async def test_results_of_calls_that_wait_for_nobody_change_nothing() -> None:
    """A result for a call that needs an approval would be a way around the approval."""
    async with one_session(calls(("c0", "Do", "{}")), says("Declined.")) as scene:
        lines = await scene.turn("do it")
        assert inside(lines[-1]["outcome"], "type") == "interrupt"
        start = len(scene.lines.lines)
        await scene.send(type="run_agent_input", input={"messages": [answer("c0"), answer("x")]})
        assert scene.types(start) == []
        await scene.answer(status="cancelled", c0={"reason": "not now"})
        await scene.wait_end(start)
        results = [m for m in scene.model.requests[1].messages if m.role == "tool"]
        assert [(m.tool_call_id, "declined" in m.text) for m in results] == [("c0", True)]


async def test_an_offer_survives_the_worker_with_the_message_it_came_with() -> None:
    history = FakeHistory()
    async with one_session(history=history, serve=False) as scene:
        await scene.ask("paint it", "m1", tools=[COLOUR], state={"theme": "dark"})
    async with one_session(calls(PAINT), history=history) as scene:
        end = await scene.wait_end()
        assert end["outcome"] == {"type": "success", "pendingToolCallIds": ["c1"]}


async def test_the_second_result_of_a_call_is_dropped_also_after_a_restart() -> None:
    history = FakeHistory()
    async with one_session(calls(PAINT), history=history) as scene:
        await scene.turn("paint it", tools=[COLOUR])
    async with one_session(says("Done."), history=history) as scene:
        for text in ("painted", "painted twice"):
            start = len(scene.lines.lines)
            await scene.send(type="run_agent_input", input={"messages": [answer(text=text)]})
            if text == "painted":
                await scene.wait_end(start)
        told = [m["content"] for m in await scene.snapshot() if m["role"] == "tool"]
        assert told == ["painted"]


async def test_state_context_and_properties_reach_the_model_and_the_state_stays() -> None:
    context = [{"description": "The page", "value": "Invoices"}]
    async with one_session(says("ok"), says("ok")) as scene:
        lines = await scene.turn(
            "hi",
            state={"theme": "dark", "todos": ["not ours"]},
            context=context,
            forwardedProps={"plan": "pro", "project_dir": "/p", "roost.lane": "follow_up"},
        )
        told = scene.model.requests[0].instructions
        for words in ("The page: Invoices", '{"theme":"dark"}', '{"plan":"pro"}'):
            assert words in told
        assert inside(lines[1]["snapshot"], "theme") == "dark"
        assert inside(lines[1]["snapshot"], "todos") == []
        lines = await scene.turn("again")
        assert inside(lines[1]["snapshot"], "theme") == "dark", (
            "an input without a state changes none"
        )
        assert scene.model.requests[1].instructions == "Be good."


async def test_an_input_with_its_own_run_gets_one_even_with_nothing_new() -> None:
    """Over HTTP somebody waits for that run."""
    async with one_session(says("ok"), says("again")) as scene:
        await scene.turn("hi", "m1")
        start = len(scene.lines.lines)
        known = {"id": "m1", "role": "user", "content": "hi"}
        own = {"roost.own_run": True}
        await scene.send(type="run_agent_input", input={"messages": [known], "runId": "r2"})
        assert scene.types(start) == [], "without the property it was sent again, and is dropped"
        await scene.send(
            type="run_agent_input",
            input={"messages": [known], "runId": "r2", "forwardedProps": own},
        )
        assert (await scene.wait_end(start))["runId"] == "r2"


async def test_a_client_can_ask_whether_a_run_id_is_used_and_how_the_last_run_ended() -> None:
    async with one_session(says("ok")) as scene:
        await scene.turn("hi", runId="r1")
        start = len(scene.lines.lines)
        for run_id in ("r1", "r2"):
            await scene.send(type="command", id=run_id, name="find_run", args={"runId": run_id})
        await scene.send(type="command", id="s", name="get_state")
        answers = {str(line["id"]): line["data"] for line in scene.lines.lines[start:]}
        assert answers["r1"] == {"known": True}
        assert answers["r2"] == {"known": False}
        last = inside(answers["s"], "lastRun")
        assert (inside(last, "type"), inside(last, "runId")) == ("RUN_FINISHED", "r1")
        assert inside(last, "outcome") == {"type": "success"}
