"""Where roost keeps its files: one folder, `$ROOST_HOME` or `~/.roost`, and the names in it.

Decides names only. Nothing here creates, reads or writes a file.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sessions.domain.keys import clean_dir

# With the hyphen and eight digits this stays far below the 255 bytes a file name may have.
_LONGEST_NAME = 200
_NOT_ALPHANUMERIC = re.compile(r"[^a-z0-9]")


@dataclass(frozen=True, slots=True)
class RoostHome:
    """The roost home folder. `path` is absolute."""

    path: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "RoostHome":
        """`$ROOST_HOME` if it is set and not empty, else `.roost` in the user's home folder."""
        chosen = environ.get("ROOST_HOME")
        if not chosen:
            return cls(_user_home(environ) / ".roost")
        if chosen == "~" or chosen.startswith("~/"):
            chosen = str(_user_home(environ)) + chosen[1:]
        return cls(Path(clean_dir(str(Path(chosen).absolute()))))

    @property
    def config(self) -> Path:
        """The user's settings."""
        return self.path / "config.yaml"

    @property
    def token(self) -> Path:
        """The binding's token."""
        return self.path / "token"

    @property
    def panel_sessions(self) -> Path:
        """Which browsers are signed in to the panel: hashes."""
        return self.path / "panel-sessions.json"

    @property
    def trusted(self) -> Path:
        """The projects whose own settings count in full."""
        return self.path / "trusted.json"

    @property
    def run(self) -> Path:
        return self.path / "run"

    @property
    def daemon_json(self) -> Path:
        """Written once the daemon serves, removed at a clean exit."""
        return self.run / "daemon.json"

    @property
    def daemon_lock(self) -> Path:
        return self.run / "daemon.lock"

    @property
    def journal(self) -> Path:
        """What commands were received, and what they came to."""
        return self.path / "journal"

    @property
    def channels(self) -> Path:
        """What channels keep: their chats, and what waits to be sent there."""
        return self.path / "channels"

    @property
    def channel_reports(self) -> Path:
        """How the channels that run are."""
        return self.run / "channels"

    @property
    def keepers(self) -> Path:
        """What the keepers of workers leave, to be found again."""
        return self.run / "keepers"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def projects(self) -> Path:
        return self.path / "projects"

    def project(self, project_dir: str) -> Path:
        """What is kept of one project."""
        return self.projects / project_slug(project_dir)

    def conversations(self, project_dir: str) -> Path:
        """The histories of one project, one file per conversation."""
        return self.project(project_dir) / "conversations"


def project_slug(project_dir: str) -> str:
    """The folder name of a project: readable first, unique by the hash behind it.

    Only ASCII letters and digits survive, so that a slug is the same in a path, a URL and on file
    systems that normalise Unicode differently. ``/`` has no name: its slug begins with the hyphen.
    """
    if not project_dir.startswith("/"):
        raise ValueError(f"a project dir is an absolute path, not {project_dir!r}")
    cleaned = clean_dir(project_dir)
    name = cleaned.rsplit("/", 1)[-1].lower()[:_LONGEST_NAME]
    digest = hashlib.sha256(os.fsencode(cleaned)).hexdigest()[:8]
    return f"{_NOT_ALPHANUMERIC.sub('-', name)}-{digest}"


def _user_home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME")
    return Path(home) if home else Path.home()
