"""AskUserQuestion: the model asks the person, and the run waits for the answer."""

from dataclasses import dataclass

from agent.domain.allow import Subject
from agent.domain.approval import Effect
from agent.domain.ports import Tell, ToolResult, ToolSpec, silent
from agent.domain.questions import TOOL, Questions
from agent.tool_arguments import read_arguments, schema_of


class AskUserQuestion:
    """The tool."""

    spec = ToolSpec(
        name=TOOL,
        description=(
            "Ask the user what only they can decide, with a few answers to choose from; they can"
            " always answer in their own words. Ask all that you need to know at once."
        ),
        parameters=schema_of(Questions),
        effect=Effect.ASKS,
    )

    def prepare(self, arguments: bytes) -> "_Call":
        return _Call(read_arguments(Questions, arguments).questions[0].question)


@dataclass(frozen=True, slots=True)
class _Call:
    summary: str

    def subject(self) -> Subject | None:
        return None

    async def run(self, tell: Tell = silent) -> ToolResult:
        """Never asked for: its result is the answer."""
        return ToolResult(success=False, error="A question is answered, not run.")
