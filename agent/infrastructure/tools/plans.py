"""ProposePlan: in mode `plan`, the model shows what it would do, and waits to be told to do it."""

from dataclasses import dataclass

from agent.domain.allow import Subject
from agent.domain.approval import Effect
from agent.domain.plans import TOOL, Plan
from agent.domain.ports import Tell, ToolResult, ToolSpec, silent
from agent.tool_arguments import read_arguments, schema_of


class ProposePlan:
    """The tool."""

    spec = ToolSpec(
        name=TOOL,
        description=(
            "Show the user your plan when you have read all that you need. If they accept it, the"
            " mode 'plan' ends and you carry it out; if not, you are told why."
        ),
        parameters=schema_of(Plan),
        effect=Effect.PLANS,
    )

    def prepare(self, arguments: bytes) -> "_Call":
        return _Call(read_arguments(Plan, arguments).plan.strip().partition("\n")[0])


@dataclass(frozen=True, slots=True)
class _Call:
    summary: str

    def subject(self) -> Subject | None:
        return None

    async def run(self, tell: Tell = silent) -> ToolResult:
        """Outside of the mode, in which it is not offered."""
        return ToolResult(success=True, output="No plan needs to be accepted: carry it out.")
