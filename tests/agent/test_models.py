"""The path to a real model, against a server that speaks its API: answers, trouble, silence."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import distributions

import anyio
import pytest
from pydantic_ai.messages import ModelResponse, ThinkingPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

from agent.domain.approval import Effect
from agent.domain.messages import FunctionCall, Message, ToolCall
from agent.domain.ports import (
    ArgumentsPiece,
    CallBegan,
    LanguageModel,
    ModelFailed,
    ModelInput,
    Piece,
    ResponseDone,
    Retrying,
    TextPiece,
    Thinking,
    ToolSpec,
)
from agent.infrastructure.models.catalogue import Catalogue, ProviderAccess, find_model
from agent.infrastructure.models.failures import Explain
from agent.infrastructure.models.history import opaque_of
from agent.infrastructure.models.pydantic_model import PydanticModel, list_price
from agent.infrastructure.models.scripted import scripted_model
from tests.agent.support.fakes import FakeLog, counting_ids
from tests.agent.support.openai_server import (
    Refusal,
    Stream,
    openai_server,
    text,
    tool_call,
)

KEY = "sk-test-0123456789abcdef"
QUESTION = Message(id="m1", role="user", content="hello")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the provider's own package knows no other


def model_at(url: str, log: FakeLog | None = None, key: str | None = KEY) -> PydanticModel:
    access = {"openai": ProviderAccess(url, key)}
    return find_model("openai:some-model", access, counting_ids(), log or FakeLog())


def request(*messages: Message, tools: Sequence[ToolSpec] = ()) -> ModelInput:
    return ModelInput(
        instructions="Be good.", messages=messages or (QUESTION,), responses={}, tools=tools
    )


async def pieces_of(model: LanguageModel, wanted: ModelInput | None = None) -> list[Piece]:
    with anyio.fail_after(60):
        async with model.respond(wanted or request()) as pieces:
            return [piece async for piece in pieces]


async def failure_of(model: LanguageModel) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        await pieces_of(model)
    return caught.value


async def test_text_comes_in_the_pieces_it_was_sent_in_with_its_usage() -> None:
    with openai_server(text("Hel", "lo")) as server:
        pieces = await pieces_of(model_at(server.url))
    assert [p.delta for p in pieces if isinstance(p, TextPiece)] == ["Hel", "lo"]
    assert pieces[-1] == ResponseDone(
        provider="openai", model="some-model", input_tokens=11, output_tokens=7
    )
    assert server.keys == [f"Bearer {KEY}"]
    sent = server.requests[0]
    assert sent["stream"] is True
    assert [m["role"] for m in sent["messages"]] == ["system", "user"]


async def test_a_tool_call_in_fragments_is_one_call() -> None:
    spec = ToolSpec(
        name="Read", description="Read it.", parameters={"type": "object"}, effect=Effect.READS
    )
    with openai_server(tool_call("call_1", "Read", '{"pa', 'th": "x"}')) as server:
        pieces = await pieces_of(model_at(server.url), request(tools=[spec]))
    assert CallBegan(0, "call_1", "Read") in pieces
    arguments = "".join(p.delta for p in pieces if isinstance(p, ArgumentsPiece))
    assert arguments == '{"path": "x"}'
    assert server.requests[0]["tools"][0]["function"]["name"] == "Read"


@pytest.mark.parametrize(
    ("finish", "cut"), [("stop", None), ("length", "length"), ("content_filter", "filter")]
)
async def test_what_ended_an_answer_before_the_model_had_is_told(
    finish: str, cut: str | None
) -> None:
    with openai_server(Stream(({"content": "half"},), finish)) as server:
        done = (await pieces_of(model_at(server.url)))[-1]
    assert isinstance(done, ResponseDone)
    assert done.cut == cut


async def test_half_a_character_of_a_server_is_shown_as_such_and_breaks_nothing() -> None:
    """Some servers cut emoji in two, and no line of ours could hold a half."""
    half = {
        "tool_calls": [{"index": 0, "id": "c", "function": {"name": "D", "arguments": "\ud83d"}}]
    }
    with openai_server(Stream(({"content": "a\ud83d"}, {"content": "\ude00b"}, half))) as server:
        pieces = await pieces_of(model_at(server.url))
    told = "".join(p.delta for p in pieces if isinstance(p, TextPiece | ArgumentsPiece))
    assert told == "a\ufffd\ufffdb\ufffd"


def test_half_a_character_in_what_only_a_provider_understands_leaves_our_own_copy() -> None:
    whole = ModelResponse([ThinkingPart("a", signature="s")])
    assert opaque_of(whole) is not None
    assert opaque_of(ModelResponse([ThinkingPart("\ud83d", signature="s")])) is None


async def test_every_call_is_answered_right_after_its_response() -> None:
    """Providers refuse a history in which a call is unanswered, or answered later."""
    call = ToolCall(id="c1", function=FunctionCall("Do", '{"what":"x"}'))
    cut = ToolCall(id="c3", function=FunctionCall("Do", '{"wh'))
    lost = ToolCall(id="c2", function=FunctionCall("Do", "{}"))
    messages = (
        QUESTION,
        Message(id="a1", role="assistant", content="", tool_calls=[call, lost, cut]),
        Message(id="m2", role="user", content="and?"),
        Message(id="t1", role="tool", tool_call_id="c1", content="did x"),
        Message(id="n1", role="activity", activity_type="x", content={}),
    )
    with openai_server(text("ok")) as server:
        await pieces_of(model_at(server.url), request(*messages))
    sent = server.requests[0]["messages"]
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert [c["id"] for c in sent[2]["tool_calls"]] == ["c1", "c2"]
    assert sent[3]["content"] == "did x"
    assert "Not run" in sent[4]["content"]


@pytest.mark.parametrize(
    ("refusal", "code", "words"),
    [
        (Refusal(401, f"Incorrect API key provided: {KEY}."), "model_key", "OPENAI_API_KEY"),
        (Refusal(404, "no such model"), "model_not_found", "agent.model"),
        (Refusal(400, "bad request"), "model_refused", "bad request"),
        (Refusal(429, "slow down", {"Retry-After": "99"}), "model_rate", "in 99 seconds"),
        (Refusal(429, "broke", code="insufficient_quota"), "model_quota", "no quota or credit"),
    ],
)
async def test_a_refusal_says_what_to_do_and_never_a_key(
    refusal: Refusal, code: str, words: str
) -> None:
    with openai_server(refusal) as server:
        failed = await failure_of(model_at(server.url))
    assert failed.code == code
    assert words in str(failed)
    assert KEY not in str(failed)
    assert "Traceback" not in str(failed)


async def test_a_short_rate_limit_is_waited_out_and_told_to_who_waits() -> None:
    log = FakeLog()
    limited = Refusal(429, "slow down", {"Retry-After": "0"})
    with openai_server(limited, limited, text("hi")) as server:
        pieces = await pieces_of(model_at(server.url, log))
    assert TextPiece("hi") in pieces
    assert log.names() == ["model_retried", "model_retried"]
    retries = [piece for piece in pieces if isinstance(piece, Retrying)]
    assert [(piece.attempt, piece.delay) for piece in retries] == [(1, 0.0), (2, 0.0)]
    assert "slow down" in retries[0].reason


async def test_trouble_at_the_server_is_tried_a_few_times_and_then_told() -> None:
    trouble = Refusal(503, "overloaded", {"Retry-After": "0"})
    with openai_server(*[trouble] * 4) as server:
        failed = await failure_of(model_at(server.url))
    assert failed.code == "model_server"
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    "cut",
    [
        Stream(({"content": "half"},), finish=None),
        Stream(({"content": "half"},), breaks=True),
    ],
)
async def test_a_cut_stream_is_an_error_and_never_a_whole_answer(cut: Stream) -> None:
    with openai_server(cut) as server:
        got: list[Piece] = []
        with pytest.raises(ModelFailed) as caught, anyio.fail_after(60):
            async with model_at(server.url).respond(request()) as pieces:
                async for piece in pieces:
                    got.append(piece)  # noqa: PERF401 - what came before the error counts
    assert got == [TextPiece("half")]
    assert caught.value.code == "model_cut"


async def test_a_server_that_is_not_there_is_named() -> None:
    url = "http://127.0.0.1:1/v1"
    failed = await failure_of(model_at(url))
    assert failed.code == "model_unreachable"
    assert url in str(failed)


async def test_silence_has_a_deadline() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        found = model_at(f"http://127.0.0.1:{port}/v1")
        impatient = PydanticModel(
            build=found.build,
            provider="openai",
            name="m",
            explain=found.explain,
            log=FakeLog(),
            silence=0.3,
        )
        failed = await failure_of(impatient)
    assert failed.code == "model_timeout"


async def test_a_model_that_is_built_is_asked_without_waiting() -> None:
    """Whoever attaches asks for its window; a trip to a thread each time would be felt."""
    built: list[FunctionModel] = []

    def build() -> FunctionModel:
        built.append(scripted_model(counting_ids()))
        return built[-1]

    model = PydanticModel(
        build=build, provider="p", name="m", explain=Explain("p:m", "p", None, ()), log=FakeLog()
    )
    first = await model.context_window()
    with anyio.CancelScope() as scope:
        scope.cancel()
        assert await model.context_window() == first
        assert len(built) == 1
    assert not scope.cancelled_caught


async def test_a_stopped_run_hangs_up_at_once() -> None:
    release = threading.Event()
    with openai_server(Stream(({"content": "half"},), holds=release)) as server:
        model = model_at(server.url)
        with anyio.fail_after(60), anyio.CancelScope() as scope:
            async with model.respond(request()) as pieces:
                async for piece in pieces:
                    assert piece == TextPiece("half")
                    scope.cancel()
        assert scope.cancelled_caught
        release.set()


async def test_a_local_server_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with openai_server(text("hi")) as server:
        assert TextPiece("hi") in await pieces_of(model_at(server.url, key=None))


async def test_a_key_that_is_not_set_is_asked_for_where_it_belongs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    failed = await failure_of(find_model("openai:gpt-5-mini", {}, counting_ids(), FakeLog()))
    assert failed.code == "model_key"
    assert "OPENAI_API_KEY" in str(failed)
    assert "providers.openai.api_key" in str(failed)


@pytest.mark.parametrize(
    ("name", "package"), [("anthropic:claude", "anthropic"), ("google:gemini", "google")]
)
async def test_a_provider_without_its_package_says_how_to_install_it(
    name: str, package: str
) -> None:
    if any(
        each.name in ("anthropic", "google-genai") and package in each.name
        for each in distributions()
    ):
        pytest.skip(f"the package for {package} is installed")
    failed = await failure_of(find_model(name, {}, counting_ids(), FakeLog()))
    assert failed.code == "model_package"
    assert f"pip install 'roost[{package}]'" in str(failed)


@pytest.mark.parametrize(
    ("thinking", "effort"), [(None, None), ("low", "low"), ("high", "high"), ("off", "none")]
)
async def test_how_much_to_think_reaches_the_provider(
    thinking: Thinking | None, effort: str | None
) -> None:
    with openai_server(text("hi")) as server:
        access = {"openai": ProviderAccess(server.url, KEY)}
        model = find_model("openai:gpt-5.1", access, counting_ids(), FakeLog())
        wanted = replace(request(), thinking=thinking)
        async with model.respond(wanted) as pieces:
            assert [piece async for piece in pieces]
        assert server.requests[0].get("reasoning_effort") == effort


async def test_only_the_providers_own_server_has_known_prices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who is hurt: who runs a model at home, and would be told that it cost money."""
    with openai_server(text("hi")) as server:
        local = find_model(
            "openai:gpt-5", {"openai": ProviderAccess(server.url, KEY)}, counting_ids(), FakeLog()
        )
        done = (await pieces_of(local))[-1]
        assert isinstance(done, ResponseDone)
        assert done.cost is None
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert find_model("openai:gpt-5", {}, counting_ids(), FakeLog()).has_known_prices
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    assert not find_model("openai:gpt-5", {}, counting_ids(), FakeLog()).has_known_prices


async def test_an_unknown_provider_lists_some_that_are_known() -> None:
    failed = await failure_of(find_model("opnai:x", {}, counting_ids(), FakeLog()))
    assert failed.code == "model_unknown"
    assert "openai" in str(failed)


@pytest.mark.parametrize("name", ["gpt-5", "openai:", "demo:other"])
def test_a_name_that_is_none_is_refused_at_once(name: str) -> None:
    with pytest.raises(ModelFailed):
        find_model(name, {}, counting_ids(), FakeLog())


@pytest.mark.parametrize(("name", "is_known"), [("gpt-5", True), ("my-own", False)])
def test_a_price_is_told_only_where_one_is_listed(name: str, is_known: bool) -> None:
    usage = RequestUsage(input_tokens=1000, output_tokens=1000)
    response = ModelResponse(parts=[], usage=usage, model_name=name, provider_name="openai")
    price = list_price(response)
    assert (price is not None and 0 < price < 1) == is_known


# -- the catalogue -----------------------------------------------------------------------------


def catalogue(log: FakeLog | None = None, url: str | None = None, **environ: str) -> Catalogue:
    access = {"openai": ProviderAccess(url, KEY)} if url else {}
    return Catalogue(
        default="openai:mine",
        access=access,
        environ=environ,
        new_id=counting_ids(),
        log=log or FakeLog(),
    )


async def test_a_local_servers_own_models_are_listed_the_default_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agent.infrastructure.models.catalogue._LIST_TIMEOUT", 60.0)
    with openai_server() as server:
        server.lists("llama", "qwen")
        found = catalogue(url=server.url)
        expected = ["openai:mine", "openai:llama", "openai:qwen", "demo:scripted"]
        assert await found.names() == await found.names() == expected
        assert server.keys == [f"Bearer {KEY}"]  # asked once


async def test_a_server_that_can_not_list_its_models_costs_only_its_part_of_the_list() -> None:
    log = FakeLog()
    with openai_server() as server:
        assert await catalogue(log, server.url).names() == ["openai:mine", "demo:scripted"]
    assert await catalogue(log, server.url).names() == ["openai:mine", "demo:scripted"]
    assert log.names() == ["models_not_listed"] * 2
    assert KEY not in str(log.events)


async def test_providers_whose_key_is_in_the_environment_are_listed_without_asking_them() -> None:
    names = await catalogue(ANTHROPIC_API_KEY="x", GEMINI_API_KEY="y").names()
    assert any(name.startswith("anthropic:claude") for name in names)
    assert any(name.startswith("google:gemini") for name in names)
    assert not any(name.startswith("groq:") for name in names)
    assert (names[0], names[-1]) == ("openai:mine", "demo:scripted")


@pytest.mark.parametrize(
    "key", ["sk-abcdef123456", "AIzaSyA1234567890", "Bearer abcdefgh12345678", "hf_abcdefghijk"]
)
def test_what_looks_like_a_key_is_not_told_either(key: str) -> None:
    """A server may quote a key that is not the one that was configured."""
    explain = Explain("openai:m", "openai", None, [])
    assert key not in explain.scrub(f"no access with {key}, try another")
    assert "try another" in explain.scrub(f"no access with {key}, try another")


def test_a_configured_key_is_never_told_whatever_it_looks_like() -> None:
    explain = Explain("openai:m", "openai", None, ["plain-secret", "plain"])
    assert explain.scrub("plain-secret and plain") == "[key] and [key]"
