"""What an agent should know of its surroundings: the system, the day, the repository's branch.

Git itself is not asked: the settings of a repository may name programs that it runs.
"""

import platform
import re
from datetime import date
from pathlib import Path

_LONGEST_HEAD = 1024
_BRANCH = re.compile(r"ref: refs/heads/([^\s\x00-\x1f\x7f]{1,200})\s*")


def surroundings(project_dir: Path, today: date) -> str:
    """One line of facts that stay true for long enough."""
    system = {"Darwin": "macOS"}.get(platform.system(), platform.system())
    return f"The system is {system}; this began on {today.isoformat()}. {_repository(project_dir)}"


def _repository(project_dir: Path) -> str:
    folder = project_dir.resolve()
    git = next((up / ".git" for up in (folder, *folder.parents) if (up / ".git").exists()), None)
    if git is None:
        return "The folder is in no git repository."
    found = _BRANCH.fullmatch(_head(git))
    branch = f", on the branch {found.group(1)} when this began" if found else ""
    return f"The folder is in a git repository{branch}."


def _head(git: Path) -> str:
    """The text of HEAD; nothing when it can't be read."""
    try:
        if git.is_file():  # a work tree of a repository elsewhere
            git = git.parent / _text(git).removeprefix("gitdir:").strip()
        return _text(git / "HEAD")
    except (OSError, ValueError):
        return ""


def _text(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(_LONGEST_HEAD).decode("utf-8", "replace")
