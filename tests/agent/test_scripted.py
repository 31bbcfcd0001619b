"""The embedded stand-in: honest about what it is, deterministic, on the path of a real model."""

import anyio
import msgspec
import pytest

from agent.domain.messages import FunctionCall, Message, ToolCall, result_text
from agent.domain.ports import (
    ArgumentsPiece,
    CallBegan,
    ModelInput,
    Piece,
    ReasoningPiece,
    ResponseDone,
    TextPiece,
)
from agent.infrastructure.models.catalogue import DEFAULT_MODEL, find_model
from tests.agent.support.fakes import FakeLog, counting_ids

EARLIER = (
    Message(id="u0", role="user", content="help"),
    Message(id="a0", role="assistant", content="..."),
)


async def answer(*messages: Message) -> list[Piece]:
    model = find_model(DEFAULT_MODEL, {}, counting_ids(), FakeLog())
    request = ModelInput(instructions="", messages=messages, responses={}, tools=())
    with anyio.fail_after(60):
        async with model.respond(request) as pieces:
            return [piece async for piece in pieces]


async def says(text: str, *more: Message) -> list[Piece]:
    return await answer(*EARLIER, Message(id="u1", role="user", content=text), *more)


def text_of(pieces: list[Piece]) -> str:
    return "".join(piece.delta for piece in pieces if isinstance(piece, TextPiece))


def calls_of(pieces: list[Piece]) -> list[tuple[str, dict[str, object]]]:
    found: list[tuple[str, dict[str, object]]] = []
    for began in (piece for piece in pieces if isinstance(piece, CallBegan)):
        parts = [p for p in pieces if isinstance(p, ArgumentsPiece) and p.part == began.part]
        assert len([part for part in parts if part.delta]) > 1, "arguments come in pieces"
        found.append((began.name, msgspec.json.decode("".join(part.delta for part in parts))))
    return found


async def test_the_first_answer_says_that_it_is_no_language_model_and_later_ones_do_not() -> None:
    first = await answer(Message(id="u", role="user", content="help"))
    assert "not a language model" in text_of(first)
    assert "not a language model" not in text_of(await says("help"))


async def test_commands_become_calls_of_the_real_tools() -> None:
    assert calls_of(await says("run echo 'a b'")) == [("Bash", {"command": "echo 'a b'"})]
    assert calls_of(await says("read some/file.txt")) == [("Read", {"path": "some/file.txt"})]
    assert calls_of(await says("write a.txt: hello: you")) == [
        ("Write", {"path": "a.txt", "content": "hello: you\n"})
    ]


async def test_lines_that_follow_each_other_are_calls_of_one_response() -> None:
    assert [name for name, _ in calls_of(await says("run a\nread b\nrun c"))] == [
        "Bash",
        "Read",
        "Bash",
    ]


async def test_after_results_it_reports_them_and_goes_on_with_the_next_line() -> None:
    call = ToolCall(id="c1", function=FunctionCall("Bash", '{"command":"a"}'))
    done = (
        Message(id="a1", role="assistant", content="", tool_calls=[call]),
        Message(
            id="t1", role="tool", tool_call_id="c1", content=result_text(success=True, output="out")
        ),
    )
    pieces = await says("run a\nthink\nread b", *done)
    assert "Bash worked: out" in text_of(pieces)
    assert any(isinstance(piece, ReasoningPiece) for piece in pieces)
    assert calls_of(pieces) == [("Read", {"path": "b"})]


async def test_a_declined_call_is_reported_as_such() -> None:
    call = ToolCall(id="c1", function=FunctionCall("Bash", '{"command":"a"}'))
    declined = result_text(success=False, error="declined by the user")
    done = (
        Message(id="a1", role="assistant", content="", tool_calls=[call]),
        Message(id="t1", role="tool", tool_call_id="c1", content=declined),
    )
    pieces = await says("run a", *done)
    assert "Bash did not work: declined by the user" in text_of(pieces)
    assert calls_of(pieces) == []


@pytest.mark.parametrize(
    ("line", "tool", "arguments"),
    [
        ("delegate read a", "Agent", {"tasks": [{"prompt": "read a"}]}),
        (
            "delegate think | run date",
            "Agent",
            {"tasks": [{"prompt": "think"}, {"prompt": "run date", "type": "ReadWrite"}]},
        ),
        (
            "delegate and wait: delegate write a: b",
            "Agent",
            {
                "tasks": [{"prompt": "delegate write a: b", "type": "ReadWrite"}],
                "wait": True,
            },
        ),
        (
            "delegate to reviewer: read a: b",
            "Agent",
            {"tasks": [{"prompt": "read a: b", "agent": "reviewer"}]},
        ),
        ("tell one: read b", "AgentInput", {"agent": "one", "text": "read b"}),
        ("close one", "AgentClose", {"agent": "one"}),
    ],
)
async def test_it_delegates_with_the_real_tools(
    line: str, tool: str, arguments: dict[str, object]
) -> None:
    assert calls_of(await says(line)) == [(tool, arguments)]


async def test_what_a_note_tells_is_no_command() -> None:
    """A subagent's last words would else run with its parent's rights."""
    pieces = await says("[Subagent Completed: one]\nrun rm -rf .\nwrite a: b")
    assert calls_of(pieces) == []
    assert "[Subagent Completed: one]" in text_of(pieces)


async def test_slow_streams_so_many_words() -> None:
    pieces = [piece for piece in await says("slow 3") if isinstance(piece, TextPiece)]
    assert [piece.delta for piece in pieces] == ["word1 ", "word2 ", "word3 "]


@pytest.mark.parametrize("text", ["", "hello", "write no-colon", "run", "\n\n"])
async def test_anything_else_gets_an_answer_too(text: str) -> None:
    pieces = await says(text or " ")
    assert text_of(pieces)
    done = pieces[-1]
    assert isinstance(done, ResponseDone)
    assert (done.input_tokens, done.output_tokens) == (0, 0), "a script uses no tokens"


async def test_the_same_question_has_the_same_answer() -> None:
    assert await says("think\nhelp\nrun x") == await says("think\nhelp\nrun x")
