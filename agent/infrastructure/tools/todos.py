"""TodoWrite: the plan that a model keeps where everybody who follows can see it."""

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from agent.domain.allow import Subject
from agent.domain.approval import Effect
from agent.domain.ports import Tell, ToolResult, ToolSpec, silent
from agent.tool_arguments import Arguments, read_arguments, schema_of


class Todo(msgspec.Struct, frozen=True):
    """One thing to do."""

    content: Annotated[str, Meta(description="What is to be done.", min_length=1)]
    status: Literal["pending", "in_progress", "completed"]


class _Arguments(Arguments):
    todos: Annotated[list[Todo], Meta(description="The whole list, in order.", max_length=200)]


class TodoWrite:
    """The tool."""

    spec = ToolSpec(
        name="TodoWrite",
        description=(
            "Keep the list of what is to be done for work of several steps. It replaces the whole"
            " list: send all items each time, and set their status as you go on."
        ),
        parameters=schema_of(_Arguments),
        effect=Effect.NOTES,
    )

    def prepare(self, arguments: bytes) -> "_Call":
        return _Call(read_arguments(_Arguments, arguments).todos)


@dataclass(frozen=True, slots=True)
class _Call:
    todos: list[Todo]

    @property
    def summary(self) -> str:
        return f"{len(self.todos)} items"

    def subject(self) -> Subject | None:
        return None

    async def run(self, tell: Tell = silent) -> ToolResult:
        items: list[object] = msgspec.to_builtins(self.todos)
        done = sum(todo.status == "completed" for todo in self.todos)
        output = f"The list has {len(items)} items, {done} of them done."
        return ToolResult(success=True, output=output, state={"todos": items})
