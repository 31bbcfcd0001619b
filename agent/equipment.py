"""What a run works with, and what may take a second to be ready: the model, the tools, the rules.

A worker answers its first lines before this exists; the first run waits for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from agent.domain.approval import Mode
from agent.domain.ports import LanguageModel, Models, Thinking, Tool

DEFAULT_MAX_TURNS = 50
DEFAULT_TOOL_APPROVAL_TIMEOUT = 300.0


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
    has_judge: bool = False
    thinking: Thinking | None = None
    context_window: int | None = None
    """Tokens that the model reads at most, where the user knows better than the library."""
    auto_compaction: bool = True
    max_turns: int = DEFAULT_MAX_TURNS
    tool_approval_timeout: float = DEFAULT_TOOL_APPROVAL_TIMEOUT
