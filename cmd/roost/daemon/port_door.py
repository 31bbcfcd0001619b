"""The daemon's door for browsers and other programs: one loopback port, or none at all.

Entered by `main`. Without the port clients come through the local socket, which is always there.
"""

import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from agui.server import Binding, listen


@dataclass(slots=True)
class PortDoor:
    """The port, and the binding behind it."""

    binding: Binding
    number: int
    """0: a free one."""
    _listener: socket.socket | None = None

    @contextmanager
    def opened(self) -> Generator[int]:
        """Hold the port open; yields its number. Raises PortTaken."""
        with listen(self.number) as self._listener:
            yield int(self._listener.getsockname()[1])

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Serve on what was opened while the block runs."""
        assert self._listener is not None, "it is opened first"
        async with self.binding.serving(self._listener):
            yield

    def hurry(self) -> None:
        """Wait no longer for clients to read their last frames."""
        self.binding.hurry()


class NoPort:
    """Nothing listens."""

    @contextmanager
    def opened(self) -> Generator[None]:
        yield

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        yield

    def hurry(self) -> None:
        """There is nobody to wait for."""
