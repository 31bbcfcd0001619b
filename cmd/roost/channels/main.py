"""The life of `roost channels`: the channel beside a daemon, until a signal."""

import signal
from dataclasses import dataclass

import anyio
import structlog
from anyio.abc import TaskStatus

from roost.channels.hosting import TelegramHost
from roost.channels.infrastructure.remote_daemon import RemoteDaemon
from roost.exit_codes import ExitCode

log = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class Channels:
    """One run."""

    daemon: RemoteDaemon
    host: TelegramHost

    async def run(self) -> ExitCode:
        """Serve until a signal (DONE) or until the channel can't go on (FAILED)."""
        code = ExitCode.DONE
        async with anyio.create_task_group() as tasks:
            await tasks.start(_heed_signals, tasks.cancel_scope)
            async with self.daemon.serving():
                await self.host.serve()
                code = ExitCode.FAILED
            tasks.cancel_scope.cancel()
        return code


async def _heed_signals(scope: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for signum in signals:
            log.info("signal_received", reason=signal.Signals(signum).name)
            scope.cancel()
            return
