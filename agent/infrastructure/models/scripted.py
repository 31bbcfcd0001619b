"""`demo:scripted`: a stand-in for a language model, deterministic and honest about it.

It understands a handful of plain commands, one a line, and calls the real tools for them, so that
approvals, stops and reattaching can be tried without a key. It is a pydantic-ai model, so that it
takes the same path as a real one: streamed pieces, tool calls, results in the next request.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence

import anyio
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)

from agent.domain.questions import TOOL
from agent.infrastructure.models.delegating import HELP, delegating_call, is_note

NAME = "scripted"
INTRODUCTION = (
    "I am roost's built-in stand-in, not a language model: no model is set up here, so I only"
    " follow a few plain commands (say 'help'). "
)
_HELP = (
    "One command a line: 'run <shell command>', 'read <file>', 'write <file>: <text>',"
    f" 'ask <question>', 'use <tool> <JSON>', 'think', 'slow <n>', {HELP}, 'help'. To work with"
    " a real model, set agent.model, for example ROOST_AGENT__MODEL=openai:gpt-6-luna, and its key."
)
_SHOWN_OUTPUT = 500

Delta = str | DeltaToolCalls | DeltaThinkingCalls


def scripted_model(new_id: Callable[[], str]) -> FunctionModel:
    """The model. `new_id` makes the ids of its calls."""

    def stream(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[Delta]:
        return _answer(messages, new_id)

    return FunctionModel(stream_function=stream, model_name=NAME)


async def _answer(
    messages: Sequence[ModelMessage], new_id: Callable[[], str]
) -> AsyncIterator[Delta]:
    if not any(isinstance(message, ModelResponse) for message in messages):
        async for word in _words(INTRODUCTION):
            yield word
    lines, done, results = _where(messages)
    if results:
        async for word in _words(_report(results)):
            yield word
    calls: list[tuple[str, dict[str, object]]] = []
    taken = 0
    for line in lines[done:]:
        call = _call(line)
        if call is None and calls:
            break  # calls end a response; the rest of the lines follow after their results
        taken += 1
        if call is not None:
            calls.append(call)
            continue
        async for delta in _say(line):
            yield delta
    if not calls:
        if not lines:
            yield "There is nothing for me to do."
        return
    for part, (name, arguments) in enumerate(calls, 1):
        yield {part: DeltaToolCall(name, "", tool_call_id=f"call_{new_id()}")}
        for piece in _pieces(json.dumps(arguments, ensure_ascii=False), 12):
            await anyio.lowlevel.checkpoint()
            yield {part: DeltaToolCall(None, piece)}


def _where(
    messages: Sequence[ModelMessage],
) -> tuple[list[str], int, list[tuple[str, str]]]:
    """The lines of the last user message, how many are done, and the results that just came."""
    last = 0
    prompt = ""
    for place, message in enumerate(messages):
        if isinstance(message, ModelRequest):
            said = [part for part in message.parts if isinstance(part, UserPromptPart)]
            if said:
                last, prompt = place, _text(said[-1])
    lines = [line.strip() for line in prompt.splitlines() if line.strip()]
    if is_note(prompt):
        lines = lines[:1]
    responses = [m for m in messages[last:] if isinstance(m, ModelResponse) and m.tool_calls]
    called = sum(len(response.tool_calls) for response in responses)
    results: list[tuple[str, str]] = []
    if isinstance(messages[-1], ModelRequest):
        results = [
            (part.tool_name, str(part.content))
            for part in messages[-1].parts
            if isinstance(part, ToolReturnPart)
        ]
    if not responses:
        return lines, 0, []
    return lines, _done(lines, called), results


def _done(lines: Sequence[str], called: int) -> int:
    """How many lines are behind us once that many calls were made: all up to the last of them."""
    for place, line in enumerate(lines):
        if _call(line) is not None:
            called -= 1
            if called == 0:
                return place + 1
    return len(lines)


def _call(line: str) -> tuple[str, dict[str, object]] | None:
    word, _, rest = line.partition(" ")
    rest = rest.strip()
    match word.lower():
        case "run" if rest:
            return "Bash", {"command": rest}
        case "read" if rest:
            return "Read", {"path": rest}
        case "write" if ":" in rest:
            path, _, text = rest.partition(":")
            return "Write", {"path": path.strip(), "content": text.strip() + "\n"}
        case "use" if rest:
            name, _, arguments = rest.partition(" ")
            return name, _arguments(arguments)
        case "ask" if rest:
            options = [{"label": "Yes"}, {"label": "No"}]
            return TOOL, {"questions": [{"question": rest, "header": "Ask", "options": options}]}
        case _:
            return delegating_call(line)


def _arguments(text: str) -> dict[str, object]:
    try:
        return dict(json.loads(text or "{}"))
    except (ValueError, TypeError):
        return {"text": text}


async def _say(line: str) -> AsyncIterator[Delta]:
    word = line.split(" ", 1)[0].lower()
    if is_note(line):
        yield f"I have read the note {line} "
    elif word == "think":
        thought = "I look at what was asked, find the word 'think', and pretend to weigh it. "
        for piece in re.findall(r"\S+\s*", thought):
            await anyio.lowlevel.checkpoint()
            yield {0: DeltaThinkingPart(content=piece)}
        yield "I thought about it, as far as a script can. "
    elif word == "slow":
        number = line.split(" ", 1)[1].strip() if " " in line else "10"
        count = min(int(number), 10_000) if number.isdecimal() else 10
        for place in range(1, count + 1):
            yield f"word{place} "
            await anyio.sleep(0.1)
    elif word == "help":
        async for piece in _words(_HELP):
            yield piece
    else:
        async for piece in _words(f"You said: {line}. I only follow plain commands; try 'help'. "):
            yield piece


def _report(results: Sequence[tuple[str, str]]) -> str:
    sentences: list[str] = []
    for name, content in results:
        result = _result(content)
        output = str(result.get("output", "")).strip()
        shown = output if len(output) <= _SHOWN_OUTPUT else output[:_SHOWN_OUTPUT] + " ..."
        if name == TOOL:
            sentences.append(f"You answered: {shown}" if shown else f"{result.get('error')}")
        elif result.get("success"):
            sentences.append(f"{name} worked: {shown}" if shown else f"{name} worked.")
        else:
            sentences.append(f"{name} did not work: {result.get('error')} {shown}".rstrip())
    return " ".join(sentences) + " "


def _result(content: str) -> dict[str, object]:
    """A result of a tool of ours; an application's own may look like anything, and count as it."""
    as_it_is: dict[str, object] = {"success": True, "output": content}
    try:
        found: dict[str, object] = dict(json.loads(content))
    except (ValueError, TypeError):
        return as_it_is
    return found if "success" in found else as_it_is


async def _words(text: str) -> AsyncIterator[str]:
    for word in re.findall(r"\S+\s*", text):
        await anyio.lowlevel.checkpoint()
        yield word


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _text(part: UserPromptPart) -> str:
    if isinstance(part.content, str):
        return part.content
    return "\n".join(piece for piece in part.content if isinstance(piece, str))
