"""The daemon on demand: find the one that runs, or start one. Safe when many do so at once.

Whoever starts one needs no lock of its own: the daemon's decides, and the losers find the winner.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from connection.failures import ConnectionFailure
from connection.local_stream import LocalStream, dial
from roost.daemon.lock import lock_holder
from roost.daemon.run_file import DaemonRecord, RunFile, Running
from roost.home import RoostHome

_START_TIMEOUT = 30.0
# Another process: there is no event to wait for.
_LOOK_EVERY = 0.025
# A daemon that we started and that ended may have lost the race to another one, which is waited
# for as long as it has the lock.
_RACE_GRACE = 2.0
_TAIL = 4096

STARTED: list[subprocess.Popen[bytes]] = []
"""Daemons that this process has started: kept, so that one that ends meanwhile is reaped."""


class DaemonUnreachable(ConnectionFailure):
    """No daemon serves, and none could be started. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class OnDemand:
    """The daemon of one roost home."""

    home: RoostHome
    environ: Mapping[str, str]
    starts: bool = True
    """Start one when none runs."""

    async def dial(self) -> LocalStream:
        """Connect to the daemon that runs. Raises OSError when none does."""
        record = self._running()
        if record is None or record.socket is None:
            raise ConnectionRefusedError(111, "no daemon is running")
        try:
            return await dial(record.socket)
        except FileNotFoundError as exc:
            raise FileNotFoundError(
                exc.errno,
                f"its socket {record.socket} is gone, though it runs (pid {record.pid})."
                " `roost stop` ends it; the next command starts another",
            ) from exc

    async def ensure(self) -> None:
        """Return once a daemon serves. Raises DaemonUnreachable."""
        if self._running() is not None:
            return
        if not self.starts:
            raise DaemonUnreachable("no daemon is running; `roost daemon` starts one")
        process = await anyio.to_thread.run_sync(self._start)
        ended_at: float | None = None
        give_up = anyio.current_time() + _START_TIMEOUT
        while self._running() is None:
            now = anyio.current_time()
            if ended_at is None and process.poll() is not None:
                ended_at = now
            if ended_at is not None and now > ended_at + _RACE_GRACE:
                if lock_holder(self.home.daemon_lock) is None:
                    raise DaemonUnreachable(self._why(process.returncode))
                ended_at = now
            if now > give_up:
                raise DaemonUnreachable(self._why(process.returncode))
            await anyio.sleep(_LOOK_EVERY)

    def _running(self) -> DaemonRecord | None:
        found = RunFile(self.home.daemon_json).look()
        return found.record if isinstance(found, Running) else None

    def _start(self) -> subprocess.Popen[bytes]:
        """Detached: it outlives us, our terminal and its Ctrl-C."""
        self.home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.home.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        # What it was started by is not its business: a worker's marks would follow its workers.
        environ = {k: v for k, v in self.environ.items() if k not in _OF_A_WORKER}
        with self._start_log.open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "roost", "daemon"],
                env=environ,
                cwd=Path.home() if Path.home().is_dir() else "/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
        STARTED[:] = [started for started in STARTED if started.poll() is None]
        STARTED.append(process)
        return process

    @property
    def _start_log(self) -> Path:
        return self.home.logs / "start.log"

    def _why(self, returncode: int | None) -> str:
        said = ""
        with suppress(OSError):
            said = self._start_log.read_bytes()[-_TAIL:].decode("utf-8", "replace").strip()
        what = "did not become ready in time" if returncode is None else f"ended with {returncode}"
        return f"the daemon was started and {what}{': ' + said if said else ''}"


_OF_A_WORKER = frozenset({"ROOST_WORKER_TOKEN", "ROOST_BINDING__URL", "ROOST_INVOKED_BY"})


def on_demand(*, starts: bool = True) -> OnDemand:
    """The daemon of this user's environment."""
    return OnDemand(RoostHome.from_environment(os.environ), dict(os.environ), starts)
