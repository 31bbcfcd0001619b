"""What is kept of a channel, in one file of the roost home that only its user can read.

One process at a time has it: two that answer the same chats would answer twice.
"""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from anyio import to_thread

from roost.atomic_file import write_atomically
from roost.channels.domain.state import ChannelState, decoded


class ChannelTaken(Exception):
    """Another process runs this channel."""


@dataclass(frozen=True, slots=True)
class StateFile:
    """Implements `Keeps`."""

    file: Path

    @contextmanager
    def held(self) -> Generator[None]:
        """Have it alone while the block runs. Raises ChannelTaken, OSError."""
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self.file.with_suffix(".lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ChannelTaken(f"another process runs this channel ({lock})") from None
            yield
        finally:
            os.close(descriptor)

    def load(self) -> tuple[ChannelState, str | None]:
        """What was kept, and a sentence if it could not be read. Raises OSError.

        A file that can't be read is put aside, and the channel begins afresh.
        """
        try:
            content = self.file.read_bytes()
        except FileNotFoundError:
            return ChannelState(), None
        try:
            return decoded(content), None
        except msgspec.MsgspecError:
            aside = self.file.with_suffix(".damaged")
            self.file.replace(aside)
            return ChannelState(), f"{self.file} is damaged; it was moved to {aside}"

    async def save(self, content: bytes) -> None:
        await to_thread.run_sync(write_atomically, self.file, content)
