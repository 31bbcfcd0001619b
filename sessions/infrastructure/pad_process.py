"""The launch pad's process: it has imported what a worker needs, and forks a keeper per request.

A request is one connected socket, over which the daemon then tells the keeper the rest: so no
secret of any worker is ever in the pad. It has one thread, no event loop and no connection but the
daemon's, or it refuses to fork; and it ends when the daemon does, or when what it has imported is
no longer what is on disk. A fork then is what a fresh interpreter would be, in a hundredth of the
time and a tenth of the memory.
"""

import gc
import os
import signal
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from sessions.domain.keeper_frames import PAD_READY
from sessions.infrastructure.keeper_start import keep
from sessions.infrastructure.marks import Room, set_name
from sessions.infrastructure.sources import Sources
from sessions.infrastructure.worker_process import Program


class NotForkable(Exception):
    """A fork of this process would not be safe. The message says what it has that it must not."""


def serve_pad(
    requests: socket.socket, warm_up: Callable[[], Program], sources: Iterable[Path]
) -> None:
    """Warm up, say so, and fork until the daemon is gone or the sources change.

    Raises NotForkable.
    """
    room = Room.find()
    set_name("roost-pad")
    # Nobody waits for keepers: they are their own masters, and the kernel takes them in.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Ctrl-C in the daemon's terminal is the daemon's.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watched = Sources(sources)
    gc.disable()
    program = warm_up()
    gc.collect()
    # Without this the first collection of each fork would copy the heap.
    gc.freeze()
    _check_forkable(requests)
    with suppress(OSError):
        requests.sendall(PAD_READY)
    while True:
        try:
            data, fds, _, _ = socket.recv_fds(requests, 1, 1)
        except OSError:
            return
        if not data or watched.have_changed:
            for fd in fds:
                os.close(fd)
            return
        for fd in fds:
            _check_threads()
            if os.fork() == 0:
                _become_keeper(fd, program, room)
            os.close(fd)


def _become_keeper(fd: int, program: Program, room: Room | None) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A keeper may outlive its daemon: it must not hold that one's stderr, a pipe perhaps, open.
    os.dup2(0, 2)
    os.dup2(fd, 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    keep(socket.socket(fileno=3), program, room.write if room else None)


def _check_threads() -> None:
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise NotForkable(f"the launch pad has {threads} threads")


def _check_forkable(requests: socket.socket) -> None:
    _check_threads()
    ours = {0, 1, 2, requests.fileno()}
    for link in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):
            target = os.readlink(link)  # noqa: PTH115 (a socket is no path)
            if int(link.name) not in ours and target.startswith(("socket:", "anon_inode:")):
                raise NotForkable(f"the launch pad has {target} open")
