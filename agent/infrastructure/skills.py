"""Skills: folders with a `SKILL.md`, whose front matter says what they are for.

The project's own come first, and hide others of the same name. One that can't be read is left out,
and told to the operator once.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast

from agent.domain.ports import Log
from agent.domain.project import Skill
from agent.domain.skills import SkillText

_FILE = "SKILL.md"
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
# What is read of a file: the front matter stands at its head.
_HEAD = 64 * 1024
_MOST = 500
LARGEST_TEXT = 64 * 1024

Scope = Literal["project", "agents", "user"]


class BrokenSkill(ValueError):
    """The file is not a skill. The message says why."""


class Skills:
    """The skills that a project's agent can be told of. Call it off the event loop."""

    def __init__(self, project_dir: Path, home: Path, log: Log) -> None:
        self._places: tuple[tuple[Scope, Path], ...] = (
            ("project", project_dir / ".roost" / "skills"),
            ("agents", project_dir / ".agents" / "skills"),
            ("user", home / "skills"),
        )
        self._log = log
        self._told: set[Path] = set()

    def list(self) -> list[Skill]:
        """In the order of the places, by name in each."""
        return [skill for skill, _ in self._found()]

    def _found(self) -> Sequence[tuple[Skill, Path]]:
        found: dict[str, tuple[Skill, Path]] = {}
        for scope, place in self._places:
            for path in sorted(place.glob(f"*/{_FILE}"))[:_MOST]:
                try:
                    skill = read_skill(path, scope)
                except (BrokenSkill, OSError) as exc:
                    self._tell(path, str(exc))
                else:
                    found.setdefault(skill.name, (skill, path))
        return [*found.values()]

    def texts(self, *, trusted: bool) -> dict[str, SkillText]:
        """Whole, by name. A project's are offered to a model when the user trusts it."""
        found: dict[str, SkillText] = {}
        for skill, path in self._found():
            try:
                text = _body(path)
            except OSError as exc:
                self._tell(path, str(exc.strerror))
                continue
            found[skill.name] = SkillText(
                name=skill.name,
                description=skill.description,
                text=text,
                folder=str(path.parent),
                is_offered=trusted or skill.scope == "user",
            )
        return found

    def _tell(self, path: Path, reason: str) -> None:
        if path not in self._told:
            self._told.add(path)
            self._log("warning", "skill_skipped", path=str(path), reason=reason[:200])


def _body(path: Path) -> str:
    """What stands below the front matter."""
    with path.open("rb") as file:
        data = file.read(LARGEST_TEXT + 1)
    text = data[:LARGEST_TEXT].decode("utf-8", "replace")
    matter = _FRONT_MATTER.match(text)
    body = text[matter.end() :].strip() if matter else text
    return f"{body}\n[The rest is left out.]" if len(data) > LARGEST_TEXT else body


def read_skill(path: Path, scope: Scope) -> Skill:
    """Raises BrokenSkill, OSError."""
    import yaml

    if not path.is_file():
        raise BrokenSkill("it is no file")  # a named pipe would keep who opens it for ever
    with path.open("rb") as file:
        head = file.read(_HEAD).decode("utf-8", "replace")
    matter = _FRONT_MATTER.match(head)
    if matter is None:
        raise BrokenSkill("it does not begin with front matter between two lines of '---'")
    try:
        values: object = yaml.safe_load(matter.group(1))
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise BrokenSkill("its front matter is not YAML: " + " ".join(str(exc).split())) from exc
    fields = cast(dict[str, object], values) if isinstance(values, dict) else {}
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not name.strip():
        raise BrokenSkill("its front matter has no `name`")
    if not isinstance(description, str) or not description.strip():
        raise BrokenSkill("its front matter has no `description`")
    return Skill(name.strip(), " ".join(description.split()), scope)
