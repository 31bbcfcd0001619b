"""What goes on, from the shared state: the agent's plan, and its subagents. Pure."""

from typing import Any

from roost.chat.call_text import printable

_MARKS = {"completed": "✓", "in_progress": "▶"}
_OVER = frozenset({"closed"})


def doing(state: dict[str, Any]) -> list[str]:
    """A line each: steps of a plan that is not done, subagents that live."""
    todos: list[dict[str, str]] = state.get("todos") or []
    steps = [f"{_MARKS.get(todo.get('status', ''), '○')} {todo.get('content')}" for todo in todos]
    if all(todo.get("status") == "completed" for todo in todos):
        steps = []
    children: dict[str, dict[str, Any]] = state.get("subagents") or {}
    lines = [_child(child) for child in children.values() if child.get("status") not in _OVER]
    return [printable(line).replace("\n", " ") for line in (*steps, *lines)]


def _child(child: dict[str, Any]) -> str:
    status = "waits for you: roost attach" if child.get("status") == "waiting" else None
    said = status or child.get("activity") or child.get("status") or ""
    where = f" {child.get('threadId')}" if status else ""
    return f"↳ {child.get('label')}: {said}{where}"
