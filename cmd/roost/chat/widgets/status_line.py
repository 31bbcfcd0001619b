"""One line below: what the agent does, with which model and mode, and whether we are connected."""

from dataclasses import dataclass
from typing import Any, cast

from rich.text import Text
from textual.widgets import Static

_STYLES = {"running": "yellow", "waiting": "bold yellow", "reconnecting": "bold red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the line says."""

    activity: str
    model: str = ""
    mode: str = ""
    queued: int = 0
    followers: int = 0
    tokens: int = 0
    cost: float | None = None


class StatusLine(Static):
    """Shows a Status."""

    def __init__(self) -> None:
        super().__init__(markup=False)

    def show(self, status: Status) -> None:
        """Draw it."""
        parts = [status.model, status.mode]
        if status.queued:
            parts.append(f"{status.queued} waiting to be sent")
        if status.followers > 1:
            parts.append(f"{status.followers} clients")
        if status.tokens:
            parts.append(f"{status.tokens:,} tokens")
        if status.cost:
            parts.append(f"${status.cost:.2f}")
        shown = Text(status.activity, _STYLES.get(status.activity.split()[0], "green"))
        self.update(shown + Text("  ·  " + "  ·  ".join(p for p in parts if p), "dim"))


def usage_of(state: dict[str, Any]) -> tuple[int, float | None]:
    """Tokens of the whole conversation, and what they cost where that is known."""
    tokens, cost = 0, 0.0
    for entry in cast(list[dict[str, Any]], state.get("usage") or []):
        tokens += int(entry.get("inputTokens") or 0) + int(entry.get("outputTokens") or 0)
        cost += float(entry.get("cost") or 0)
    return tokens, cost or None
