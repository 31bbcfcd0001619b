"""Anthropic's and Google's own APIs, spoken by local servers: what a model's port makes of them."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import anyio
import pytest

from agent.domain.approval import Effect
from agent.domain.entries import Responded
from agent.domain.messages import FunctionCall, Message, ToolCall
from agent.domain.ports import (
    ArgumentsPiece,
    CallBegan,
    LanguageModel,
    ModelFailed,
    ModelInput,
    Piece,
    ReasoningPiece,
    ResponseDone,
    Retrying,
    TextPiece,
    Thinking,
    ToolSpec,
)
from agent.infrastructure.models.catalogue import Catalogue, ProviderAccess, find_model
from agent.infrastructure.models.pydantic_model import PydanticModel
from tests.agent.support.anthropic_server import (
    anthropic_call,
    anthropic_refusal,
    anthropic_stream,
    anthropic_text,
    anthropic_thinking,
)
from tests.agent.support.fakes import FakeLog, counting_ids
from tests.agent.support.google_server import (
    google_call,
    google_refusal,
    google_stream,
    google_text,
    google_thought,
)
from tests.agent.support.provider_server import Chunks, ProviderServer, Status, provider_server, sse

KEY = "secret-0123456789abcdef"
QUESTION = Message(id="m1", role="user", content="hello")
READ = ToolSpec(
    name="Read",
    description="Read it.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
    effect=Effect.READS,
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the providers' own packages know no other


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one provider says the same things."""

    model: str
    path: str
    key_header: str
    key_variable: str
    text: Chunks
    thought: Chunks
    call: Chunks
    cut: Chunks
    long: Chunks
    """It reached the most that one answer may have."""
    broken: Chunks
    limited: Callable[[float], Status]
    overloaded: Status
    wrong_key: Status
    unknown: Status

    @property
    def provider(self) -> str:
        return self.model.partition(":")[0]


def _google_limited(seconds: float) -> Status:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{seconds:g}s"}
    return google_refusal(429, "RESOURCE_EXHAUSTED", "slow down", [info])


ANTHROPIC = Dialect(
    model="anthropic:claude-haiku-4-5",
    path="/v1/messages",
    key_header="authorization",
    key_variable="ANTHROPIC_API_KEY",
    text=anthropic_stream(anthropic_text("Hel", "lo")),
    thought=anthropic_stream(
        anthropic_thinking("I ", "see.", signature="c2lnbmVk"), anthropic_text("Hi")
    ),
    call=anthropic_stream(anthropic_call("toolu_1", "Read", '{"pa', 'th": "x"}'), stop="tool_use"),
    cut=anthropic_stream(anthropic_text("half"), stop=None),
    long=anthropic_stream(anthropic_text("half"), stop="max_tokens"),
    broken=anthropic_stream(anthropic_text("half"), stop=None, breaks=True),
    limited=lambda seconds: anthropic_refusal(
        429, "rate_limit_error", "slow down", Retry_After=f"{seconds:g}"
    ),
    overloaded=anthropic_refusal(529, "overloaded_error", "busy", Retry_After="0"),
    wrong_key=anthropic_refusal(401, "authentication_error", f"invalid x-api-key {KEY}"),
    unknown=anthropic_refusal(404, "not_found_error", "model: claude"),
)
GOOGLE = Dialect(
    model="google:gemini-2.5-flash",
    path="/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
    key_header="x-goog-api-key",
    key_variable="GOOGLE_API_KEY",
    text=google_stream(google_text("Hel"), google_text("lo")),
    thought=google_stream(google_thought("I "), google_thought("see."), google_text("Hi")),
    call=google_stream(google_call("Read", {"path": "x"}, "c2lnbmVk")),
    cut=google_stream(google_text("half"), finish=None),
    long=google_stream(google_text("half"), finish="MAX_TOKENS"),
    broken=google_stream(google_text("half"), finish=None, breaks=True),
    limited=_google_limited,
    overloaded=google_refusal(503, "UNAVAILABLE", "busy"),
    wrong_key=google_refusal(
        400,
        "INVALID_ARGUMENT",
        f"API key not valid: {KEY}.",
        [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
    ),
    unknown=google_refusal(404, "NOT_FOUND", "models/gemini is not found"),
)
BOTH = pytest.mark.parametrize("dialect", [ANTHROPIC, GOOGLE], ids=["anthropic", "google"])


@contextmanager
def serving(*replies: Chunks | Status) -> Generator[ProviderServer]:
    server = ProviderServer(replies=list(replies))
    with provider_server(server):
        yield server


def model_at(dialect: Dialect, url: str, log: FakeLog | None = None) -> PydanticModel:
    access = {dialect.provider: ProviderAccess(url, KEY)}
    return find_model(dialect.model, access, counting_ids(), log or FakeLog())


def request(*messages: Message, tools: Sequence[ToolSpec] = ()) -> ModelInput:
    return ModelInput(
        instructions="Be good.", messages=messages or (QUESTION,), responses={}, tools=tools
    )


async def pieces_of(model: LanguageModel, wanted: ModelInput | None = None) -> list[Piece]:
    with anyio.fail_after(60):
        async with model.respond(wanted or request()) as pieces:
            return [piece async for piece in pieces]


async def failure_of(model: LanguageModel, got: list[Piece] | None = None) -> ModelFailed:
    found = [] if got is None else got
    with pytest.raises(ModelFailed) as caught, anyio.fail_after(60):
        async with model.respond(request()) as pieces:
            async for piece in pieces:
                found.append(piece)
    return caught.value


@BOTH
async def test_text_comes_in_pieces_with_its_usage_from_the_address_that_was_set(
    dialect: Dialect,
) -> None:
    with serving(dialect.text) as server:
        pieces = await pieces_of(model_at(dialect, server.url))
    assert [p.delta for p in pieces if isinstance(p, TextPiece) and p.delta] == ["Hel", "lo"]
    done = pieces[-1]
    assert isinstance(done, ResponseDone)
    assert (done.provider, done.model) == (dialect.provider, dialect.model.partition(":")[2])
    assert done.output_tokens == 7
    assert done.cached_input_tokens == 5
    assert done.cost is None  # a server of one's own has no list price
    assert server.asked[0].path == dialect.path
    assert server.asked[0].headers[dialect.key_header].removeprefix("Bearer ") == KEY


@BOTH
async def test_what_a_model_thinks_comes_as_reasoning_before_its_text(dialect: Dialect) -> None:
    with serving(dialect.thought) as server:
        pieces = await pieces_of(model_at(dialect, server.url))
    told = [(type(p), p.delta) for p in pieces if isinstance(p, ReasoningPiece | TextPiece)]
    assert [each for each in told if each[1]] == [
        (ReasoningPiece, "I "),
        (ReasoningPiece, "see."),
        (TextPiece, "Hi"),
    ]


@BOTH
async def test_a_tool_call_is_one_call_with_an_id_and_whole_arguments(dialect: Dialect) -> None:
    with serving(dialect.call) as server:
        pieces = await pieces_of(model_at(dialect, server.url), request(tools=[READ]))
    [began] = [piece for piece in pieces if isinstance(piece, CallBegan)]
    assert began.name == "Read"
    assert began.call_id
    arguments = "".join(p.delta for p in pieces if isinstance(p, ArgumentsPiece))
    assert arguments.replace(" ", "") == '{"path":"x"}'
    assert "Read" in str(server.asked[0].body["tools"])


@BOTH
async def test_what_only_the_provider_understands_is_given_back_as_it_came(
    dialect: Dialect,
) -> None:
    """Who is hurt: a model that thinks between calls, and is refused or forgets without it."""
    response = dialect.thought if dialect is ANTHROPIC else dialect.call
    with serving(response, dialect.text) as server:
        model = model_at(dialect, server.url)
        pieces = await pieces_of(model, request(tools=[READ]))
        done = pieces[-1]
        assert isinstance(done, ResponseDone)
        assert done.opaque is not None
        responded = Responded(
            message_ids=["a1"], provider=done.provider, model=done.model, opaque=done.opaque
        )
        calls = [
            ToolCall(id=piece.call_id, function=FunctionCall("Read", '{"path":"x"}'))
            for piece in pieces
            if isinstance(piece, CallBegan)
        ]
        messages = (
            QUESTION,
            Message(id="a1", role="assistant", content="Hi", tool_calls=calls or None),
            *(Message(id="t", role="tool", tool_call_id=c.id, content="alpha") for c in calls),
            Message(id="m2", role="user", content="and?"),
        )
        await pieces_of(model, replace(request(*messages), responses={"a1": responded}))
    assert "c2lnbmVk" in str(server.asked[1].body)


@BOTH
async def test_a_short_rate_limit_is_waited_out_and_told_to_who_waits(dialect: Dialect) -> None:
    log = FakeLog()
    with serving(dialect.limited(0), dialect.limited(0), dialect.text) as server:
        pieces = await pieces_of(model_at(dialect, server.url, log))
    retries = [piece for piece in pieces if isinstance(piece, Retrying)]
    assert [(retry.attempt, retry.delay) for retry in retries] == [(1, 0.0), (2, 0.0)]
    assert "slow down" in retries[0].reason
    assert TextPiece("Hel") in pieces
    assert log.names() == ["model_retried", "model_retried"]
    assert len(server.asked) == 3  # the provider's package did not retry by itself


@BOTH
async def test_a_long_rate_limit_is_the_persons_to_wait_for(dialect: Dialect) -> None:
    with serving(dialect.limited(99)) as server:
        failed = await failure_of(model_at(dialect, server.url))
    assert failed.code == "model_rate"
    assert "in 99 seconds" in str(failed)


@BOTH
async def test_an_overloaded_provider_is_tried_a_few_times_and_then_told(dialect: Dialect) -> None:
    with serving(*[dialect.overloaded] * 4) as server:
        got: list[Piece] = []
        failed = await failure_of(replace(model_at(dialect, server.url), retry_budget=60.0), got)
    assert failed.code == "model_server"
    assert len(server.asked) == 4
    assert [piece.attempt for piece in got if isinstance(piece, Retrying)] == [1, 2, 3]


@BOTH
async def test_a_wrong_key_says_where_it_belongs_and_never_what_it_is(dialect: Dialect) -> None:
    with serving(dialect.wrong_key) as server:
        failed = await failure_of(model_at(dialect, server.url))
    assert failed.code == "model_key"
    assert dialect.key_variable in str(failed)
    assert KEY not in str(failed)


@BOTH
async def test_a_model_that_the_provider_does_not_have_is_named(dialect: Dialect) -> None:
    with serving(dialect.unknown) as server:
        failed = await failure_of(model_at(dialect, server.url))
    assert failed.code == "model_not_found"
    assert dialect.model in str(failed)


@pytest.mark.parametrize(
    ("dialect", "reply"),
    [
        (ANTHROPIC, ANTHROPIC.cut),
        (ANTHROPIC, ANTHROPIC.broken),
        (GOOGLE, GOOGLE.cut),
        (GOOGLE, GOOGLE.broken),
    ],
    ids=["anthropic-ends", "anthropic-breaks", "google-ends", "google-breaks"],
)
async def test_a_cut_stream_is_an_error_and_never_a_whole_answer(
    dialect: Dialect, reply: Chunks
) -> None:
    with serving(reply) as server:
        got: list[Piece] = []
        failed = await failure_of(model_at(dialect, server.url), got)
    assert [piece for piece in got if isinstance(piece, TextPiece) and piece.delta] == [
        TextPiece("half")
    ]
    assert failed.code == "model_cut"
    assert len(server.asked) == 1  # what was told is not told again


ODD: dict[str, list[bytes]] = {
    "no JSON": [b"data: {nonsense\n\n"],
    "a list": [b"data: [1,2]\n\n"],
    "null": [b"data: null\n\n"],
    "nothing in it": [b"data: {}\n\n"],
    "a page": [b"<html><body>Sign in</body></html>"],
    "no bytes": [],
    "no text": [b"data: \xff\xfe\n\n"],
    "a number for text": [sse({"candidates": [{"content": {"parts": [{"text": 5}]}}]})],
    "an unknown part": [
        sse({"candidates": [{"content": {"parts": [{"x": 1}]}, "finishReason": "STOP"}]})
    ],
    "a delta of nothing": [
        sse(
            {
                "type": "content_block_delta",
                "index": 9,
                "delta": {"type": "text_delta", "text": "x"},
            }
        )
    ],
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    "model", ["anthropic:claude-haiku-4-5", "google:gemini-2.5-flash", "openai:m"]
)
async def test_whatever_a_server_sends_in_place_of_an_answer_is_one_clear_failure(
    model: str, odd: str
) -> None:
    """Who is hurt: who set the address of something else, and reads that roost has a bug."""
    provider = model.partition(":")[0]
    with serving(Chunks(tuple(ODD[odd]))) as server:
        access = {provider: ProviderAccess(server.url, KEY)}
        failed = await failure_of(find_model(model, access, counting_ids(), FakeLog()))
    assert failed.code in ("model_failed", "model_cut")
    assert "The conversation is safe" in str(failed)


@pytest.mark.parametrize("dialect", [ANTHROPIC, GOOGLE], ids=["anthropic", "google"])
async def test_an_answer_that_was_as_long_as_it_may_be_is_told_as_cut(dialect: Dialect) -> None:
    with serving(dialect.long) as server:
        done = (await pieces_of(model_at(dialect, server.url)))[-1]
    assert isinstance(done, ResponseDone)
    assert done.cut == "length"


async def test_an_error_in_the_middle_of_a_stream_keeps_what_came_and_is_told() -> None:
    stream = anthropic_stream(anthropic_text("half"), error="overloaded_error", stop=None)
    with serving(stream) as server:
        got: list[Piece] = []
        failed = await failure_of(model_at(ANTHROPIC, server.url), got)
    assert TextPiece("half") in got
    assert failed.code == "model_server"
    assert "Overloaded" in str(failed)


@BOTH
async def test_a_call_that_was_cut_off_is_told_as_far_as_it_came(dialect: Dialect) -> None:
    half = (
        anthropic_stream(anthropic_call("toolu_1", "Read", '{"pa'), stop=None)
        if dialect is ANTHROPIC
        else google_stream(google_call("Read", {"path": "x"}), finish=None)
    )
    with serving(half) as server:
        got: list[Piece] = []
        failed = await failure_of(model_at(dialect, server.url), got)
    assert failed.code == "model_cut"
    assert any(isinstance(piece, CallBegan) for piece in got)


@pytest.mark.parametrize(
    ("dialect", "level", "sent"),
    [
        (ANTHROPIC, None, {}),
        (ANTHROPIC, "off", {}),
        (ANTHROPIC, "high", {"thinking": {"type": "enabled"}}),
        (GOOGLE, None, {}),
        (GOOGLE, "off", {"thinkingConfig": {"thinking_budget": 0}}),
        (GOOGLE, "low", {"thinkingConfig": {"include_thoughts": True}}),
    ],
)
async def test_how_much_to_think_reaches_the_provider(
    dialect: Dialect, level: Thinking | None, sent: dict[str, dict[str, Any]]
) -> None:
    with serving(dialect.text) as server:
        await pieces_of(model_at(dialect, server.url), replace(request(), thinking=level))
    body = server.asked[0].body
    told = body if dialect is ANTHROPIC else body.get("generationConfig", {})
    for name, value in sent.items():
        assert told[name].items() >= value.items()
    if not sent:
        assert told.get("thinking", {"type": "disabled"}) == {"type": "disabled"}
        assert "thinkingConfig" not in told


@BOTH
async def test_a_provider_without_a_key_says_where_it_belongs(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    failed = await failure_of(find_model(dialect.model, {}, counting_ids(), FakeLog()))
    assert failed.code == "model_key"
    assert dialect.key_variable in str(failed)


@BOTH
async def test_a_server_of_ones_own_needs_no_key(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with serving(dialect.text) as server:
        access = {dialect.provider: ProviderAccess(server.url, None)}
        model = find_model(dialect.model, access, counting_ids(), FakeLog())
        assert TextPiece("Hel") in await pieces_of(model)


@BOTH
async def test_the_prices_of_the_provider_itself_are_known(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(f"{dialect.provider.upper()}_BASE_URL", raising=False)
    with serving(dialect.text) as server:
        model = replace(model_at(dialect, server.url), has_known_prices=True)
        done = (await pieces_of(model))[-1]
    assert isinstance(done, ResponseDone)
    assert done.cost is not None
    assert 0 < done.cost < 1


@BOTH
async def test_the_models_of_a_provider_with_an_address_are_in_the_list(dialect: Dialect) -> None:
    with serving() as server:
        names = await Catalogue(
            default=dialect.model,
            access={dialect.provider: ProviderAccess(server.url, KEY)},
            environ={},
            new_id=counting_ids(),
            log=FakeLog(),
        ).names()
    assert names[0] == dialect.model
    assert sum(name.startswith(f"{dialect.provider}:") for name in names) > 3
    assert server.asked == []
