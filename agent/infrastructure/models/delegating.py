"""How the scripted model delegates: a few plain commands, and the calls they are.

A task that needs to write or to run something is asked for as ReadWrite, as a model would; `|`
parts tasks that run in parallel.
"""

from agent.domain.children import NOTE_BEGINS

_WRITES = ("run ", "write ")

Call = tuple[str, dict[str, object]]

HELP = (
    "'delegate <task>' (several: <task> | <task>), 'delegate and wait: <task>',"
    " 'delegate to <preset>: <task>', 'tell <subagent>: <text>', 'close <subagent>', 'subagents'"
)


def delegating_call(line: str) -> Call | None:
    """The call that a line asks for, if it is one about subagents."""
    word, _, rest = line.partition(" ")
    rest = rest.strip()
    match word.lower():
        case "delegate" if rest:
            return _delegated(rest)
        case "tell" if ":" in rest:
            name, _, text = rest.partition(":")
            return "AgentInput", {"agent": name.strip(), "text": text.strip()}
        case "close" if rest:
            return "AgentClose", {"agent": rest}
        case "subagents" if not rest:
            return "AgentList", {}
        case _:
            return None


def is_note(prompt: str) -> bool:
    """A note tells what somebody else said: it is no command, whatever stands in it."""
    return prompt.startswith(NOTE_BEGINS)


def _delegated(rest: str) -> Call:
    arguments: dict[str, object] = {}
    preset: str | None = None
    head, colon, tail = rest.partition(":")
    if colon and head.lower() == "and wait":
        arguments["wait"] = True
        rest = tail
    elif colon and head.lower().startswith("to "):
        preset = head[3:].strip()
        rest = tail
    tasks = [_task(task.strip(), preset) for task in rest.split("|") if task.strip()]
    return "Agent", {"tasks": tasks, **arguments}


def _task(prompt: str, preset: str | None) -> dict[str, object]:
    task: dict[str, object] = {"prompt": prompt}
    if preset is not None:
        task["agent"] = preset
    # `delegate delegate run x`: the one below has to have what it gives on.
    inner = prompt
    while inner.lower().startswith("delegate "):
        inner = inner.split(" ", 1)[1].strip()
    if inner.lower().startswith(_WRITES):
        task["type"] = "ReadWrite"
    return task
