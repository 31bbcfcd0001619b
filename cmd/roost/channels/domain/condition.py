"""How a channel is, for people. A value only: `roost status` reads it, and should import little."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """How a channel is, for people."""

    status: str
    """starting, connected, unreachable, contested, refused (the token), stopped or failed."""
    detail: str = ""
    chats: int = 0
    waiting: int = 0
    """Messages that wait to be sent."""
