"""The daemon's end of the local protocol: a unix socket, and a peer for each connection.

Decides who may connect (this user, but nothing from inside a worker) and how it all ends: the
listener first, then every client is told that the daemon closes, on purpose, and then the
connections. What a peer may do is its own business. The folder of the socket is the first wall, the
socket's mode the second, the peer's user id the third.
"""

import os
import socket
import stat
import struct
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import structlog
from anyio.abc import TaskGroup

from connection.descent import Descent
from connection.event_records import EventRecords
from connection.execution import Directory, Household, SavedSessions
from connection.journal import CommandJournal
from connection.local_stream import LocalStream, accept_all
from connection.negotiation import REVISION
from connection.peer import Peer, PeerSettings
from sessions.domain.keys import ThreadKey
from sessions.domain.ports import Threads

log = structlog.stdlib.get_logger()

# What every kernel we run on takes for the path of a unix socket, with its final zero.
LONGEST_PATH = 103
_BACKLOG = 128
_FAREWELL = 3.0
_PROBE = 0.25
_LEFT_AFTER = 60.0
MOST_PEERS = 512


class SocketUnusable(Exception):
    """The local socket can't be opened. The message names the path and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who the daemon says it is."""

    app_version: str
    generation: str
    pid: int
    process_start: str | None
    revision: int = REVISION
    user: int = field(default_factory=os.getuid)
    """Whose it is: nobody else is served."""


def listen(path: Path, user: int | None = None) -> socket.socket:
    """Open the socket, in a folder that is this user's alone. Raises SocketUnusable."""
    name = os.fsencode(path)
    if len(name) > LONGEST_PATH:
        raise SocketUnusable(
            f"the socket's path has {len(name)} bytes, and {LONGEST_PATH} are the most:"
            f" {path}. Set a shorter one with ROOST_SOCKET__PATH"
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_folder(path.parent, os.getuid() if user is None else user)
        _remove_stale(path)
        listener.bind(name)
        path.chmod(0o600)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except (OSError, SocketUnusable) as exc:
        listener.close()
        if isinstance(exc, SocketUnusable):
            raise
        raise SocketUnusable(
            f"{path} can't be opened: {exc.strerror}. Set another one with ROOST_SOCKET__PATH"
        ) from exc
    return listener


def _check_folder(folder: Path, user: int) -> None:
    """A link counts by its own user, too: whoever made it may lead our clients elsewhere later."""
    found = folder.stat()
    if {found.st_uid, folder.lstat().st_uid} != {user}:
        raise SocketUnusable(f"{folder} is another user's: set ROOST_SOCKET__PATH elsewhere")
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)


def _remove_stale(path: Path) -> None:
    """Remove what a daemon that was killed left behind; never a socket that somebody serves."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketUnusable(f"{path} is no socket: move it away, or set ROOST_SOCKET__PATH")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE)
        with suppress(ConnectionRefusedError, FileNotFoundError):
            probe.connect(os.fsencode(path))
            raise SocketUnusable(f"another daemon serves {path} already")
    now = path.lstat()
    if (now.st_dev, now.st_ino) == (found.st_dev, found.st_ino):
        path.unlink()


def sweep(folder: Path) -> None:
    """Remove the sockets that killed daemons left in a folder that several daemons share."""
    for path in folder.glob("*.sock"):
        with suppress(OSError, SocketUnusable):
            # One that was just made may not be listened on yet.
            if time.time() - path.lstat().st_mtime > _LEFT_AFTER:
                _remove_stale(path)


class LocalServer:
    """Puts the registry behind a unix socket."""

    def __init__(
        self,
        threads: Threads,
        saved: SavedSessions,
        journal: CommandJournal,
        identity: Identity,
        settings: PeerSettings | None = None,
    ) -> None:
        self._threads = threads
        self._descent = Descent(threads)
        self._directory = Directory(threads, saved)
        self._household = Household(threads, self._directory)
        self._journal = journal
        self._identity = identity
        self._settings = settings or PeerSettings()
        self._records = EventRecords()
        self._peers: set[Peer] = set()
        self._left = anyio.Event()
        self._streams: set[LocalStream] = set()
        """Every connection: one whose task was cancelled before it began is closed at the end."""
        self._connections = 0
        self._work: TaskGroup | None = None

    @asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncGenerator[None]:
        """Serve while the block runs; then tell the clients that this was on purpose, and end."""
        async with anyio.create_task_group() as tasks, anyio.create_task_group() as self._work:
            accepting = anyio.CancelScope()
            tasks.start_soon(self._accept, listener, tasks, accepting)
            try:
                yield
            finally:
                accepting.cancel()
                with anyio.move_on_after(_FAREWELL, shield=True):
                    await self._end_all()
                self._work.cancel_scope.cancel()
                tasks.cancel_scope.cancel()
        for stream in self._streams:
            stream.close()
        self._streams.clear()

    def hurry(self) -> None:
        """Wait no longer for clients to read their last records."""
        for peer in self._peers:
            peer.cut()

    async def _accept(
        self, listener: socket.socket, tasks: TaskGroup, scope: anyio.CancelScope
    ) -> None:
        def connected(stream: LocalStream) -> None:
            self._streams.add(stream)
            tasks.start_soon(self._connection, stream)

        with scope:
            await accept_all(listener, connected)

    async def _end_all(self) -> None:
        while self._peers:
            self._left = anyio.Event()
            for peer in self._peers:
                peer.end("shutdown")
            await self._left.wait()

    async def _connection(self, stream: LocalStream) -> None:
        self._connections += 1
        number = self._connections
        assert self._work is not None, "connections come while `serving` is entered"
        async with stream:
            with structlog.contextvars.bound_contextvars(client_id=number, client_kind="local"):
                user, pid = peer_of(stream.socket)
                if user not in (None, self._identity.user):
                    log.warning("peer_refused", reason=f"it is user {user}'s")
                    return
                if pid is not None and self._descent.is_inside(pid):
                    log.warning("peer_refused", reason="it comes from inside a worker")
                    return
                if len(self._peers) >= MOST_PEERS:
                    log.warning("peer_refused", reason="too many are connected")
                    return
                peer = Peer(
                    stream,
                    self._threads,
                    self._directory,
                    self._household,
                    self._journal,
                    self._settings,
                    self._records,
                    closed=self._session_closed,
                    work=self._work,
                )
                self._peers.add(peer)
                try:
                    await peer.serve(self._identity.revision, self._hello(number))
                except Exception:
                    # The last stop of one connection's troubles: the others go on.
                    log.exception("peer_failed")
                finally:
                    self._peers.discard(peer)
                    self._left.set()
        self._streams.discard(stream)

    def _hello(self, number: int) -> dict[str, object]:
        identity = self._identity
        return {
            "app_version": identity.app_version,
            "generation": identity.generation,
            "pid": identity.pid,
            "process_start": identity.process_start,
            "client_id": f"local-{identity.generation[:8]}-{number}",
        }

    def _session_closed(self, key: ThreadKey, reason: str, message: str) -> None:
        for peer in tuple(self._peers):
            peer.session_closed(key, reason, message)


def peer_of(connection: socket.socket) -> tuple[int | None, int | None]:
    """The user and the process at the other end; None where the system can't tell."""
    if sys.platform == "linux":
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, user, _ = struct.unpack("3i", raw)
        return int(user), int(pid)
    if sys.platform == "darwin":
        # struct xucred: version, user id, and groups that do not matter here.
        raw = connection.getsockopt(0, 1, 76)
        return int(struct.unpack_from("II", raw)[1]), None
    return None, None
