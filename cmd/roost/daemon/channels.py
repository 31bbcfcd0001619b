"""The channels in the daemon's own process: clients of the registry, without a socket.

A channel costs nothing while it is off: what it needs is imported only when it runs.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from roost.home import RoostHome
from roost.settings import TelegramSection
from sessions.domain.ports import Threads


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonChannels:
    """What the settings switched on."""

    telegram: TelegramSection
    home: RoostHome
    threads: Threads

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Run them while the block runs. A channel that fails is reported, and stops nobody."""
        if not self.telegram.enabled:
            yield
            return
        from roost.channels.hosting import CALLED, TelegramHost
        from roost.channels.infrastructure.registry_daemon import RegistryDaemon

        daemon = RegistryDaemon(self.threads, CALLED)
        host = TelegramHost(section=self.telegram, home=self.home, daemon=daemon)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.serve)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
