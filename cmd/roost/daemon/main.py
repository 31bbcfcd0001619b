"""The daemon's life: what is entered, in which order, and how it ends.

Rules for editing: whatever has a lifetime is entered here and nowhere else. The stop order is the
nesting read from the inside: channels, listeners and client streams (the binding, the local
socket), then workers (the registry), then the launch pad, then the run file. A signal only begins
the end; a second one shortens every grace.
"""

import os
import signal
import uuid
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import anyio
import structlog
from anyio.abc import TaskStatus

from agent.infrastructure.process import process_start
from agui.hello import PROTOCOL_VERSION
from agui.server import HOST
from roost.daemon.run_file import DaemonRecord, RunFile
from roost.daemon.stopping import LEAVE_WORKERS
from roost.exit_codes import ExitCode
from roost.version import VERSION

log = structlog.get_logger()

_URL = "ROOST_BINDING__URL"


class Workers(Protocol):
    """What the daemon enters and leaves of the registry."""

    def serving(self) -> AbstractAsyncContextManager[None]: ...
    def hurry(self) -> None: ...
    def leave_workers(self) -> None: ...


class Launching(Protocol):
    """What it enters and leaves of the ways that workers are started in."""

    def serving(self) -> AbstractAsyncContextManager[None]: ...
    def leave_workers(self) -> None: ...


class Local(Protocol):
    """What it enters and leaves of the local socket."""

    def opened(self) -> AbstractContextManager[None]: ...
    def serving(self, generation: str) -> AbstractAsyncContextManager[Path]: ...
    def hurry(self) -> None: ...


class Port(Protocol):
    """What it enters and leaves of the binding. Without a port it has no number."""

    def opened(self) -> AbstractContextManager[int | None]: ...
    def serving(self) -> AbstractAsyncContextManager[None]: ...
    def hurry(self) -> None: ...


class Channels(Protocol):
    """What it enters and leaves beside the port: clients in its own process."""

    def serving(self) -> AbstractAsyncContextManager[None]: ...


@dataclass(slots=True, kw_only=True)
class Daemon:
    """One run of the daemon, from an open port to the exit code."""

    launching: Launching
    registry: Workers
    port: Port
    local: Local
    channels: Channels
    run_file: RunFile
    worker_environ: dict[str, str] = field(default_factory=dict[str, str])
    """What workers are started with; it learns where the daemon listens."""
    _stop: anyio.Event = field(default_factory=anyio.Event)

    async def run(self) -> ExitCode:
        """Serve until a signal, then stop in order.

        What can't be opened is raised before anything started: PortTaken, SocketUnusable,
        JournalFailed.
        """
        with self.port.opened() as port, self.local.opened():
            # One from around us would be another daemon's.
            self.worker_environ.pop(_URL, None)
            if port is not None:
                self.worker_environ[_URL] = f"ws://{HOST}:{port}/ws"
            async with anyio.create_task_group() as tasks:
                await tasks.start(self._heed_signals)
                try:
                    await self._serve(port)
                finally:
                    self.run_file.remove()
                tasks.cancel_scope.cancel()
        log.info("daemon_stopped")
        return ExitCode.DONE

    async def _serve(self, port: int | None) -> None:
        async with (
            self.launching.serving(),
            self.registry.serving(),
            self.local.serving(uuid.uuid4().hex) as local_socket,
            self.port.serving(),
        ):
            self.run_file.write(_record(port, local_socket))
            log.info("daemon_ready", host=HOST, port=port, pid=os.getpid(), version=VERSION)
            async with self.channels.serving():
                await self._stop.wait()
                log.info("daemon_stopping")

    async def _heed_signals(self, *, task_status: TaskStatus[None]) -> None:
        heeded = (signal.SIGINT, signal.SIGTERM, LEAVE_WORKERS)
        with anyio.open_signal_receiver(*heeded) as signals:
            task_status.started()
            async for signum in signals:
                log.info("signal_received", reason=signal.Signals(signum).name)
                if signum == LEAVE_WORKERS and not self._stop.is_set():
                    self.launching.leave_workers()
                    self.registry.leave_workers()
                if not self._stop.is_set():
                    self._stop.set()
                    continue
                self.port.hurry()
                self.local.hurry()
                self.registry.hurry()


def _record(port: int | None, local_socket: Path) -> DaemonRecord:
    pid = os.getpid()
    return DaemonRecord(
        pid=pid,
        process_start=process_start(pid),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        host=HOST,
        port=port,
        socket=str(local_socket),
        version=VERSION,
        protocol_version=PROTOCOL_VERSION,
    )
