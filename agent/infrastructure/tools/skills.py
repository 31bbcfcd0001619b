"""Skill: the text of a skill that the model was told of by name."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from agent.domain.approval import Effect
from agent.domain.ports import BadArguments, ToolResult, ToolSpec
from agent.domain.skills import SkillText, as_read
from agent.infrastructure.tools.files import FileCall
from agent.tool_arguments import Arguments, read_arguments, schema_of


class _Arguments(Arguments):
    name: Annotated[str, Meta(description="The skill's name.")]


class ReadSkill:
    """The tool. It knows the skills that are offered, and no other file."""

    def __init__(self, skills: Mapping[str, SkillText]) -> None:
        self._skills = {name: skill for name, skill in skills.items() if skill.is_offered}
        self.spec = ToolSpec(
            name="Skill",
            description="Read the instructions of a skill, by its name.",
            parameters=schema_of(_Arguments),
            effect=Effect.READS,
        )

    def prepare(self, arguments: bytes) -> FileCall:
        found = read_arguments(_Arguments, arguments)
        skill = self._skills.get(found.name)
        if skill is None:
            known = ", ".join(self._skills) or "none"
            raise BadArguments(f"there is no skill {found.name!r}. The skills are: {known}.")
        return FileCall(found.name, lambda: ToolResult(success=True, output=as_read(skill)))
