"""The daemon's local door: the command journal, the unix socket, and the server behind it.

Entered by `main`. The journal is opened before anybody can connect, and closed after the last
command was recorded.
"""

import os
import socket
import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from agent.infrastructure.process import process_start
from connection.execution import SavedSessions
from connection.peer import PeerSettings
from connection.server import LONGEST_PATH, Identity, LocalServer, listen, sweep
from connection.sqlite_journal import SqliteJournal
from roost.home import RoostHome
from roost.version import VERSION
from sessions.domain.ports import Threads


def socket_path(chosen: str | None, environ: Mapping[str, str], home: RoostHome) -> Path:
    """Where the socket is: as set, else in the runtime folder of the user, else in the home.

    A home of one's own (`ROOST_HOME`) has its socket inside it: two daemons must not meet at one.
    Where a path in the home would be too long for a socket, it is in the temporary folder.
    """
    if chosen:
        return Path(chosen).expanduser().absolute()
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime and not environ.get("ROOST_HOME"):
        return Path(runtime) / "roost" / "daemon.sock"
    inside = home.run / "daemon.sock"
    if len(os.fsencode(inside)) <= LONGEST_PATH:
        return inside
    named = sha256(os.fsencode(home.path)).hexdigest()[:16]
    return _shared_folder() / f"{named}.sock"


def _shared_folder() -> Path:
    """Where the sockets of all homes are whose own paths are too long."""
    return Path(tempfile.gettempdir()) / f"roost-{os.getuid()}"


@dataclass(slots=True)
class LocalDoor:
    """What the daemon enters and leaves of the local protocol."""

    threads: Threads
    saved: SavedSessions
    journal: SqliteJournal
    path: Path
    settings: PeerSettings
    _listener: socket.socket | None = None
    _server: LocalServer | None = None

    @contextmanager
    def opened(self) -> Generator[None]:
        """Hold the journal and the socket open. Raises JournalFailed, SocketUnusable."""
        with self.journal.opened():
            self._listener = listen(self.path)
            if self.path.parent == _shared_folder():
                sweep(self.path.parent)
            try:
                yield
            finally:
                self._listener.close()
                self.path.unlink(missing_ok=True)
                with suppress(OSError):
                    # Its folder too, where it was made for it; one that holds more stays.
                    self.path.parent.rmdir()

    @asynccontextmanager
    async def serving(self, generation: str) -> AsyncGenerator[Path]:
        """Serve on what was opened while the block runs; yields the socket's path."""
        assert self._listener is not None, "it is opened first"
        pid = os.getpid()
        identity = Identity(
            app_version=VERSION, generation=generation, pid=pid, process_start=process_start(pid)
        )
        self._server = LocalServer(self.threads, self.saved, self.journal, identity, self.settings)
        async with self.journal.serving(), self._server.serving(self._listener):
            yield self.path

    def hurry(self) -> None:
        """Wait no longer for clients to read their last records."""
        if self._server is not None:
            self._server.hurry()
