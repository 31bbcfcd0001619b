"""Opening an artifact by its URL path: one project's files, and nothing that is not below them.

A path is judged as it was sent, segment by segment, before anything is decoded as a whole: an
encoded slash is not a separator, and dots never climb. Links count only when they stay inside, and
the file is opened from the artifacts folder downwards without following any, so that what was
judged is what is opened, even when somebody swaps a folder for a link in between.
"""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Opening a pipe must not wait for somebody to write into it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NoSuchArtifact(Exception):
    """There is no such file, or none that may be served. Which of both is nobody's business."""


@dataclass(frozen=True, slots=True)
class OpenArtifact:
    """An open regular file. Whoever gets it closes it."""

    descriptor: int
    name: str
    stat: os.stat_result


def open_artifact(projects: Path, raw_path: bytes) -> OpenArtifact:
    """Open what `<slug>/<path>`, still percent-encoded, names. Raises NoSuchArtifact. Blocks."""
    slug, *below = [_segment(raw) for raw in raw_path.split(b"/")]
    if not below:
        raise NoSuchArtifact
    try:
        root = projects.resolve(strict=True) / slug / "artifacts"
        real = root.joinpath(*below).resolve(strict=True)
        # The folder itself may be no link either: what it leads to is somewhere else.
        inside = real.relative_to(root).parts
    except (OSError, ValueError, RuntimeError) as exc:
        raise NoSuchArtifact from exc
    if not inside:
        raise NoSuchArtifact
    return _opened(root, inside, name=below[-1])


def _segment(raw: bytes) -> str:
    decoded = unquote_to_bytes(raw)
    if decoded in (b"", b".", b"..") or any(byte in decoded for byte in b"/\\\0"):
        raise NoSuchArtifact
    return os.fsdecode(decoded)


def _opened(root: Path, inside: tuple[str, ...], name: str) -> OpenArtifact:
    folder = -1
    try:
        folder = os.open(root, _FOLDER)
        for part in inside[:-1]:
            below = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        descriptor = os.open(inside[-1], _FILE, dir_fd=folder)
    except OSError as exc:
        raise NoSuchArtifact from exc
    finally:
        if folder >= 0:
            os.close(folder)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        with suppress(OSError):
            os.close(descriptor)
        raise NoSuchArtifact
    return OpenArtifact(descriptor, name, found)
