"""Our messages as pydantic-ai's, made when a request is sent and never stored.

Providers insist that each call is answered right after the response it came in; ours may be
answered later in the transcript, or never (a crash, a stop): the order is made here, and an answer
too where there is none. What only a provider understands (signatures of its reasoning) is given
back as it came.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from pydantic import ValidationError
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from agent.domain.entries import Responded
from agent.domain.messages import Message, ToolCall, attachments_of, result_text
from agent.domain.ports import ModelInput

_NO_RESULT = result_text(success=False, error="Not run: the run ended before.")


def model_messages(request: ModelInput) -> list[ModelMessage]:
    """The conversation for a model. Reads saved images: call it off the event loop."""
    results = {m.tool_call_id: m for m in request.messages if m.role == "tool" and m.tool_call_id}
    places = {message.id: place for place, message in enumerate(request.messages)}
    found: list[ModelMessage] = []
    done: set[str] = set()
    for message in request.messages:
        if message.role == "user":
            found.append(_user(message, request.instructions))
        elif message.role in ("assistant", "reasoning") and message.id not in done:
            response = request.responses.get(message.id)
            ids = set(response.message_ids) if response else {message.id}
            done |= ids
            together = [request.messages[p] for p in sorted(places[i] for i in ids & places.keys())]
            found += _response(together, response, results, request.instructions)
    if not isinstance(found[-1] if found else None, ModelRequest):
        # Nothing new was said (a stop was continued without a word): a request ends with a request.
        found.append(ModelRequest([UserPromptPart("Continue.")], instructions=request.instructions))
    return found


def opaque_of(response: ModelResponse) -> dict[str, object] | None:
    """The response as data, if it holds anything that only its provider understands."""
    special = any(
        (isinstance(part, ThinkingPart) and (part.signature or part.provider_details or part.id))
        or (isinstance(part, ToolCallPart) and (part.provider_details or part.id))
        or (isinstance(part, TextPart) and (part.provider_details or part.id))
        for part in response.parts
    )
    if not special:
        return None
    dumped: list[dict[str, object]] = ModelMessagesTypeAdapter.dump_python([response], mode="json")
    try:
        msgspec.json.encode(dumped)
    except UnicodeEncodeError:
        return None  # half a character in it: our own copy, which has none, will do
    return dumped[0]


def _user(message: Message, instructions: str) -> ModelRequest:
    content: list[UserContent] = [message.text] if message.text else []
    for attachment in attachments_of(message):
        if not attachment.is_image:
            continue
        try:
            data = Path(attachment.path).read_bytes()
        except OSError:
            content.append(f"[The image {attachment.name} is no longer there.]")
        else:
            content.append(BinaryContent(data, media_type=attachment.mime_type))
    part = UserPromptPart(message.text if content == [message.text] else content)
    return ModelRequest([part], instructions=instructions)


def _response(
    together: Iterable[Message],
    responded: Responded | None,
    results: Mapping[str, Message],
    instructions: str,
) -> list[ModelMessage]:
    parts: list[ModelResponsePart] = []
    calls: list[ToolCall] = []
    for message in together:
        if message.role == "reasoning":
            parts.append(ThinkingPart(message.text))
            continue
        if message.text:
            parts.append(TextPart(message.text))
        for call in message.tool_calls or ():
            if _is_whole(call):
                calls.append(call)
                parts.append(ToolCallPart(call.function.name, call.function.arguments, call.id))
    response = _as_it_came(responded) or (ModelResponse(parts) if parts else None)
    if response is None:
        return []
    found: list[ModelMessage] = [response]
    if calls:
        returns = [
            ToolReturnPart(
                call.function.name,
                results[call.id].text if call.id in results else _NO_RESULT,
                call.id,
            )
            for call in calls
        ]
        found.append(ModelRequest(returns, instructions=instructions))
    return found


def _as_it_came(responded: Responded | None) -> ModelResponse | None:
    if responded is None or responded.opaque is None:
        return None
    try:
        found = ModelMessagesTypeAdapter.validate_python([responded.opaque])
    except ValidationError:
        return None  # written by another version of the library: our own copy will do
    return found[0] if isinstance(found[0], ModelResponse) else None


def _is_whole(call: ToolCall) -> bool:
    """Arguments that were cut off can't be shown to a provider."""
    if not call.function.arguments:
        return True
    try:
        return isinstance(msgspec.json.decode(call.function.arguments.encode()), dict)
    except msgspec.DecodeError:
        return False
