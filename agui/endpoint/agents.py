"""The agents that clients can name in a path: how their threads are launched. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from agui.endpoint.refusal import Refused
from sessions.domain.keys import BadKey, ThreadKey

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

    def thread(self, project_dir: str | None, thread_id: str) -> ThreadKey:
        """The thread of this id in the folder that was named, else in its own. Raises Refused."""
        project_dir = project_dir or self.project_dir
        path = "forwardedProps.project_dir"
        if not project_dir:
            text = f"{path}: name the folder to work in; this agent has none of its own."
            raise Refused(400, "no_project", text, {"path": path})
        try:
            return ThreadKey.parse(project_dir, thread_id)
        except BadKey as exc:
            path = "threadId" if "conversation id" in str(exc) else path
            raise Refused(400, "bad_thread", f"{path}: {exc}.", {"path": path}) from exc


def with_default(agents: Mapping[str, Agent]) -> dict[str, Agent]:
    """All of them, the default one first: it always exists."""
    return {DEFAULT: agents.get(DEFAULT, Agent()), **agents}
