"""One session with fakes around it: `async with one_session(...) as scene`."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import msgspec

from agent.domain.approval import Effect, Mode
from agent.domain.ports import ArgumentsPiece, CallBegan, Piece, TextPiece, Tool
from agent.domain.subagents import NO_DELEGATION, Delegation
from agent.equipment import Equipment
from agent.opening import open_conversation
from agent.session import Session
from tests.agent.support.fakes import (
    DONE,
    FakeArchive,
    FakeHistory,
    FakeLines,
    FakeLog,
    FakeModel,
    FakeModels,
    FakeProcesses,
    FakeProject,
    FakeTool,
    Line,
    Step,
    counting_ids,
)


def says(*words: str) -> list[Piece]:
    """A response of text."""
    return [*(TextPiece(word) for word in words), DONE]


def calls(*wanted: tuple[str, str, str]) -> list[Piece]:
    """A response of calls: (call id, tool, what to do)."""
    pieces: list[Piece] = []
    for part, (call_id, tool, what) in enumerate(wanted):
        pieces += [
            CallBegan(part, call_id, tool),
            ArgumentsPiece(part, '{"what":'),
            ArgumentsPiece(part, msgspec.json.encode(what).decode() + "}"),
        ]
    return [*pieces, DONE]


@dataclass(slots=True)
class Scene:
    """What a test says and sees."""

    session: Session
    history: FakeHistory
    lines: FakeLines
    model: FakeModel
    tool: FakeTool
    log: FakeLog
    models: FakeModels
    project: FakeProject
    archive: FakeArchive
    saved: dict[str, bytes] = field(default_factory=dict[str, bytes])
    tools: dict[str, Tool] = field(default_factory=dict[str, Tool])

    def add_tool(self, tool: Tool) -> None:
        self.tools[tool.spec.name] = tool

    async def send(self, **frame: object) -> None:
        await self.session.take(msgspec.json.encode(frame))

    async def ask(self, text: str = "hello", message_id: str | None = None, **more: object) -> None:
        message = {"id": message_id or f"m-{len(self.lines.lines)}", "role": "user"}
        message["content"] = text
        await self.send(type="run_agent_input", input={"messages": [message], **more})

    async def answer(self, status: str = "resolved", **payloads: object) -> None:
        resume = [
            {"interruptId": key.replace("_", "-"), "status": status, "payload": value}
            for key, value in payloads.items()
        ]
        await self.send(type="run_agent_input", input={"messages": [], "resume": resume})

    async def wait_end(self, start: int = 0) -> Line:
        """The next line that ends a run."""
        return await self.lines.wait_for(
            lambda line: (
                line["type"] == "RUN_FINISHED" or (line["type"] == "RUN_ERROR" and "runId" in line)
            ),
            start,
        )

    async def turn(
        self, text: str = "hello", message_id: str | None = None, **more: object
    ) -> list[Line]:
        """Ask, and return the lines up to the end of the run."""
        start = len(self.lines.lines)
        await self.ask(text, message_id, **more)
        await self.wait_end(start)
        return self.lines.lines[start:]

    async def command(self, name: str, /, **args: object) -> Line:
        """The one result of a command."""
        start = len(self.lines.lines)
        await self.send(type="command", id=name, name=name, args=args)
        return await self.lines.wait_for(lambda line: line["type"] == "command_result", start)

    async def snapshot(self) -> list[dict[str, object]]:
        start = len(self.lines.lines)
        await self.send(type="resume_conversation", id="c")
        found = await self.lines.wait_for(lambda line: line["type"] == "MESSAGES_SNAPSHOT", start)
        messages: list[dict[str, object]] = msgspec.convert(
            found["messages"], list[dict[str, object]]
        )
        return messages

    def types(self, start: int = 0) -> list[str]:
        return [str(line["type"]) for line in self.lines.lines[start:]]


class _Silence:
    """A stdin on which nobody says anything."""

    def __aiter__(self) -> AsyncIterator[Sequence[bytes]]:
        return self

    async def __anext__(self) -> Sequence[bytes]:
        await anyio.sleep_forever()
        raise StopAsyncIteration


@asynccontextmanager
async def one_session(
    *responses: Step,
    mode: Mode = "standard",
    max_turns: int = 50,
    history: FakeHistory | None = None,
    tool: FakeTool | None = None,
    lines: FakeLines | None = None,
    serve: bool = True,
    equip: Callable[[Equipment], Equipment] = lambda equipment: equipment,
    processes: FakeProcesses | None = None,
    delegation: Delegation = NO_DELEGATION,
) -> AsyncGenerator[Scene]:
    """A session that is served until the block ends. Tools: Do (runs) and Look (reads)."""
    history = history or FakeHistory()
    lines = lines or FakeLines()
    log = FakeLog()
    tool = tool or FakeTool()
    look = FakeTool("Look", effect=Effect.READS, ran=tool.ran)
    tools: dict[str, Tool] = {tool.name: tool, "Look": look}
    model = FakeModel(list(responses))
    models = FakeModels(model)
    project = FakeProject()
    archive = FakeArchive()
    saved: dict[str, bytes] = {}
    new_id = counting_ids(f"id{len(history.lines)}")
    equipment = Equipment(
        model=model,
        model_name="fake:one",
        tools=tools,
        mode=mode,
        instructions="Be good.",
        models=models,
        max_turns=max_turns,
    )

    async def prepare() -> Equipment:
        return equip(equipment)

    async def save(name: str, data: bytes) -> str:
        saved[name] = data
        return f"/attachments/{name}"

    recorder = await open_conversation(
        "c",
        Path("/project"),
        history,
        history.entries(),
        new_id,
        lambda: "2026-01-02T03:04:05Z",
        log,
        processes or FakeProcesses(),
    )
    session = Session(recorder, lines, prepare, save, new_id, log, project, archive, delegation)
    scene = Scene(session, history, lines, model, tool, log, models, project, archive, saved, tools)
    async with anyio.create_task_group() as tasks:
        if serve:
            tasks.start_soon(session.serve, _Silence())
            await anyio.wait_all_tasks_blocked()
        yield scene
        tasks.cancel_scope.cancel()
