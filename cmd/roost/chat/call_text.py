"""A tool call in words: one line for the list, everything for a decision. Pure."""

import difflib
import json
from typing import Any, cast

from roost.chat.transcript import Row

# The argument that says most, by tool; else the first text among the arguments.
_TELLING = {
    "Bash": "command",
    "Read": "path",
    "Write": "path",
    "Edit": "path",
    "Grep": "pattern",
    "Glob": "pattern",
    "WebFetch": "url",
}
_LINE = 100
_LIVE_LINES = 5


def arguments_of(row_text: str) -> dict[str, Any]:
    """The arguments as far as they are there; empty while they still come in pieces."""
    try:
        decoded: object = json.loads(row_text or "{}")
    except ValueError:
        return {}
    return cast(dict[str, Any], decoded) if isinstance(decoded, dict) else {}


def headline(name: str, arguments: str) -> str:
    """What is called, in one line."""
    given = arguments_of(arguments)
    telling = given.get(_TELLING.get(name, ""))
    if isinstance(asked := given.get("questions"), list) and asked:
        telling = cast(list[dict[str, Any]], asked)[0].get("question")
    if not isinstance(telling, str):
        telling = next((value for value in given.values() if isinstance(value, str)), "")
    return _cut(printable(telling).replace("\n", " ⏎ "), _LINE)


def summary(row: Row) -> str:
    """How it went, in a few words; empty while it runs."""
    result = row.result
    if result is None:
        return ""
    if not result.success:
        return _cut(printable(result.error or result.output).strip().replace("\n", " "), _LINE)
    lines = printable(result.output).strip().splitlines()
    if len(lines) <= 1:
        return _cut(lines[0] if lines else "", _LINE)
    return f"{len(lines)} lines"


def live_output(row: Row) -> str:
    """The last lines of what a running call has printed."""
    return "\n".join(printable(row.output).rstrip().splitlines()[-_LIVE_LINES:])


def in_full(name: str, arguments: str) -> str:
    """All that a person needs to see before they approve a call."""
    given = arguments_of(arguments)
    if not given:
        return unhidden(arguments)
    if name == "Edit" and isinstance(given.get("old"), str):
        return f"{unhidden(str(given.get('path', '')))}\n{_diff(given)}"
    lines: list[str] = []
    for key, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text = unhidden(text)
        lines.append(f"{key}:\n{text}" if "\n" in text else f"{key}: {text}")
    return "\n".join(lines)


def unhidden(text: str) -> str:
    """What can't be seen by its number: nobody must approve another command than they read."""
    return "".join(c if _is_plain(c) else f"⟨U+{ord(c):04X}⟩" for c in text)


def printable(text: str) -> str:
    """Without what would move a terminal's cursor or colours: a tool's output is not ours."""
    return "".join(c for c in text if _is_plain(c))


def _is_plain(character: str) -> bool:
    return character in "\n\t" or character.isprintable()


def _diff(given: dict[str, Any]) -> str:
    old = unhidden(str(given.get("old", ""))).splitlines()
    new = unhidden(str(given.get("new", ""))).splitlines()
    return "\n".join(list(difflib.unified_diff(old, new, lineterm="", n=2))[2:])


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
