"""What a model is told before the conversation: its task, its place, the user's own words."""

from collections.abc import Sequence
from pathlib import Path

_BUILT_IN = """\
You are an agent that works in a folder of the user's machine, with the tools you are given.
Look before you change anything; keep changes small and say what you did. Tools may ask the user
first, and may be declined: then do not try the same in another way, ask what they want instead.
A result may say that its outcome is unknown: check what happened before you repeat it.
Answer briefly, in plain words."""


_SUBAGENT = """\
You are a subagent: another agent gave you this task, and reads the last message of your turn as its
result. Put all into it that is asked for. It can't answer you; what you ask, a person answers."""


def instructions(
    project_dir: Path,
    sandbox: Sequence[Path],
    system_prompt: str | None = None,
    custom: str | None = None,
    *,
    project: Sequence[str] = (),
    skills: str = "",
    is_subagent: bool = False,
) -> str:
    """The instructions of every run of a worker.

    `project` are the project's own files, which say less than what the user said.
    """
    folders = ", ".join(str(folder) for folder in sandbox)
    place = f"The project's folder is {project_dir}. File tools may use: {folders}."
    below = _SUBAGENT if is_subagent else None
    parts = (system_prompt or _BUILT_IN, place, below, skills, *project, custom)
    return "\n\n".join(part for part in parts if part)
