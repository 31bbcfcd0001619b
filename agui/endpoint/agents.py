"""The agents that clients can name in a path: how their threads are launched. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """What is not set is as in the settings of every thread."""

    description: str | None = None
    project_dir: str | None = None
    """Where it works, unless the client names another folder."""
    model: str | None = None
    mode: str | None = None
    instructions: str | None = None

    def options(self) -> dict[str, str]:
        """The thread options, as members of an open frame."""
        options = {
            "model": self.model,
            "mode": self.mode,
            "custom_instructions": self.instructions,
        }
        return {key: value for key, value in options.items() if value}


def with_default(agents: Mapping[str, Agent]) -> dict[str, Agent]:
    """All of them, the default one first: it always exists."""
    return {DEFAULT: agents.get(DEFAULT, Agent()), **agents}
