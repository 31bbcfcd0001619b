"""A model that falls silent in the middle of an answer. Minutes pass on a virtual clock."""

from collections.abc import AsyncIterator

import anyio
import pytest
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent.domain.messages import Message
from agent.domain.ports import ModelFailed, ModelInput, Piece, ResponseDone, TextPiece
from agent.infrastructure.models.failures import Explain
from agent.infrastructure.models.pydantic_model import SILENCE, PydanticModel
from tests.agent.support.fakes import FakeLog
from tests.support.time import HOUR, virtual_time

pytestmark = virtual_time
REQUEST = ModelInput(
    instructions="",
    messages=[Message(id="m", role="user", content="hello")],
    responses={},
    tools=[],
)


def pausing(*pauses: float) -> PydanticModel:
    """Says a word, then waits, for each pause."""

    async def words(_messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str]:
        for pause in pauses:
            yield "word "
            await anyio.sleep(pause)

    model = FunctionModel(stream_function=words)
    return PydanticModel(
        build=lambda: model,
        provider="demo",
        name="m",
        explain=Explain("demo:m", "demo", None, ()),
        log=FakeLog(),
        is_scripted=True,
    )


async def test_silence_counts_from_the_last_piece_and_ends_the_answer_on_time() -> None:
    got: list[Piece] = []
    began = anyio.current_time()
    with pytest.raises(ModelFailed, match="sent nothing for 120 seconds") as caught:
        async with pausing(SILENCE - 1, SILENCE - 1, HOUR).respond(REQUEST) as pieces:
            async for piece in pieces:
                got.append(piece)  # noqa: PERF401 - what came before the silence counts
    assert caught.value.code == "model_timeout"
    assert got == [TextPiece("word ")] * 3
    assert anyio.current_time() - began == pytest.approx(2 * (SILENCE - 1) + SILENCE)


async def test_an_answer_may_take_hours_if_it_goes_on() -> None:
    async with pausing(*[SILENCE - 1] * 60).respond(REQUEST) as pieces:
        got = [piece async for piece in pieces]
    assert len(got) == 61
    assert isinstance(got[-1], ResponseDone)


async def test_how_long_a_reader_takes_is_no_silence_of_the_model() -> None:
    """Who is hurt: who looks at a long answer through a slow line, and would lose the rest."""
    got: list[Piece] = []
    async with pausing(1, 1).respond(REQUEST) as pieces:
        async for piece in pieces:
            await anyio.sleep(HOUR)
            got.append(piece)
    assert isinstance(got[-1], ResponseDone)
    assert len(got) == 3


async def test_a_stop_in_a_silence_is_a_stop_and_no_trouble_of_the_model() -> None:
    began = anyio.current_time()
    with anyio.move_on_after(10) as stop:
        async with pausing(HOUR).respond(REQUEST) as pieces:
            async for _ in pieces:
                pass
    assert stop.cancelled_caught
    assert anyio.current_time() - began == pytest.approx(10)
