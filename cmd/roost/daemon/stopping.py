"""Stopping the daemon from outside: a signal to the very process that wrote the run file."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from roost.daemon.run_file import DaemonRecord, NotRunning, RunFile

_LOOK_EVERY = 0.05


@dataclass(frozen=True, slots=True)
class Stopped:
    """What happened, in words, and whether the daemon is gone."""

    says: str
    is_gone: bool


def stop_daemon(
    run_file: RunFile, patience: float, send: Callable[[int, int], None] = os.kill
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
        send(record.pid, signal.SIGTERM)
    except ProcessLookupError:
        return Stopped("The daemon ended by itself just now.", True)
    except PermissionError:
        return Stopped(f"The daemon (pid {record.pid}) belongs to another user.", False)
    if _wait_gone(run_file, record, patience):
        return Stopped(f"The daemon (pid {record.pid}) and its workers have stopped.", True)
    return Stopped(
        f"The daemon (pid {record.pid}) is still stopping its workers after {patience:g} s."
        " Run 'roost stop' again to stop them at once.",
        False,
    )


def _wait_gone(run_file: RunFile, record: DaemonRecord, patience: float) -> bool:
    give_up = time.monotonic() + patience
    while run_file.is_alive(record.pid, record.process_start):
        if time.monotonic() > give_up:
            return False
        time.sleep(_LOOK_EVERY)
    return True
