"""Presets of subagents: Markdown files with front matter, in the format that other tools use.

A project's own count only once the user trusts the project: what an agent may do is decided in
them. Unknown keys are ignored; a file that can't be read is left out, and told to the operator
once. A list of tools never comes out wider than it was written: `Bash(git *)` is not Bash.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import anyio.to_thread

from agent.domain.ports import Log
from agent.domain.subagents import Preset

_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?(.*)", re.DOTALL | re.MULTILINE)
_LARGEST = 256 * 1024
_MOST = 200
# What other tools call a tool that is called otherwise here.
_OTHER_NAMES = {"Task": "Agent"}


class BrokenPreset(ValueError):
    """The file is no preset. The message says why."""


class PresetFiles:
    """The presets in `.roost/agents/` of a trusted project, and in `agents/` of the roost home."""

    def __init__(
        self, project_dir: Path, home: Path, is_trusted: Callable[[], bool], log: Log
    ) -> None:
        self._places = (
            ("project", project_dir / ".roost" / "agents"),
            ("user", home / "agents"),
        )
        self._is_trusted = is_trusted
        self._log = log
        self._told: set[Path] = set()

    async def listed(self) -> list[Preset]:
        """By name; the project's hide the user's of the same name."""
        return await anyio.to_thread.run_sync(self._read)

    def _read(self) -> list[Preset]:
        found: dict[str, Preset] = {}
        for scope, place in self._places:
            paths = self._paths(place)
            if paths and scope == "project" and not self._is_trusted():
                self._tell_once(place, "the project is not trusted: roost trust")
                continue
            for path in paths:
                try:
                    preset = read_preset(path, scope)
                except (BrokenPreset, OSError) as exc:
                    self._tell_once(path, str(exc)[:200])
                else:
                    found.setdefault(preset.name, preset)
        return [found[name] for name in sorted(found)]

    def _paths(self, place: Path) -> Sequence[Path]:
        try:
            return sorted(place.glob("*.md"))[:_MOST]
        except OSError as exc:
            self._tell_once(place, str(exc.strerror))
            return ()

    def _tell_once(self, path: Path, reason: str) -> None:
        if path not in self._told:
            self._told.add(path)
            self._log("warning", "preset_skipped", path=str(path), reason=reason)


def read_preset(path: Path, scope: str) -> Preset:
    """Raises BrokenPreset, OSError."""
    import yaml

    with path.open("rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise BrokenPreset(f"it is larger than {_LARGEST // 1024} KiB")
    matter = _FRONT_MATTER.match(data.decode("utf-8", "replace"))
    if matter is None:
        raise BrokenPreset("it does not begin with front matter between two lines of '---'")
    try:
        values: object = yaml.safe_load(matter.group(1))
    except yaml.YAMLError as exc:
        raise BrokenPreset("its front matter is not YAML: " + " ".join(str(exc).split())) from exc
    fields = cast(dict[str, object], values) if isinstance(values, dict) else {}
    return Preset(
        name=_text(fields, "name"),
        description=_text(fields, "description"),
        scope=scope,
        instructions=matter.group(2).strip(),
        model=_model(fields.get("model")),
        tools=_allowed(fields.get("tools")),
        disallowed=_names(fields.get("disallowedTools"), "disallowedTools", keeps_parts=True),
    )


def _text(fields: dict[str, object], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value.strip():
        raise BrokenPreset(f"its front matter has no `{key}`")
    return " ".join(value.split())


def _model(value: object) -> str | None:
    """`inherit`, and the short names of other tools, say nothing here: it is the parent's."""
    return value.strip() if isinstance(value, str) and ":" in value else None


def _allowed(value: object) -> tuple[str, ...] | None:
    return None if value is None else _names(value, "tools", keeps_parts=False)


def _names(value: object, key: str, *, keeps_parts: bool) -> tuple[str, ...]:
    """A list of names, or a text with commas. A part of a tool is not the tool, or all of it."""
    if value is None:
        return ()
    if isinstance(value, str):
        # A comma in the brackets of `Bash(a, b)` parts nothing.
        items: list[object] = [*re.split(r",(?![^(]*\))", value)]
    elif isinstance(value, list):
        items = cast("list[object]", value)
    else:
        raise BrokenPreset(f"`{key}` is neither a list nor a text with commas")
    names: list[str] = []
    for item in items:
        if not isinstance(item, str):
            raise BrokenPreset(f"`{key}` has something in it that is no name")
        name, bracket, _ = item.strip().partition("(")
        if name and (keeps_parts or not bracket):
            names.append(_OTHER_NAMES.get(name, name))
    return tuple(names)
