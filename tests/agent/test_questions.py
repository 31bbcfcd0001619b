"""A model's question to the person: the run waits for an answer that fits, as long as it takes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest

from agent.domain.approval import Effect, Mode
from agent.domain.ports import ArgumentsPiece, CallBegan, Piece
from agent.domain.questions import BadAnswer, Option, Question, answer_text, response_schema
from agent.infrastructure.tools.questions import AskUserQuestion
from tests.agent.support.fakes import DONE, FakeHistory, Line
from tests.agent.support.scene import Scene, calls, one_session, says
from tests.agent.test_run import verified

COLOUR = Question("Which colour?", "Colour", [Option("Red"), Option("Blue", "as the sky")])
PARTS = Question("Which parts?", "Parts", [Option("A"), Option("B")], True)


def asks(call_id: str, *questions: Question) -> list[Piece]:
    arguments = msgspec.json.encode({"questions": questions}).decode()
    return [CallBegan(7, call_id, "AskUserQuestion"), ArgumentsPiece(7, arguments)]


def answers(*given: object) -> dict[str, object]:
    return {"answers": list(given)}


@asynccontextmanager
async def asked(
    *questions: Question, mode: Mode = "standard", history: FakeHistory | None = None
) -> AsyncGenerator[Scene]:
    async with one_session(
        [*asks("q-1", *questions), DONE], says("well"), mode=mode, history=history
    ) as scene:
        scene.add_tool(AskUserQuestion())
        await scene.turn("ask me", "m1")
        yield scene


def interrupts(scene: Scene) -> list[dict[str, object]]:
    outcome = msgspec.convert(scene.lines.lines[-1]["outcome"], dict[str, object])
    return msgspec.convert(outcome["interrupts"], list[dict[str, object]])


async def resumed(scene: Scene, status: str, **payloads: object) -> Line:
    start = len(scene.lines.lines)
    await scene.answer(status, **payloads)
    await scene.wait_end(start)
    lines = scene.lines.lines[start:]
    verified(lines)
    result = next(line for line in lines if line["type"] == "TOOL_CALL_RESULT")
    found: Line = msgspec.json.decode(str(result["content"]))
    return found


@pytest.mark.parametrize("mode", ["standard", "plan", "auto"])
async def test_a_question_suspends_in_every_mode_and_its_answer_is_its_result(mode: Mode) -> None:
    async with asked(COLOUR, mode=mode) as scene:
        (interrupt,) = interrupts(scene)
        assert (interrupt["id"], interrupt["toolCallId"]) == ("q-1", "q-1")
        assert (interrupt["reason"], interrupt["message"]) == ("input_required", "Which colour?")
        assert interrupt["responseSchema"] == response_schema([COLOUR])
        entry = {"header": "Colour", "question": "Which colour?", "selectedLabels": ["Blue"]}
        result = await resumed(scene, "resolved", q_1=answers({**entry, "otherText": ""}))
        assert result == {"success": True, "output": "Which colour? - Blue", "error": ""}


@pytest.mark.parametrize(
    "payload",
    [
        None,
        {},
        "Blue",
        {"answers": "Blue"},
        answers(),
        answers({"selectedLabels": ["Green"]}),
        answers({"selectedLabels": ["Red", "Blue"]}),
        answers({"selectedLabels": [], "otherText": "  "}),
        answers({"selectedLabels": ["Red"]}, {"selectedLabels": ["Blue"]}),
        answers({"selectedLabels": ["Red"], "question": "Another one?"}),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    payload: object,
) -> None:
    async with asked(COLOUR) as scene:
        start = len(scene.lines.lines)
        await scene.answer("resolved", q_1=payload)
        (error,) = scene.lines.lines[start:]
        assert error["type"] == "RUN_ERROR"
        assert "runId" not in error
        assert "still open" in str(error["message"])
        result = await resumed(scene, "resolved", q_1=answers({"otherText": "Green"}))
        assert result["output"] == "Which colour? - Green"


async def test_a_dismissed_question_is_told_to_the_model_as_dismissed() -> None:
    async with asked(COLOUR) as scene:
        result = await resumed(scene, "cancelled", q_1=None)
        assert result["success"] is False
        assert "dismissed" in str(result["error"])


async def test_an_approval_and_a_question_suspend_together_and_are_answered_together() -> None:
    response = [*calls(("c-1", "Do", "it"))[:-1], *asks("q-1", COLOUR, PARTS), DONE]
    async with one_session(response, says("well")) as scene:
        scene.add_tool(AskUserQuestion())
        await scene.turn("go", "m1")
        assert [each["id"] for each in interrupts(scene)] == ["c-1", "q-1"]
        start = len(scene.lines.lines)
        both = answers({"selectedLabels": ["Red"]}, {"selectedLabels": ["A", "B"]})
        await scene.answer(q_1=both)
        assert "missing: c-1" in str(scene.lines.lines[start]["message"])
        assert scene.tool.ran == []
        await scene.answer(c_1=None, q_1=both)
        await scene.wait_end(start + 1)
        assert scene.tool.ran == ["it"]
        told = scene.model.requests[-1].messages[-1].text
        assert "Which colour? - Red" in told
        assert "Which parts? - A; B" in told


async def test_a_question_is_answered_after_a_restart_and_an_answer_survives_a_crash() -> None:
    """Who is hurt: who answered, and would be told that the worker never heard it."""
    history = FakeHistory()
    async with asked(COLOUR, history=history):
        pass
    async with one_session(history=history) as scene:
        scene.add_tool(AskUserQuestion())
        scene.history.refused.add("result")
        start = len(scene.lines.lines)
        await scene.answer(q_1=answers({"selectedLabels": ["Red"]}))
        await scene.wait_end(start)
    history.refused.clear()
    async with one_session(history=history) as scene:
        content = str((await scene.snapshot())[-1]["content"])
        assert msgspec.json.decode(content)["output"] == "Which colour? - Red"


async def test_a_panel_can_not_ask_a_question() -> None:
    async with one_session() as scene:
        scene.add_tool(AskUserQuestion())
        arguments = msgspec.json.encode({"questions": [COLOUR]}).decode()
        await scene.send(
            type="tool_request", id="t", tool_name="AskUserQuestion", tool_args=arguments
        )
        result = await scene.lines.wait_for(lambda line: line["type"] == "tool_result")
        assert "only be asked in a run" in str(result["error"])


def test_more_than_one_answer_needs_a_question_that_allows_it() -> None:
    both = answers({"selectedLabels": ["A", "B"], "otherText": "and C"})
    assert answer_text([PARTS], both) == "Which parts? - A; B; and C"
    with pytest.raises(BadAnswer, match="Only one answer"):
        answer_text([msgspec.structs.replace(PARTS, multiSelect=False)], both)


def test_the_tool_asks() -> None:
    assert AskUserQuestion.spec.effect is Effect.ASKS
