"""The reference page of all settings, made from the models themselves.

    python -m roost.settings_page > docs/reference/settings.md

A test fails when the page in the repository is not this one.
"""

import sys
from collections.abc import Iterator
from typing import Any, cast

from roost.setting_types import BYTE_SIZE, Kind, Says, duration_text, size_text
from roost.settings import (
    HARMLESS,
    DaemonSettings,
    NamedAgentSection,
    ProviderSection,
)
from roost.settings_sources import kind_of

_NAMED: dict[str, type[Any]] = {"providers": ProviderSection, "agents": NamedAgentSection}
"""Sections that are there once for each name."""

_INTRODUCTION = """# Settings

This page is generated: `python -m roost.settings_page > docs/reference/settings.md`.

The user's settings are in `~/.roost/config.yaml` (or in `$ROOST_HOME/config.yaml`), one block per
section. Every setting also has a variable, which wins over the file. An empty variable counts as
not set, except for the token's, which may not be empty.

```yaml
agent:
  model: openai:gpt-5
  mode: plan
providers:
  openai:
    base_url: http://127.0.0.1:11434/v1
worker:
  idle_timeout: 30m
```

A project may have a `.roost/config.yaml` of its own, which comes between the two: it may set
{harmless}. The rest of its `agent` section, and its `mcp_servers`, count only after `roost trust`
was run in that project; everything else is for the user to set.

A mistake stops the start with one line that names the file or the variable, the key, the value
and what is allowed. Values that may be secrets are never shown.

Durations are numbers of seconds, or have a unit: `500ms`, `30s`, `10m`, `2h`. Sizes are numbers of
bytes, or have a unit: `64KiB`, `8MiB`.
"""


def settings_page() -> str:
    """The whole page."""
    harmless = " and ".join(f"`{'.'.join(path)}`" for path in sorted(HARMLESS))
    parts = [_INTRODUCTION.format(harmless=harmless)]
    for name, section in DaemonSettings.__annotations__.items():
        if name in _NAMED:
            parts.append("\n".join(_section(f"{name}.<name>", _NAMED[name])))
        else:
            parts.append("\n".join(_section(name, section)))
    return "\n".join(parts)


def _section(name: str, section: type[Any]) -> Iterator[str]:
    yield f"## `{name}`"
    yield ""
    yield str(section.__doc__).strip()
    yield ""
    yield "| key | variable | default | allowed | what it decides |"
    yield "| --- | --- | --- | --- | --- |"
    for key, member in section.__annotations__.items():
        variable = f"ROOST_{name}__{key}".replace(".", "__").upper()
        says = next(part.words for part in member.__metadata__ if isinstance(part, Says))
        kind = kind_of(member)
        default = _default(getattr(section, key, None), kind)
        yield f"| `{key}` | `{variable}` | {default} | {kind.allowed} | {says} |"
    yield ""


def _default(value: object, kind: Kind) -> str:
    if value is None or value == ():
        return "not set"
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in cast("tuple[object, ...]", value))
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{duration_text(value)}`"
    if isinstance(value, int) and kind is BYTE_SIZE:
        return f"`{size_text(value)}`"
    return f"`{value}`"


if __name__ == "__main__":
    sys.stdout.write(settings_page())
