"""When what a channel knows is written: soon after a change, at once when somebody waits for it.

Changes are many and one document holds all of them, so one write covers all that came before it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import structlog

from roost.channels.domain.ports import Keeps

# What is lost in it is only what the snapshot of a thread brings again.
_LAZY = 0.5
_AGAIN = 5.0

log = structlog.get_logger()


@dataclass(slots=True)
class Saver:
    keeps: Keeps
    encoded: Callable[[], bytes]
    _version: int = 0
    _saved: int = 0
    _content: bytes = b""
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _urgent: anyio.Event = field(default_factory=anyio.Event)
    _written: anyio.Event = field(default_factory=anyio.Event)

    def touch(self) -> None:
        """Something changed."""
        self._version += 1
        self._changed.set()

    async def wait_saved(self) -> None:
        """Wait until all that was touched so far is on the disk."""
        wanted = self._version
        while self._saved < wanted:
            self._urgent.set()
            await self._written.wait()

    async def serve(self) -> None:
        """Write until cancelled. A disk that refuses is asked again; what waits, waits."""
        while True:
            await self._changed.wait()
            with anyio.move_on_after(_LAZY):
                await self._urgent.wait()
            await self.save()

    async def save(self) -> None:
        """Write now."""
        self._changed, self._urgent = anyio.Event(), anyio.Event()
        version, content = self._version, self.encoded()
        try:
            if content != self._content:
                await self.keeps.save(content)
        except OSError as exc:
            log.warning("channel_not_saved", reason=exc.strerror or str(exc), retry_in=_AGAIN)
            self._changed.set()
            await anyio.sleep(_AGAIN)
            return
        self._content = content
        self._saved = max(self._saved, version)
        written, self._written = self._written, anyio.Event()
        written.set()
