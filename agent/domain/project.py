"""What a project has to show in a panel: its saved conversations and its skills."""

from typing import Literal

import msgspec

_LONGEST_TITLE = 80


class ConversationSummary(msgspec.Struct, frozen=True):
    """One saved conversation in a list. `updated_at` is RFC 3339 in UTC."""

    id: str
    title: str
    updated_at: str
    message_count: int


class Skill(msgspec.Struct, frozen=True):
    """Instructions for one kind of task, in a folder of their own."""

    name: str
    description: str
    scope: Literal["project", "agents", "user"]


def title_of(text: str) -> str:
    """The title of a conversation that begins with this message: its first line, cut at a word."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    title = " ".join(line.split())
    if len(title) <= _LONGEST_TITLE:
        return title
    cut = title[: _LONGEST_TITLE - 1]
    # A first word longer than half of it is cut where it is.
    at_word, _, _ = cut.rpartition(" ")
    return (at_word if len(at_word) > _LONGEST_TITLE // 2 else cut) + "…"
