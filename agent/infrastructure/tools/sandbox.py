"""Which files the tools may touch: the project dir and the folders that were added to it.

A path counts where it really is, after links; one that leads out is refused. Programs are not held
by this: they ask, or are allowed to do anything.
"""

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent.domain.allow import Subject

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

# Settings of roost with what they allow, and hooks that git runs.
_DECIDES = frozenset({".roost", ".git"})


class OutsideSandbox(Exception):
    """The path leads out. The message is for the model."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The folders. `project_dir` is where relative paths begin."""

    project_dir: Path
    roots: tuple[Path, ...]

    @classmethod
    def around(cls, project_dir: Path, added: Sequence[str]) -> "Sandbox":
        """Relative folders are read relative to the project dir."""
        roots = [project_dir, *(project_dir / Path(folder).expanduser() for folder in added)]
        return cls(project_dir, tuple(root.resolve() for root in roots))

    def with_root(self, folder: Path) -> "Sandbox":
        """The same, with one more folder: for tools that only read."""
        return Sandbox(self.project_dir, (*self.roots, folder.resolve()))

    def resolve(self, path: str) -> Path:
        """Where the path really leads. Raises OutsideSandbox. Touches the disk: off the loop."""
        if "\0" in path:
            raise OutsideSandbox("A path can't have a NUL character in it.")
        try:
            wanted = self.project_dir / Path(path).expanduser()
            real = wanted.resolve()
        except (OSError, RuntimeError) as exc:
            raise OutsideSandbox(f"{path} can't be followed: {exc}.") from exc
        if not any(real == root or root in real.parents for root in self.roots):
            allowed = ", ".join(str(root) for root in self.roots)
            through = "" if real == wanted else f" (it leads to {real})"
            raise OutsideSandbox(
                f"{path}{through} is outside of the folders that may be used: {allowed}."
            )
        return real

    def subject(self, path: str) -> Subject | None:
        """The path for a rule of the allow list, by where it really leads.

        None where a file decides what runs or what is allowed: no rule lets that change unasked.
        """
        try:
            real = self.resolve(path)
        except OutsideSandbox:
            return None
        if any(part.lower() in _DECIDES for part in real.parts):
            return None
        return Subject("path", self.shown(real))

    def folder(self, real: Path, *, make: bool = False) -> int:
        """A descriptor of a folder that `resolve` found, for its caller to close.

        Opened step by step without following a link, so that nobody who puts a link in a folder's
        place after the check leads us out. Raises OutsideSandbox, OSError.
        """
        root = next((r for r in self.roots if r == real or r in real.parents), None)
        if root is None:
            raise OutsideSandbox(f"{real} is outside of the folders that may be used.")
        fd = os.open(root, _FOLDER)
        try:
            for part in real.relative_to(root).parts:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
                os.close(fd)
                fd = inner
        except OSError as exc:
            os.close(fd)
            if exc.errno in (errno.ELOOP, errno.ENOTDIR):
                raise OutsideSandbox(f"{real} changed while it was used: try again.") from exc
            raise
        return fd

    def shown(self, path: Path) -> str:
        """The path as short as it is clear."""
        root = self.roots[0]
        return str(path.relative_to(root)) if root in path.parents else str(path)
