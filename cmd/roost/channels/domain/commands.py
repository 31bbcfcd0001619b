"""The commands of a chat: what is one, and what it is for. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

COMMANDS: Final[Mapping[str, str]] = {
    "new": "Begin a new conversation",
    "conversations": "Go back to an earlier conversation",
    "threads": "What runs or waits, in all projects",
    "stop": "Stop what runs",
    "project": "The folder the agent works in",
    "model": "The model that answers",
    "mode": "What the agent may do without asking",
    "watch": "Get every thread's decisions here, or stop that",
    "status": "Where this chat is",
    "help": "What this chat can do",
}
"""Name and menu line. `/start` and `/clear` work, too."""

_COMMAND = re.compile(r"/([A-Za-z0-9_]{1,32})(?:@([A-Za-z0-9_]+))?(?:\s+(.*))?", re.DOTALL)
_OURS = frozenset(COMMANDS) | {"start", "clear"}


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    argument: str


def parse_command(text: str, own_name: str) -> Command | None:
    """The command in a message; None when it is a message for the agent.

    A command that is not ours is one for the agent, too: it may know what it means.
    """
    found = _COMMAND.fullmatch(text.strip())
    if found is None or found[1].lower() not in _OURS or is_for_another(text, own_name):
        return None
    return Command(found[1].lower(), (found[3] or "").strip())


def is_for_another(text: str, own_name: str) -> bool:
    """In a group a command may name the bot it is for: `/stop@another_bot`."""
    found = _COMMAND.fullmatch(text.strip())
    return bool(found and found[2] and own_name and found[2].lower() != own_name.lower())
