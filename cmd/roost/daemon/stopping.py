"""Stopping the daemon from outside: a signal to the very process that wrote the run file."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from roost.daemon.run_file import DaemonRecord, NotRunning, RunFile
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
) -> Stopped:
    """Ask the daemon to stop and wait until it is gone, at most `patience` seconds.

    Nothing to stop is a success: what was asked for is so. Only the process with the recorded
    start time gets the signal; a stranger who has its pid now does not.
    """
    found = run_file.look()
    if isinstance(found, NotRunning):
        return Stopped(" ".join(["No daemon is running.", *filter(None, [found.note])]), True)
    record = found.record
    if record.process_start is None:
        return Stopped(
            f"{run_file.file} does not say when process {record.pid} started, so that may be any"
            " program. Nothing was stopped; if it is the daemon, end it with Ctrl-C where it runs.",
            False,
        )
    try:
        send(record.pid, LEAVE_WORKERS if keep_workers else signal.SIGTERM)
    except ProcessLookupError:
        return Stopped("The daemon ended by itself just now.", True)
    except PermissionError:
        return Stopped(f"The daemon (pid {record.pid}) belongs to another user.", False)
    if _wait_gone(run_file, record, patience):
        if keep_workers:
            text = f"The daemon (pid {record.pid}) has stopped. Its workers go on for the next one."
            return Stopped(text, True)
        return Stopped(f"The daemon (pid {record.pid}) and its workers have stopped.", True)
    return Stopped(
        f"The daemon (pid {record.pid}) is still stopping its workers after {patience:g} s."
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
    give_up = time.monotonic() + patience
    while living := living_keepers(home):
        if time.monotonic() > give_up:
            return Stopped(f"{len(living)} workers are still stopping after {patience:g} s.", False)
        time.sleep(_LOOK_EVERY)
    return Stopped(f"{len(left)} workers that had gone on without a daemon have stopped.", True)


def _wait_gone(run_file: RunFile, record: DaemonRecord, patience: float) -> bool:
    give_up = time.monotonic() + patience
    while run_file.is_alive(record.pid, record.process_start):
        if time.monotonic() > give_up:
            return False
        time.sleep(_LOOK_EVERY)
    return True
