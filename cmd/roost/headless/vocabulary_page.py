"""docs/reference/worker-commands.md, made from the tables in the code.

Renew it: python -m roost.headless.vocabulary_page > docs/reference/worker-commands.md
"""

import sys
from collections.abc import Iterable

from agent.domain.vocabulary import (
    ACTIVITY_TYPES,
    COMMAND_CODES,
    COMMANDS,
    CUSTOM_NAMES,
    INPUT_PROPERTIES,
    METADATA_KEYS,
    STATE_KEYS,
    Name,
)

_HEAD = """\
# Commands, state keys and names of a worker

Made from the code: `python -m roost.headless.vocabulary_page > docs/reference/worker-commands.md`.
The lines themselves are in [worker-lines.md](worker-lines.md).

## Commands

A line `{"type":"command","id":…,"name":…,"args":{…}}` is answered by exactly one
`{"type":"command_result","id":…,"success":true,"data":…}` or
`{…,"success":false,"code":…,"error":…}`, also in the middle of a run.
"""


def vocabulary_page() -> str:
    """The whole page."""
    commands = ((f"`{c.name}`", c.arguments, c.data, c.does) for c in COMMANDS)
    return "\n".join(
        [
            _HEAD,
            *_table(("name", "arguments", "`data` of the result", "what it does"), commands),
            "",
            *_table(("code", "why"), ((f"`{c.name}`", c.says) for c in COMMAND_CODES)),
            *_names("State keys", STATE_KEYS, "`STATE_DELTA` replaces one key as a whole."),
            *_names("`CUSTOM` events", CUSTOM_NAMES),
            *_names("Activity types", ACTIVITY_TYPES),
            *_names("Message metadata", METADATA_KEYS),
            *_names("Properties of a run input", INPUT_PROPERTIES),
            "",
        ]
    )


def _names(title: str, names: Iterable[Name], note: str = "") -> list[str]:
    rows = ((f"`{name.name}`", name.content, name.says) for name in names)
    return ["", f"## {title}", "", *([note, ""] if note else []), *_table(_COLUMNS, rows)]


_COLUMNS = ("name", "content", "what it says")


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(columns)} |", f"| {' | '.join('---' for _ in columns)} |"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


if __name__ == "__main__":
    sys.stdout.write(vocabulary_page())
