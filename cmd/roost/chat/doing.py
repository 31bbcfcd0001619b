"""What goes on, from the shared state: the agent's plan, its subagents, what waits. Pure."""

from typing import Any

from roost.chat.call_text import printable

_MARKS = {"completed": "✓", "in_progress": "▶"}
_OVER = frozenset({"closed"})
# Messages that wait and are shown; /queue lists all.
_WAITING_SHOWN = 3


def doing(state: dict[str, Any]) -> list[str]:
    """A line each: steps of a plan that is not done, subagents that live, messages that wait."""
    todos: list[dict[str, str]] = state.get("todos") or []
    steps = [f"{_MARKS.get(todo.get('status', ''), '○')} {todo.get('content')}" for todo in todos]
    if all(todo.get("status") == "completed" for todo in todos):
        steps = []
    children: dict[str, dict[str, Any]] = state.get("subagents") or {}
    lines = [_child(child) for child in children.values() if child.get("status") not in _OVER]
    queue: list[dict[str, Any]] = state.get("queue") or []
    waiting = [_waiting(message) for message in queue[:_WAITING_SHOWN]]
    if (more := len(queue) - _WAITING_SHOWN) > 0:
        waiting.append(f"… and {more} more wait (/queue)")
    return [printable(line).replace("\n", " ") for line in (*steps, *lines, *waiting)]


def _waiting(message: dict[str, Any]) -> str:
    then = "after this run" if message.get("lane") == "follow_up" else "soon"
    return f"… {message.get('text')}  ({then})"


def _child(child: dict[str, Any]) -> str:
    status = "waits for you: roost attach" if child.get("status") == "waiting" else None
    said = status or child.get("activity") or child.get("status") or ""
    where = f" {child.get('threadId')}" if status else ""
    return f"↳ {child.get('label')}: {said}{where}"
