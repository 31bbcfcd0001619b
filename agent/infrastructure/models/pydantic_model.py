"""Any pydantic-ai model behind the LanguageModel port.

It translates: our messages into the library's, the library's stream into pieces, its exceptions
into one sentence that says what to do. The tool loop stays ours (see `agent.run`). No wait is
without a deadline: a stream that says nothing for two minutes has failed.
"""

import json
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import anyio
import anyio.to_thread
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from agent.domain.messages import whole_characters
from agent.domain.ports import (
    ArgumentsPiece,
    CallBegan,
    Log,
    ModelFailed,
    ModelInput,
    Piece,
    ReasoningPiece,
    ResponseDone,
    Retrying,
    TextPiece,
    ToolSpec,
)
from agent.infrastructure.models.failures import Explain, retry_delay
from agent.infrastructure.models.history import model_messages, opaque_of

# Without a byte for so long, a stream is dead. Reasoning models may think for a minute or more.
SILENCE = 120.0
# All waits before retries of one request, together: longer ones are the user's to decide.
RETRY_BUDGET = 10.0
MAX_RETRIES = 3
_CLOSING = 5.0
_CUTS: dict[str, Literal["length", "filter"]] = {"length": "length", "content_filter": "filter"}


@dataclass(slots=True, kw_only=True, eq=False)
class PydanticModel:
    """One pydantic-ai model. `build` runs off the event loop: provider packages import slowly."""

    build: Callable[[], Model]
    provider: str
    name: str
    explain: Explain
    log: Log
    is_scripted: bool = False
    """No provider: it uses no tokens, and its streams end without a reason."""
    has_known_prices: bool = False
    """It is the provider's own server, and no other that has a model of the same name."""
    silence: float = SILENCE
    retry_budget: float = RETRY_BUDGET
    _built: Model | None = field(default=None, init=False)

    @asynccontextmanager
    async def respond(self, request: ModelInput) -> AsyncGenerator[AsyncIterator[Piece]]:
        """Stream one response. Raises ModelFailed, and so does iterating.

        Silence cancels the block, and is raised where it ends.
        """
        model = await self._model()
        messages = await anyio.to_thread.run_sync(model_messages, request)
        stack = AsyncExitStack()
        try:
            await stack.enter_async_context(model)
            with anyio.CancelScope() as watch:
                yield _Pieces(self, stack, watch, model, messages, request)
            if watch.cancelled_caught:
                raise self.explain.silence(self.silence)
        finally:
            # Shielded: a run that is stopped must hang up on the provider, not leave it talking.
            with anyio.move_on_after(_CLOSING, shield=True):
                await stack.aclose()

    async def context_window(self) -> int | None:
        """How many tokens it reads at most, as far as the library knows. Never raises."""
        try:
            # Abandoned by who can't wait for a provider's package; what is built then is kept.
            return (await self._model(abandon_on_cancel=True)).context_window
        except ModelFailed:
            return None  # whoever sends a request to it is told why

    async def _model(self, *, abandon_on_cancel: bool = False) -> Model:
        """Without waiting, once it is built. Raises ModelFailed."""
        if self._built is not None:
            return self._built
        return await anyio.to_thread.run_sync(self._build_once, abandon_on_cancel=abandon_on_cancel)

    def _build_once(self) -> Model:
        if self._built is None:
            self._built = self.build()
        return self._built


class _Pieces:
    """The pieces of one response. The request is sent when the first one is asked for."""

    def __init__(
        self,
        model: PydanticModel,
        stack: AsyncExitStack,
        watch: anyio.CancelScope,
        target: Model,
        messages: list[ModelMessage],
        request: ModelInput,
    ) -> None:
        self._model = model
        self._stack = stack
        self._watch = watch
        self._target = target
        self._messages = messages
        self._parameters = ModelRequestParameters(
            function_tools=[_definition(spec) for spec in request.tools]
        )
        # Retries are ours: counted against one budget, in the log, and seen by who waits.
        self._settings = ModelSettings(max_retries=0)
        if request.thinking is not None:
            self._settings["thinking"] = False if request.thinking == "off" else request.thinking
        self._stream: StreamedResponse | None = None
        self._events: AsyncIterator[ModelResponseStreamEvent] | None = None
        self._waiting: Iterator[Piece] = iter(())
        self._is_done = False
        self._attempt, self._waited, self._delay = 0, 0.0, 0.0

    def __aiter__(self) -> "_Pieces":
        return self

    async def __anext__(self) -> Piece:
        while (piece := next(self._waiting, None)) is None:
            if self._is_done:
                raise StopAsyncIteration
            if self._events is None:
                await anyio.sleep(self._delay)
            self._waiting = iter(await self._more())
        return piece

    async def _more(self) -> list[Piece]:
        """Wait for the model, and only that is watched: who reads may take their time."""
        explain = self._model.explain
        # One scope a response, aimed anew: a scope a token costs more than all else we do with it.
        self._watch.deadline = anyio.current_time() + self._model.silence
        try:
            if self._events is None:
                return await self._send()
            event = await anext(self._events, None)
        except (AgentRunError, UserError) as exc:
            raise explain.failure(exc) from exc
        except Exception as exc:  # however the library stumbles over what a server sends
            raise self._not_understood(exc) from exc
        finally:
            self._watch.deadline = math.inf
        if event is not None:
            return _pieces(event)
        self._is_done = True
        return [self._done()]

    async def _send(self) -> list[Piece]:
        """Send the request; if that fails and trying again may help and is soon, say so."""
        model = self._model
        try:
            self._stream = await self._stack.enter_async_context(
                model_request_stream(
                    self._target,
                    self._messages,
                    model_settings=self._settings,
                    model_request_parameters=self._parameters,
                )
            )
        except (AgentRunError, UserError) as exc:
            delay = retry_delay(exc, self._attempt) if self._attempt < MAX_RETRIES else None
            if delay is None or self._waited + delay > model.retry_budget:
                raise
            self._attempt += 1
            self._waited += delay
            self._delay = delay
            model.log("warning", "model_retried", attempt=self._attempt, retry_in=delay)
            return [Retrying(self._attempt, delay, str(model.explain.failure(exc)))]
        self._events = aiter(self._stream)
        return []

    def _not_understood(self, exc: Exception) -> ModelFailed:
        # Its text may hold what was said.
        self._model.log("warning", "model_not_understood", reason=type(exc).__name__)
        return self._model.explain.not_understood()

    def _done(self) -> ResponseDone:
        stream, scripted = self._stream, self._model.is_scripted
        assert stream is not None
        if stream.finish_reason in (None, "error") and not scripted:
            raise self._model.explain.cut()
        response = stream.get()
        # The library guesses tokens for a function; a script uses none, and that is what is told.
        usage = RequestUsage() if scripted else response.usage
        return ResponseDone(
            provider=self._model.provider,
            model=self._model.name,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_input_tokens=usage.cache_read_tokens,
            cost=list_price(response) if self._model.has_known_prices else None,
            opaque=opaque_of(response),
            cut=_CUTS.get(stream.finish_reason or ""),
        )


def list_price(response: ModelResponse) -> float | None:
    """What the response cost at the provider's list prices, in US dollars, if they are known."""
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return None


def _pieces(event: ModelResponseStreamEvent) -> list[Piece]:
    match event:
        case PartStartEvent(part=TextPart(content=text)):
            return [TextPiece(whole_characters(text))]
        case PartStartEvent(part=ThinkingPart(content=text)):
            return [ReasoningPiece(whole_characters(text))]
        case PartStartEvent(index=index, part=ToolCallPart() as call):
            # A server may leave either out, whatever the type says.
            call_id, name = call.tool_call_id or "", call.tool_name or ""
            began = CallBegan(index, whole_characters(call_id), whole_characters(name))
            return [began, ArgumentsPiece(index, _text(call.args))]
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return [TextPiece(whole_characters(text))]
        case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)) if text:
            return [ReasoningPiece(whole_characters(text))]
        case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=args)):
            return [ArgumentsPiece(index, _text(args))]
        case _:
            return []


def _text(arguments: object) -> str:
    """Arguments as JSON text. A provider that gives them whole gives an object."""
    if arguments is None or isinstance(arguments, str):
        return whole_characters(arguments or "")
    return whole_characters(json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))


def _definition(spec: ToolSpec) -> ToolDefinition:
    return ToolDefinition(
        name=spec.name,
        description=spec.description,
        parameters_json_schema=dict(spec.parameters),
    )
