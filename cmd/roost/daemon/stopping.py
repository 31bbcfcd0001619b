"""Stopping the daemon from outside: a signal to the very process that wrote the run file."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from roost.daemon.lock import Holder
from roost.daemon.run_file import NotRunning, RunFile
from roost.home import RoostHome

_LOOK_EVERY = 0.05

LEAVE_WORKERS = signal.SIGUSR1
"""Ends the daemon as SIGTERM does, but its workers go on for the next one."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """What happened, in words, and whether the daemon is gone."""

    says: str
    is_gone: bool


def stop_daemon(
    run_file: RunFile,
    patience: float,
    send: Callable[[int, int], None] = os.kill,
    *,
    keep_workers: bool = False,
    holder: Callable[[], Holder | None] = lambda: None,
) -> Stopped:
    """Ask the daemon to stop and wait until it is gone, at most `patience` seconds.

    Nothing to stop is a success: what was asked for is so. A daemon without a run file, one that
    starts or has lost it, is the `holder` of the lock. Only the process with the recorded start
    time gets the signal; a stranger who has its pid now does not.
    """
    found = run_file.look()
    daemon = holder() if isinstance(found, NotRunning) else found.record
    if daemon is None:
        note = found.note if isinstance(found, NotRunning) else None
        return Stopped(" ".join(["No daemon is running.", *filter(None, [note])]), True)
    pid, start = daemon.pid, daemon.process_start
    if start is None:
        return Stopped(
            f"{run_file.file} does not say when process {pid} started, so that may be any"
            " program. Nothing was stopped; if it is the daemon, end it with Ctrl-C where it runs.",
            False,
        )
    try:
        send(pid, LEAVE_WORKERS if keep_workers else signal.SIGTERM)
        # One that somebody halted has to run to heed that.
        send(pid, signal.SIGCONT)
    except ProcessLookupError:
        return Stopped("The daemon ended by itself just now.", True)
    except PermissionError:
        return Stopped(f"The daemon (pid {pid}) belongs to another user.", False)
    if _comes_true(lambda: not run_file.is_alive(pid, start), patience):
        if keep_workers:
            text = f"The daemon (pid {pid}) has stopped. Its workers go on for the next one."
            return Stopped(text, True)
        return Stopped(f"The daemon (pid {pid}) and its workers have stopped.", True)
    return Stopped(
        f"The daemon (pid {pid}) is still stopping its workers after {patience:g} s."
        " Run 'roost stop' again to stop them at once.",
        False,
    )


def stop_left_workers(home: RoostHome, patience: float) -> Stopped | None:
    """End the workers that go on without a daemon, as a daemon would. None: there are none."""
    from roost.daemon.doctor import living_keepers

    left = living_keepers(home)
    if not left:
        return None
    for keeper in left:
        keeper.end(signal.SIGTERM)
        # One that somebody halted has to run to heed that.
        keeper.end(signal.SIGCONT)
    if not _comes_true(lambda: not living_keepers(home), patience):
        count = len(living_keepers(home))
        return Stopped(f"{count} workers are still stopping after {patience:g} s.", False)
    return Stopped(f"{len(left)} workers that had gone on without a daemon have stopped.", True)


def _comes_true(holds: Callable[[], bool], patience: float) -> bool:
    """Wait for other processes, at most so many seconds; there is no event to wait for."""
    give_up = time.monotonic() + patience
    while not holds():
        if time.monotonic() > give_up:
            return False
        time.sleep(_LOOK_EVERY)
    return True
