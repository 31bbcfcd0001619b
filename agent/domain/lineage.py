"""What a subagent is bound to, and what it is opened with: both are kept in histories.

Fields are only added, always with a default, as in every entry.
"""

import msgspec


class Lineage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What makes a conversation a subagent: who opened it, how deep, and the tools it has.

    The tools are all that it may use. None at all is a list, too, and never means everything.
    """

    parent: str
    depth: int = 1
    tools: list[str] = []


class ChildThread(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A thread below this one, as it is opened, and opened again."""

    conversation_id: str
    project_dir: str
    label: str
    lineage: Lineage
    model: str | None = None
    mode: str | None = None
    instructions: str | None = None
    """What a preset adds to the system prompt."""
    max_turns: int | None = None
