"""Whether tasks may be given to subagents, and as what threads. Pure: everything is an argument.

All of it is decided before anything is opened: one task that does not fit refuses the whole call,
and the refusal says which limit or which name it was. A child never gets more than its parent has:
its tools are among the parent's, its mode asks at least as often.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.domain.approval import MODES, Effect, Mode
from agent.domain.lineage import ChildThread, Lineage
from agent.domain.subagents import Delegation, Limits, Preset, Task

READ_ONLY = "ReadOnly"
READ_WRITE = "ReadWrite"
KINDS = (READ_ONLY, READ_WRITE)

# The tools that make a parent: a child that may not open any does not get them.
OPENS = "Agent"
FAMILY = (OPENS, "AgentInput", "AgentList", "AgentClose")

_HARMLESS = frozenset(
    {Effect.READS, Effect.NOTES, Effect.FETCHES, Effect.ASKS, Effect.PLANS, Effect.DELEGATES},
)
_PERSONAL = frozenset({Effect.ASKS, Effect.PLANS})
# From the one that allows least to the one that allows most.
_RANKS: dict[Mode, int] = {"plan": 0, "standard": 1, "auto-with-judge": 2, "auto": 3}
# The names of files end at 255 characters.
_LONGEST_ID = 255
LONGEST_LABEL = 60
# What one message to a subagent may hold.
LONGEST_TEXT = 200_000
MOST_TASKS = 64


class Refused(ValueError):
    """Nothing was opened. The message says which limit or name it was, for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """What children are measured against: their parent, as it is now."""

    conversation_id: str
    project_dir: str
    delegation: Delegation
    limits: Limits
    mode: Mode
    model: str
    tools: Mapping[str, Effect]
    at_work: int
    """How many children work already."""
    presets: Sequence[Preset] = ()
    place: Callable[[str], str] = lambda path: path
    """Where a directory really is. Raises ValueError for one outside of the sandbox."""
    check_model: Callable[[str], None] = lambda name: None
    """Raises ValueError for a model that there is none of."""


def depth_refusal(depth: int, limits: Limits) -> str | None:
    """Why a worker at this depth opens none, if it opens none."""
    if depth < limits.max_depth:
        return None
    return (
        f"Not opened: subagents may be {limits.max_depth} deep (subagents.max_depth), and this"
        f" conversation is at depth {depth}."
    )


def plan(tasks: Sequence[Task], parent: Parent, new_child: Callable[[], str]) -> list[ChildThread]:
    """The threads for these tasks, in their order. Raises Refused."""
    _check_limits(tasks, parent)
    presets = {preset.name: preset for preset in parent.presets}
    threads: list[ChildThread] = []
    for task in tasks:
        preset = None
        if task.preset is not None:
            preset = presets.get(task.preset)
            if preset is None:
                known = ", ".join(sorted(presets)) or "none"
                raise Refused(f"There is no agent {task.preset!r}. Known: {known}.")
        threads.append(_thread(task, preset, parent, new_child()))
    return threads


def _check_limits(tasks: Sequence[Task], parent: Parent) -> None:
    if refusal := depth_refusal(parent.delegation.depth, parent.limits):
        raise Refused(refusal)
    if not tasks:
        raise Refused("Not opened: there is no task.")
    wanted, most = len(tasks), parent.limits.max_parallel
    if parent.at_work + wanted > most:
        raise Refused(
            f"Not opened: at most {most} subagents work at once (subagents.max_parallel);"
            f" {parent.at_work} do, and {wanted} more are asked for. Nothing was started."
        )
    for task in tasks:
        if not task.prompt.strip() or len(task.prompt) > LONGEST_TEXT:
            raise Refused(f"Not opened: a prompt must have 1 to {LONGEST_TEXT:,} characters.")
        if task.max_turns is not None and not 1 <= task.max_turns <= parent.limits.max_turns:
            raise Refused(
                f"Not opened: max_turns {task.max_turns} is not in 1 to {parent.limits.max_turns}"
                " (subagents.max_turns)."
            )


def _thread(task: Task, preset: Preset | None, parent: Parent, child: str) -> ChildThread:
    conversation_id = f"subagent-{parent.conversation_id}-{child}"
    if len(conversation_id) > _LONGEST_ID:
        raise Refused("Not opened: this conversation's id is too long to have subagents.")
    try:
        project_dir = parent.place(task.directory) if task.directory else parent.project_dir
    except ValueError as exc:
        raise Refused(f"Not opened: {exc}") from exc
    tools = _tools(task, preset, parent)
    return ChildThread(
        conversation_id=conversation_id,
        project_dir=project_dir,
        label=label_of(task),
        lineage=Lineage(
            parent=parent.conversation_id, depth=parent.delegation.depth + 1, tools=tools
        ),
        model=_model(task, preset, parent),
        mode=_mode(task, parent),
        instructions=(preset.instructions or None) if preset else None,
        max_turns=task.max_turns or parent.limits.max_turns,
    )


def label_of(task: Task) -> str:
    """The task's own label, else the beginning of what is asked."""
    label = " ".join((task.label or task.prompt).split())
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def _model(task: Task, preset: Preset | None, parent: Parent) -> str:
    wanted = task.model or (preset.model if preset else None) or parent.limits.model
    if wanted is None:
        return parent.model
    try:
        parent.check_model(wanted)
    except ValueError as exc:
        raise Refused(f"Not opened: {exc}") from exc
    return wanted


def _mode(task: Task, parent: Parent) -> str:
    """A child asks at least as often as its parent: else a model could help itself to more."""
    if task.mode is None:
        return parent.mode
    mode = MODES.get(task.mode)
    if mode is None:
        raise Refused(f"Not opened: {task.mode!r} is no mode. The modes are: {', '.join(MODES)}.")
    if _RANKS[mode] > _RANKS[parent.mode]:
        raise Refused(
            f"Not opened: the mode {mode!r} allows more than this conversation's {parent.mode!r}."
        )
    return mode


def _tools(task: Task, preset: Preset | None, parent: Parent) -> list[str]:
    """The list that the child is held to. It may come out empty: then it has no tools."""
    allowed = set(parent.tools)
    if parent.delegation.depth + 1 >= parent.limits.max_depth:
        allowed -= set(FAMILY)
    if parent.delegation.open_child is None or not parent.delegation.open_child.children_last:
        # Nobody could answer what it asks.
        allowed -= {name for name, effect in parent.tools.items() if effect in _PERSONAL}
    if _is_read_only(task, preset, parent.mode):
        allowed = {name for name in allowed if parent.tools[name] in _HARMLESS}
    if preset is not None:
        if preset.tools is not None:
            allowed &= set(preset.tools)
        allowed -= set(preset.disallowed)
    if task.tools is not None:
        unknown = sorted(set(task.tools) - set(parent.tools))
        if unknown:
            raise Refused(
                f"Not opened: this conversation has no tool {', '.join(unknown)}, so it can't give"
                f" it on. It has: {', '.join(sorted(parent.tools))}."
            )
        allowed &= set(task.tools)
    return sorted(allowed)


def _is_read_only(task: Task, preset: Preset | None, mode: Mode) -> bool:
    if mode == "plan" or task.kind == READ_ONLY:
        return True
    if task.kind == READ_WRITE:
        return False
    # A preset that lists its tools has been asked for with them.
    return preset is None or preset.tools is None
