"""Files that came with messages, beside the conversations and never inside the project."""

import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio.to_thread

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class AttachmentFolder:
    """Where one conversation's attachments are saved."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    async def save(self, name: str, data: bytes) -> str:
        """Save under a name of its own; no part of the given name can lead elsewhere."""
        self._count += 1
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        safe = _UNSAFE.sub("-", name.rsplit("/", 1)[-1]).strip(".-")[-80:] or "file"
        path = self._folder / f"attachment-{stamp}-{self._count}-{safe}"
        await anyio.to_thread.run_sync(partial(_write, path, data))
        return str(path)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)
