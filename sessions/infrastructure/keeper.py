"""A keeper's process: one worker, one socket, one loop that waits in the kernel.

What it decides is `sessions.domain.keeping`; this reads, writes, signals and reaps as that says.
No event loop of a library and no log: it is forked from the launch pad and has to leave its pages
shared, and whatever is worth a log line is told to the daemon.
"""

import os
import signal
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass, field
from hmac import compare_digest
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from sessions.domain.backlog import Backlog
from sessions.domain.keeper_frames import (
    ADOPT_TIMEOUT,
    REVISION,
    Adopt,
    BadFrames,
    FrameSplitter,
    Kind,
    Launch,
    Launched,
    Noted,
    Refused,
    Stop,
    told,
)
from sessions.domain.keeping import Keeping
from sessions.domain.splitter import LineTooLong
from sessions.infrastructure.control_groups import ControlGroup
from sessions.infrastructure.descendants import end_descendants
from sessions.infrastructure.file_spool import FileSpool
from sessions.infrastructure.keeper_files import Descriptor, KeeperFiles, Outcome
from sessions.infrastructure.marks import process_start
from sessions.infrastructure.readiness import READ, WRITE, Readiness
from sessions.infrastructure.worker_process import WorkerProcess

_READ_BYTES = 64 * 1024
# Nearly all that the pipe holds. Not all: from 128 KiB on the C library maps and unmaps memory for
# each read, however little comes (measured: 6 to 35 us instead of 2).
_STDOUT_READ_BYTES = 120 * 1024
# Of what the kernel holds for the daemon: with its default (208 KiB) a flood is a tenth slower.
_LINK_BUFFER = 1024 * 1024
_SPOOL_BYTES = 256 * 1024 * 1024
# What is read after the worker is gone: all that a pipe can hold. More comes from somebody else.
_DRAIN_BYTES = 1024 * 1024
# How long the daemon may take to take the end in.
_FAREWELL_TIMEOUT = 10.0
_MOST_CLAIMS = 8
_LEFTOVERS_TIMEOUT = 5.0
_LONGEST_WAIT = 3600.0


@dataclass(slots=True)
class _Claim:
    """Somebody who has connected and not yet shown that it may take over."""

    connection: socket.socket
    give_up: float
    splitter: FrameSplitter = field(default_factory=FrameSplitter)


class Keeper:
    """One worker's keeper, from its worker's start to its own end."""

    def __init__(
        self,
        launch: Launch,
        worker: WorkerProcess,
        group: ControlGroup | None,
        wakeup: int,
        link: socket.socket,
    ) -> None:
        folder = Path(launch.folder)
        self._launch = launch
        self._worker = worker
        self._group = group
        self._files = KeeperFiles(folder, launch.keeper)
        self._core = Keeping(launch, Backlog(FileSpool(folder, _SPOOL_BYTES)), now=time.monotonic())
        self._link: socket.socket | None = _roomy(link)
        self._link_frames = FrameSplitter()
        self._wakeup = wakeup
        self._listener: socket.socket | None = None
        self._claims: dict[int, _Claim] = {}
        self._readiness = Readiness()
        self._ended: str | None = None
        self._leave_by: float | None = None
        self._is_settled = False
        """What is waited for, and until when, is as it was when that was last looked at."""
        self._is_done = False

    def publish(self) -> None:
        """Leave what a later daemon finds us by, anew if need be. Where that fails, none can."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        try:
            self._listener = self._files.listen()
            self._files.describe(
                Descriptor(
                    keeper=self._launch.keeper,
                    pid=os.getpid(),
                    process_start=process_start(os.getpid()) or "",
                    project_dir=self._launch.project_dir,
                    conversation_id=self._launch.conversation_id,
                    worker_pid=self._worker.pid,
                    socket=str(self._files.address),
                    token=self._launch.token,
                    revision=REVISION,
                )
            )
        except OSError:
            if self._listener is not None:
                self._listener.close()
                self._listener = None

    def say_launched(self) -> None:
        launched = Launched(self._worker.pid, is_adoptable=self._listener is not None)
        self._core.backlog.put(told(Kind.LAUNCHED, launched))

    def run(self) -> None:
        """Until the worker is gone and its end is told or recorded."""
        while not self._is_done:
            self._write_link()
            self._write_worker()
            self._watch()
            self._is_settled = True
            wake_by = self._next_deadline()
            while self._is_settled and (patience := wake_by - time.monotonic()) > 0:
                self._readiness.wait(patience)
            self._check_time()
        self._files.remove()

    # What to wait for

    def _watch(self) -> None:
        """Tell the kernel what we wait for now."""
        core, worker, want = self._core, self._worker, self._readiness.want
        want(self._wakeup, READ, self._on_signals)
        stdout = READ if core.reads_worker and self._ended is None else 0
        want(worker.stdout, stdout, self._on_stdout)
        want(worker.stderr, READ, self._on_stderr)
        want(worker.stdin, WRITE if core.inbox else 0, self._on_stdin)
        if self._listener is not None:
            want(self._listener.fileno(), READ, self._on_connection)
        if self._link is not None:
            wanted = READ if core.reads_daemon else 0
            wanted |= WRITE if len(core.backlog) else 0
            want(self._link.fileno(), wanted, self._on_link)

    def _next_deadline(self) -> float:
        due = [self._core.next_deadline, self._leave_by, time.monotonic() + _LONGEST_WAIT]
        due += [claim.give_up for claim in self._claims.values()]
        return min(d for d in due if d is not None)

    def _check_time(self) -> None:
        now = time.monotonic()
        if self._ended is None and (signum := self._core.due(now)) is not None:
            self._worker.signal(signum)
        for claim in [c for c in self._claims.values() if c.give_up <= now]:
            self._drop(claim)
        if self._leave_by is not None and self._leave_by <= now:
            self._leave_without_farewell()

    # The worker

    def _on_stdout(self, events: int) -> None:
        got = self._read_stdout()
        if self._link is not None and got and not self._core.backlog:
            # Passed on at once, as nearly every line is: nothing else is to be seen to.
            return
        self._is_settled = False
        if not got:
            # It closed its stdout. It may still live, but has nothing more to say.
            self._close_pipe("stdout")

    def _read_stdout(self) -> int:
        """How much there was; 0 at its end, -1 when there is nothing yet."""
        try:
            chunk = os.read(self._worker.stdout, _STDOUT_READ_BYTES)
        except BlockingIOError:
            return -1
        except OSError:
            return 0
        if chunk:
            try:
                self._core.worker_wrote(chunk, time.monotonic())
            except LineTooLong as exc:
                self._worker.signal(self._core.fail(f"wrote {exc}"))
                return 0
            self._write_link()
            if self._core.is_behind:
                self._core.catch_up()
        return len(chunk)

    def _on_stderr(self, events: int) -> None:
        self._is_settled = False
        try:
            chunk = os.read(self._worker.stderr, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk:
            self._core.worker_said_aside(chunk)
        else:
            self._close_pipe("stderr")

    def _on_stdin(self, events: int) -> None:
        """There is room again: each turn of the loop writes what there is."""
        self._is_settled = False

    def _write_worker(self) -> None:
        core, worker = self._core, self._worker
        while core.inbox and worker.stdin >= 0:
            try:
                written = os.writev(worker.stdin, list(islice(core.inbox, 64)))
            except BlockingIOError:
                return
            except OSError:
                # It closed its stdin, or it is gone, which its exit will tell.
                core.worker_is_deaf()
                self._close_pipe("stdin")
                return
            core.worker_took(written, time.monotonic())
        if core.closes_stdin:
            self._close_pipe("stdin")

    def _close_pipe(self, name: str) -> None:
        self._readiness.forget(getattr(self._worker, name))
        self._worker.close(name)

    def _on_signals(self, events: int) -> None:
        self._is_settled = False
        with suppress(BlockingIOError):
            for signum in os.read(self._wakeup, 4096):
                if signum in (signal.SIGTERM, signal.SIGINT):
                    self._core.stop(self._launch.stop_grace, time.monotonic())
                elif signum == signal.SIGHUP and self._ended is None:
                    self._republish()
        self._reap()

    def _republish(self) -> None:
        if self._listener is not None:
            self._readiness.forget(self._listener.fileno())
        self.publish()
        if self._listener is None and self._link is None:
            # Nobody finds the worker any more, so it must not go on unseen.
            self._core.stop(self._launch.stop_grace, time.monotonic())

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._worker.pid and self._ended is None:
                self._worker_ended(os.waitstatus_to_exitcode(status))

    def _worker_ended(self, code: int) -> None:
        """Its last words, then an end to all that it started, then word of it."""
        self._ended = _exit_reason(code)
        self._worker.signal(signal.SIGKILL)
        drainable = _DRAIN_BYTES
        while self._worker.stdout >= 0 and drainable > 0 and (got := self._read_stdout()) > 0:
            drainable -= got
        if self._worker.stderr >= 0:
            self._on_stderr(0)
        for name in ("stdin", "stdout", "stderr"):
            self._close_pipe(name)
        if self._group is not None:
            self._group.kill()
        is_clean = end_descendants(_LEFTOVERS_TIMEOUT)
        if self._group is not None:
            is_clean = self._group.remove(_LEFTOVERS_TIMEOUT) and is_clean
        gone = self._core.worker_ended(self._ended, has_leftovers=not is_clean)
        self._ended = gone.reason
        if self._link is None:
            self._leave_without_farewell()
        else:
            self._leave_by = time.monotonic() + _FAREWELL_TIMEOUT

    def _leave_without_farewell(self) -> None:
        self._files.record(
            Outcome(
                keeper=self._launch.keeper,
                project_dir=self._launch.project_dir,
                conversation_id=self._launch.conversation_id,
                reason=self._ended or "",
            )
        )
        self._is_done = True

    # The daemon

    def _write_link(self) -> None:
        backlog = self._core.backlog
        while self._link is not None and len(backlog):
            try:
                written = self._link.sendmsg(list(islice(backlog.pieces(), 64)))
            except BlockingIOError:
                return
            except OSError:
                self._lose_link()
                return
            backlog.written(written)

    def _on_link(self, events: int) -> None:
        self._is_settled = False
        if self._link is None or events == WRITE:
            return
        try:
            chunk = self._link.recv(_READ_BYTES)
            said = self._link_frames.feed(chunk) if chunk else []
        except BlockingIOError:
            return
        except (OSError, BadFrames):
            chunk, said = b"", []
        try:
            for kind, payload in said:
                self._hear(kind, payload)
        except msgspec.MsgspecError:
            chunk = b""
        if not chunk:
            self._lose_link()

    def _hear(self, kind: Kind, payload: bytes) -> None:
        now = time.monotonic()
        if kind is Kind.LINE:
            self._core.line_for_worker(payload, now)
        elif kind is Kind.NOTE:
            self._core.noted(msgspec.msgpack.decode(payload, type=Noted))
        elif kind is Kind.STOP:
            self._core.stop(msgspec.msgpack.decode(payload, type=Stop).grace, now)
        elif kind is Kind.FAREWELL and self._ended is not None:
            self._is_done = True

    def _lose_link(self) -> None:
        """The daemon's end broke. The worker goes on, if another daemon can find and know it."""
        if self._link is None:
            return
        self._readiness.forget(self._link.fileno())
        self._link.close()
        self._link = None
        now = time.monotonic()
        self._core.detached(now)
        if self._ended is not None:
            self._leave_without_farewell()
        elif self._listener is None or not self._core.note:
            # A launch that was given up, for one, has left no note: no daemon would take it.
            self._core.stop(self._launch.stop_grace, now)

    def _on_connection(self, events: int) -> None:
        self._is_settled = False
        assert self._listener is not None
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if len(self._claims) >= _MOST_CLAIMS or not _is_ours(connection):
            connection.close()
            return
        connection.setblocking(False)
        claim = _Claim(connection, time.monotonic() + ADOPT_TIMEOUT)
        self._claims[connection.fileno()] = claim
        self._readiness.want(connection.fileno(), READ, lambda events: self._on_claim(claim))

    def _on_claim(self, claim: _Claim) -> None:
        self._is_settled = False
        try:
            chunk = claim.connection.recv(_READ_BYTES)
            said = claim.splitter.feed(chunk)
            if not said and chunk:
                return
            kind, payload = said[0] if said else (None, b"")
            if kind is not Kind.ADOPT:
                self._drop(claim)
                return
            adopt = msgspec.msgpack.decode(payload, type=Adopt)
        except (OSError, BadFrames, msgspec.MsgspecError):
            self._drop(claim)
            return
        refusal = self._refusal(adopt)
        if refusal is not None:
            with suppress(OSError):
                claim.connection.send(told(Kind.REFUSED, refusal))
            self._drop(claim)
            return
        self._take_over(claim)

    def _refusal(self, adopt: Adopt) -> Refused | None:
        if not compare_digest(adopt.token.encode(), self._launch.token.encode()):
            return Refused("the token is another one")
        if adopt.revision != REVISION:
            return Refused(f"it speaks revision {REVISION}, not {adopt.revision}")
        if self._link is not None:
            # Its daemon may have died a moment ago, and the news be behind this.
            self._on_link(READ)
        if self._link is not None:
            return Refused("another daemon has it", is_looked_after=True)
        if self._ended is not None:
            return Refused("its worker has just ended", is_looked_after=True)
        return None

    def _take_over(self, claim: _Claim) -> None:
        fd = claim.connection.fileno()
        self._readiness.forget(fd)
        del self._claims[fd]
        self._link, self._link_frames = _roomy(claim.connection), claim.splitter
        kept = self._core.attached(self._worker.pid)
        self._core.backlog.put(told(Kind.KEPT, kept))

    def _drop(self, claim: _Claim) -> None:
        fd = claim.connection.fileno()
        self._readiness.forget(fd)
        self._claims.pop(fd, None)
        claim.connection.close()


def _roomy(link: socket.socket) -> socket.socket:
    """Non-blocking, with room for a daemon that is busy for a moment."""
    link.setblocking(False)
    with suppress(OSError):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LINK_BUFFER)
    return link


def _is_ours(connection: socket.socket) -> bool:
    """Does it come from a process of the same user?"""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    credentials: Any = connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return bool(uid == os.getuid())


def _exit_reason(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"
