"""The tools of a parent: Agent opens subagents, and three more feed, list and close them.

They only ask `Delegates`; every limit is checked there before anything is opened. A parent can't
answer what a child asks a person for: there is no tool for it, and its connection has no right to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from agent.domain.allow import Subject
from agent.domain.approval import Effect
from agent.domain.children import Note
from agent.domain.delegation import FAMILY, MOST_TASKS, Refused
from agent.domain.ports import Tell, Tool, ToolResult, ToolSpec, silent
from agent.domain.subagents import ChildLost, Task
from agent.equipment import Equipment
from agent.subagents.delegates import Delegates, NoSuchChild, Tended
from agent.tool_arguments import Arguments, read_arguments, schema_of

_SHOWN = 60


class TaskArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One task."""

    prompt: Annotated[
        str, Meta(description="All that the subagent needs to know: it sees nothing else.")
    ]
    label: Annotated[str, Meta(description="A few words for people, such as 'find callers'.")] = ""
    type: Annotated[
        Literal["ReadOnly", "ReadWrite"] | None,
        Meta(description="ReadWrite only when it has to change files or run programs."),
    ] = None
    agent: Annotated[str | None, Meta(description="A preset, by name.")] = None
    model: Annotated[str | None, Meta(description="provider:name; else it has yours.")] = None
    mode: Annotated[
        str | None, Meta(description="A mode that allows no more than yours; else it has yours.")
    ] = None
    tools: Annotated[
        list[str] | None, Meta(description="Only these of the tools that it would have.")
    ] = None
    directory: Annotated[
        str | None, Meta(description="Another folder of the sandbox to work in.")
    ] = None
    max_turns: Annotated[
        int | None, Meta(description="The most model turns of one run, from 1.")
    ] = None


class _AgentArguments(Arguments):
    tasks: Annotated[
        list[TaskArguments],
        Meta(description="They run in parallel.", min_length=1, max_length=MOST_TASKS),
    ]
    wait: Annotated[
        bool | None,
        Meta(description="Return with the results; else go on, and each result comes as a note."),
    ] = None


class _InputArguments(Arguments):
    agent: Annotated[str, Meta(description="A subagent's thread id, or its label.")]
    text: Annotated[str, Meta(description="What it is to do next.", min_length=1)]


class _CloseArguments(Arguments):
    agent: Annotated[str, Meta(description="A subagent's thread id, or its label.")]


class _NoArguments(Arguments):
    pass


def with_agent_tools(equipment: Equipment, delegates: Delegates) -> Equipment:
    """The equipment of a worker that may open subagents, or that says why it may not."""
    if refusal := delegates.refusal(equipment):
        return replace(equipment, refusals={**equipment.refusals, **dict.fromkeys(FAMILY, refusal)})
    family: list[Tool] = [
        AgentTool(delegates),
        AgentInput(delegates),
        AgentList(delegates),
        AgentClose(delegates),
    ]
    added = {tool.spec.name: tool for tool in family}
    return replace(equipment, tools={**equipment.tools, **added})


@dataclass(frozen=True, slots=True)
class AgentTool:
    """`Agent`."""

    delegates: Delegates
    spec: ToolSpec = field(
        default=ToolSpec(
            name="Agent",
            description=(
                "Give tasks to subagents: agents of their own that work in parallel, each in its"
                " own thread, read-only unless you ask for ReadWrite. People can follow them, and"
                " only people answer what they ask. What each comes to is told as a note that"
                " begins with [Subagent Completed: <label>], or as the result when you wait."
            ),
            parameters=schema_of(_AgentArguments),
            effect=Effect.DELEGATES,
        )
    )

    def prepare(self, arguments: bytes) -> "_AgentCall":
        return _AgentCall(self.delegates, read_arguments(_AgentArguments, arguments))


@dataclass(frozen=True, slots=True)
class AgentInput:
    """`AgentInput`."""

    delegates: Delegates
    spec: ToolSpec = field(
        default=ToolSpec(
            name="AgentInput",
            description=(
                "Give a subagent more to do. One that is busy takes it up after its turn; one that"
                " was closed is opened again. The result comes as a note."
            ),
            parameters=schema_of(_InputArguments),
            effect=Effect.DELEGATES,
        )
    )

    def prepare(self, arguments: bytes) -> "_InputCall":
        found = read_arguments(_InputArguments, arguments)
        return _InputCall(self.delegates, found.agent, found.text)


@dataclass(frozen=True, slots=True)
class AgentList:
    """`AgentList`."""

    delegates: Delegates
    spec: ToolSpec = field(
        default=ToolSpec(
            name="AgentList",
            description="List your subagents with what they do, and the presets there are.",
            parameters=schema_of(_NoArguments),
            effect=Effect.READS,
        )
    )

    def prepare(self, arguments: bytes) -> "_ListCall":
        read_arguments(_NoArguments, arguments)
        return _ListCall(self.delegates)


@dataclass(frozen=True, slots=True)
class AgentClose:
    """`AgentClose`."""

    delegates: Delegates
    spec: ToolSpec = field(
        default=ToolSpec(
            name="AgentClose",
            description="End a subagent, whatever it does. What it said stays in its thread.",
            parameters=schema_of(_CloseArguments),
            effect=Effect.DELEGATES,
        )
    )

    def prepare(self, arguments: bytes) -> "_CloseCall":
        return _CloseCall(self.delegates, read_arguments(_CloseArguments, arguments).agent)


@dataclass(frozen=True, slots=True)
class _AgentCall:
    delegates: Delegates
    wanted: _AgentArguments

    @property
    def summary(self) -> str:
        tasks = [task.label or task.prompt[:_SHOWN] for task in self.wanted.tasks]
        return f"{len(tasks)} subagents: {'; '.join(tasks)}"

    def subject(self) -> Subject | None:
        return None

    async def run(self, tell: Tell = silent) -> ToolResult:
        tasks = [_task(arguments) for arguments in self.wanted.tasks]
        waits = await self.delegates.waits(self.wanted.wait)
        try:
            if not waits:
                return _opened(await self.delegates.open(tasks))
            return await self._wait(tasks, tell)
        except Refused as exc:
            return ToolResult(success=False, error=str(exc))

    async def _wait(self, tasks: Sequence[Task], tell: Tell) -> ToolResult:
        """The results in one, or, when the call is stopped, as notes after all."""
        heard: list[tuple[Tended, Note]] = []
        opened: list[Tended] = []

        def listen(each: Tended, note: Note) -> None:
            if note.wakes:
                heard.append((each, note))
            tell(f"[{note.how}] {each.child.label}\n".encode())

        try:
            opened += await self.delegates.open(tasks, listen)
            await self.delegates.wait_settled(opened)
        except BaseException:
            self.delegates.unlisten(listen)
            self.delegates.hand_back(heard)
            raise
        self.delegates.unlisten(listen)
        failed = [f"{t.child.label}: not opened: {t.failure}" for t in opened if t.failure]
        told = {each.child.id for each, _ in heard}
        failed += [
            f"{each.child.label}: closed before it was done. Its thread: {each.child.id}"
            for each in opened
            if each.failure is None and each.child.id not in told
        ]
        said = [note.message(each.child.label) for each, note in heard]
        success = not failed and all(note.how == "Completed" for _, note in heard)
        error = "" if success else "\n".join(failed) or "Some of them failed."
        return ToolResult(success=success, output="\n\n".join(said), error=error)


@dataclass(frozen=True, slots=True)
class _InputCall:
    delegates: Delegates
    name: str
    text: str

    @property
    def summary(self) -> str:
        return f"to {self.name}: {self.text[:_SHOWN]}"

    def subject(self) -> Subject | None:
        return None

    async def run(self, tell: Tell = silent) -> ToolResult:
        try:
            child = await self.delegates.send(self.name, self.text)
        except (NoSuchChild, Refused, ChildLost) as exc:
            return ToolResult(success=False, error=str(exc))
        return ToolResult(success=True, output=f"{child.label} has it. Its result comes as a note.")


@dataclass(frozen=True, slots=True)
class _ListCall:
    delegates: Delegates

    @property
    def summary(self) -> str:
        return "subagents"

    def subject(self) -> Subject | None:
        return None

    async def run(self, tell: Tell = silent) -> ToolResult:
        lines = [
            f"{child.label}: {child.status}"
            + (f", {child.activity}" if child.activity else "")
            + f" ({child.turns} turns; thread {child.id})"
            for child in self.delegates.children()
        ]
        presets = [f"preset {p.name}: {p.description}" for p in await self.delegates.presets()]
        return ToolResult(success=True, output="\n".join([*lines, *presets]) or "There are none.")


@dataclass(frozen=True, slots=True)
class _CloseCall:
    delegates: Delegates
    name: str

    @property
    def summary(self) -> str:
        return self.name

    def subject(self) -> Subject | None:
        return None

    async def run(self, tell: Tell = silent) -> ToolResult:
        try:
            child = await self.delegates.close(self.name)
        except NoSuchChild as exc:
            return ToolResult(success=False, error=str(exc))
        return ToolResult(success=True, output=f"{child.label} is closed. Its thread: {child.id}")


def _task(given: TaskArguments) -> Task:
    return Task(
        prompt=given.prompt,
        label=given.label,
        kind=given.type,
        preset=given.agent,
        model=given.model,
        mode=given.mode,
        tools=None if given.tools is None else tuple(given.tools),
        directory=given.directory,
        max_turns=given.max_turns,
    )


def _opened(opened: Sequence[Tended]) -> ToolResult:
    lines = [
        f"{each.child.label}: opened as thread {each.child.id}"
        for each in opened
        if each.failure is None
    ]
    failed = [f"{each.child.label}: not opened: {each.failure}" for each in opened if each.failure]
    return ToolResult(success=not failed, output="\n".join(lines), error="\n".join(failed))
