"""How a keeper begins: it is told what to launch, becomes what it has to be, and has its worker.

Whatever fails here is told to the daemon, which tells it to whoever waits. What follows is
`sessions.infrastructure.keeper`.
"""

import os
import signal
import socket
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from sessions.domain.keeper_frames import (
    BadFrames,
    Failed,
    FrameSplitter,
    Kind,
    Launch,
    frame,
    heard_launch,
    told,
)
from sessions.infrastructure.control_groups import ControlGroup
from sessions.infrastructure.descendants import become_subreaper
from sessions.infrastructure.keeper import Keeper
from sessions.infrastructure.marks import VARIABLE, Mark, Role, set_name
from sessions.infrastructure.worker_process import (
    Program,
    WorkerProcess,
    exec_worker,
    fork_worker,
)

_READ_BYTES = 64 * 1024
# How long the daemon may take to send what is to be launched.
_LAUNCH_TIMEOUT = 10.0
_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

SayWhoWeAre = Callable[[dict[str, str]], None]
"""Puts variables where the kernel looks for a process's environment."""


def keep(link: socket.socket, program: Program | None, say: SayWhoWeAre | None) -> NoReturn:
    """Be the keeper of the worker that the daemon at the other end of `link` tells of.

    Never returns. Without a program to fork, workers are started afresh.
    """
    code = 1
    try:
        launch = _told_launch(link)
        if launch is not None:
            keeper = _launched(launch, link, program, say)
            if keeper is not None:
                keeper.run()
            code = 0
    except BaseException:
        # Our stderr is nobody's: it would hold open whatever the daemon was started with.
        with suppress(OSError):
            link.setblocking(False)
            link.send(frame(Kind.STDERR, traceback.format_exc().encode()))
    finally:
        os._exit(code)


def _told_launch(link: socket.socket) -> Launch | None:
    """What is to be launched; None when nobody says it in time."""
    link.settimeout(_LAUNCH_TIMEOUT)
    splitter = FrameSplitter()
    try:
        while chunk := link.recv(_READ_BYTES):
            for kind, payload in splitter.feed(chunk):
                if kind is Kind.LAUNCH:
                    return heard_launch(payload)
    except (OSError, BadFrames):
        pass
    return None


def _launched(
    launch: Launch, link: socket.socket, program: Program | None, say: SayWhoWeAre | None
) -> Keeper | None:
    """The keeper with its worker; None, and the daemon is told, when no worker came to be."""
    wakeup = _become_keeper(launch, say)
    group = ControlGroup(Path(launch.group.folder)) if launch.group is not None else None
    if launch.group is not None and group is not None:
        try:
            group.make(launch.group.memory, launch.group.processes)
        except OSError as exc:
            _say_failed(link, exc, is_of_group=True)
            return None
    try:
        # The directory first: an error about it must not look like one about the command.
        os.chdir(launch.project_dir)
        worker = _start_worker(launch, program, say, group)
    except OSError as exc:
        if group is not None:
            group.remove(0.0)
        _say_failed(link, exc, is_of_group=False)
        return None
    os.chdir("/")
    keeper = Keeper(launch, worker, group, wakeup, link)
    keeper.publish()
    keeper.say_launched()
    return keeper


def _become_keeper(launch: Launch, say: SayWhoWeAre | None) -> int:
    """Be a process of its own, which says what it is. Returns where signals are read from."""
    with suppress(OSError):
        os.setsid()
    become_subreaper()
    set_name("roost-keeper")
    if say is not None:
        say({VARIABLE: str(Mark(launch.home, Role.KEEPER, launch.keeper))})
    _limit_open_files(launch.open_files)
    wakeup, woken = os.pipe()
    os.set_blocking(wakeup, False)
    os.set_blocking(woken, False)
    for signum in _SIGNALS:
        # A handler must be there for the wake-up; what a signal means is decided in the loop.
        signal.signal(signum, _wake_up)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    return wakeup


def _start_worker(
    launch: Launch, program: Program | None, say: SayWhoWeAre | None, group: ControlGroup | None
) -> WorkerProcess:
    """In the present directory, and in the group from its first instruction. Raises OSError."""
    environ = launch.environ | {VARIABLE: str(Mark(launch.home, Role.WORKER, launch.keeper))}

    def join_group() -> None:
        if group is not None:
            group.join()

    def in_the_fork() -> None:
        join_group()
        set_name("roost-worker")
        if say is not None:
            seen = (VARIABLE, "ROOST_WORKER_TOKEN", "ROOST_BINDING__URL")
            say({name: environ[name] for name in seen if name in environ})

    if launch.is_ours and program is not None:
        return fork_worker(program, launch.arguments, environ, in_the_fork)
    return exec_worker([*launch.command, *launch.arguments], environ, join_group)


def _say_failed(link: socket.socket, exc: OSError, *, is_of_group: bool) -> None:
    failed = Failed(exc.errno or 0, exc.strerror or str(exc), is_of_group)
    with suppress(OSError):
        link.sendall(told(Kind.FAILED, failed))


def _wake_up(signum: int, frame: object) -> None:
    """The signal's number is in the wake-up socket; there is nothing else to do here."""


def _limit_open_files(soft: int | None) -> None:
    """What a daemon raised for itself is not for its workers."""
    if soft is None:
        return
    import resource

    with suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
