"""Skills as a model meets them: told of by name, read on demand, or called for by the user.

A message that begins with `/name` stays what the user wrote, for clients and on the disk; only the
model reads the skill's text with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from agent.domain.messages import Message

_HEAD = "Skills, for tasks they fit: read one with the tool Skill before you begin such a task."


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillText:
    """One skill, whole."""

    name: str
    description: str
    text: str
    folder: str
    is_offered: bool
    """Is the model told of it by itself? Otherwise only the user's call brings it."""


def told_of(skills: Mapping[str, SkillText]) -> str:
    """The names and what they are for, as a part of the instructions; empty without any."""
    lines = [f"- {s.name}: {s.description}" for s in skills.values() if s.is_offered]
    return "\n".join([_HEAD, *lines]) if lines else ""


def with_skills(messages: Sequence[Message], skills: Mapping[str, SkillText]) -> list[Message]:
    """The messages as a model reads them: with the skills that the user called for."""
    return [_with_skill(message, skills) for message in messages]


def as_read(skill: SkillText) -> str:
    """The text of a skill, and where the files are that it may speak of."""
    return f"[Skill {skill.name}, from {skill.folder}]\n{skill.text}"


def _with_skill(message: Message, skills: Mapping[str, SkillText]) -> Message:
    if message.role != "user" or not message.text.startswith("/"):
        return message
    name = message.text[1:].split(maxsplit=1)[:1]
    skill = skills.get(name[0]) if name else None
    if skill is None:
        return message
    text = f"{message.text}\n\n{as_read(skill)}"
    return msgspec.structs.replace(message, content=text)
