"""Replacing a file as a whole: a reader sees the old content or the new one, never a part."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_atomically(file: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a sibling, flush it to the disk, and rename it over the file.

    The folder is made when it is missing, for its owner only. Raises OSError; then the file is as
    it was.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    sibling = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        sibling.chmod(mode)
        sibling.replace(file)
    except BaseException:
        with suppress(OSError):
            sibling.unlink()
        raise
