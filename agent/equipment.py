"""What a run works with, and what may take a second to be ready: the model, the tools, the rules.

A worker answers its first lines before this exists; the first run waits for it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agent.domain.allow import AllowList
from agent.domain.approval import Effect, Mode
from agent.domain.entries import Choice
from agent.domain.ports import Archive, LanguageModel, Models, Thinking, Tool, ToolServers
from agent.domain.skills import SkillText
from agent.domain.subagents import Limits

DEFAULT_MAX_TURNS = 50
DEFAULT_TOOL_APPROVAL_TIMEOUT = 300.0
DEFAULT_LIMITS = Limits()


class StartFailed(Exception):
    """The worker can't work at all with these settings. The message names the setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """The model, the tools and the rules of every run of this worker."""

    model: LanguageModel
    model_name: str
    tools: Mapping[str, Tool]
    mode: Mode
    instructions: str
    models: Models
    judge: LanguageModel | None = None
    """Who judges in mode `auto-with-judge`; without one, the model itself."""
    judge_name: str | None = None
    allowed: AllowList = field(default_factory=AllowList)
    servers: ToolServers | None = None
    """Where more tools come from, if from anywhere."""
    given: Mapping[Choice, str] = field(default_factory=dict[Choice, str])
    """What was said when this process was started."""
    is_one_task: bool = False
    """What was said is for this process only, and no choice for the conversation."""
    thinking: Thinking | None = None
    context_window: int | None = None
    """Tokens that the model reads at most, where the user knows better than the library."""
    auto_compaction: bool = True
    skills: Mapping[str, SkillText] = field(default_factory=dict[str, SkillText])
    """What the user may call for with `/name`."""
    archive: Archive | None = None
    """Where outputs are kept that are too large for a model."""
    gives_titles: bool = False
    """Does the model name conversations, after their first run?"""
    max_turns: int = DEFAULT_MAX_TURNS
    tool_approval_timeout: float = DEFAULT_TOOL_APPROVAL_TIMEOUT
    project_dir: str = ""
    limits: Limits = DEFAULT_LIMITS
    folder: Callable[[str], str] = str
    """Where a folder that a model names really is. Raises ValueError. Touches the disk."""
    only: frozenset[str] | None = None
    """The only tools that count, whoever brings them. None: all of them. Empty: none."""
    refusals: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why tools that one might expect are not there."""

    # Every tool comes through the two below, whoever brings it: this is the one place where a
    # subagent's list is held to. What is not in it is neither offered nor run, nor given on.

    def find(self, name: str) -> Tool | None:
        """The tool of that name; also one of a server that is still starting."""
        if not self.may_use(name):
            return None
        return self.tools.get(name) or (self.servers.find(name) if self.servers else None)

    def offered(self) -> Mapping[str, Tool]:
        """What a model is told of in this mode, now."""
        known = {**(self.servers.tools() if self.servers is not None else {}), **self.tools}
        return {
            name: tool
            for name, tool in known.items()
            if self.may_use(name) and (self.mode == "plan" or tool.spec.effect is not Effect.PLANS)
        }

    def why_not(self, name: str) -> str:
        """What is said to whoever calls a tool that is not there."""
        if name in self.refusals:
            return self.refusals[name]
        known = ", ".join(sorted(self.offered())) or "none"
        if self.only is not None:
            return f"Not run: {name!r} is no tool of this subagent. Its tools are: {known}."
        return f"There is no tool {name!r}. The tools are: {known}."

    def may_use(self, name: str) -> bool:
        """Is it in the list, if there is one?"""
        return self.only is None or name in self.only
