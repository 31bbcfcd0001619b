"""A proxy between a client and the daemon that does what networks do, at random but by a seed.

It splits and joins what it reads, delays it, stalls, and cuts connections hard: what was on its way
is lost, in the middle of a line as often as not.
"""

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc
import anyio.lowlevel

from connection.local_stream import LocalStream, accept_all, dial
from connection.server import listen

_READ = 65_536
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class FaultProxy:
    """Listens at a path of its own and passes everything on to another."""

    def __init__(self, path: Path, target: Path, seed: int) -> None:
        self.path = path
        self.target = target
        self.cuts = 0
        self.faults = True
        self._random = random.Random(seed)
        self._streams: list[LocalStream] = []
        self._scopes: set[anyio.CancelScope] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator["FaultProxy"]:
        with listen(self.path) as listener:
            async with anyio.create_task_group() as tasks:

                def connected(stream: LocalStream) -> None:
                    self._streams.append(stream)
                    tasks.start_soon(self._connection, stream)

                tasks.start_soon(accept_all, listener, connected)
                try:
                    yield self
                finally:
                    tasks.cancel_scope.cancel()
        for stream in self._streams:
            stream.close()

    async def dial(self) -> LocalStream:
        return await dial(self.path)

    def cut(self) -> None:
        """Cut what is connected now, without a word."""
        for scope in tuple(self._scopes):
            self.cuts += 1
            scope.cancel()

    async def _connection(self, client: LocalStream) -> None:
        """Closed with data unread, a unix socket is a reset for the other end."""
        with suppress(*_GONE):
            async with client, await dial(self.target) as daemon:
                with anyio.CancelScope() as scope:
                    self._scopes.add(scope)
                    try:
                        async with anyio.create_task_group() as tasks:
                            tasks.start_soon(self._pump, client, daemon, scope)
                            await self._pump(daemon, client, scope)
                    finally:
                        self._scopes.discard(scope)

    async def _pump(
        self,
        source: anyio.abc.ByteReceiveStream,
        target: anyio.abc.ByteSendStream,
        scope: anyio.CancelScope,
    ) -> None:
        with suppress(*_GONE):
            while True:
                data = await source.receive(
                    self._random.choice((1, 7, 100, 65_536)) if self.faults else 65_536
                )
                if self.faults:
                    fault = self._random.random()
                    if fault < 0.02:
                        await anyio.sleep(self._random.random() / 500)
                    elif fault < 0.04:
                        # Joined: what comes meanwhile goes out in one piece.
                        await anyio.lowlevel.checkpoint()
                        with anyio.move_on_after(0.0005):
                            data += await source.receive(_READ)
                    elif fault < 0.06 and len(data) > 1:
                        half = self._random.randrange(1, len(data))
                        await target.send(data[:half])
                        data = data[half:]
                await target.send(data)
        scope.cancel()
