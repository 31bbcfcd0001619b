"""SIGKILL of the daemon with twenty live runs: until the first event on a resumed cursor."""

import json
import signal
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import figure, machine
from sessions.infrastructure.marks import home_mark, marked_processes
from tests.sessions.test_daemon_death import THREADS, tiny_daemon
from tests.support.keepers import wait_until

ROUNDS = 5


def once(folder: Path) -> float:
    """Milliseconds, the start of the next daemon's interpreter included."""
    try:
        with tiny_daemon(folder, {}) as first:
            while first.seen["TEXT_MESSAGE_CONTENT"] < 5 * THREADS or len(first.events) < THREADS:
                assert first.read()
            began = time.perf_counter()
            first.process.send_signal(signal.SIGKILL)
            while first.read():
                pass
        cursors = {name: told[-1][:2] for name, told in first.events.items()}
        with tiny_daemon(folder, cursors) as second:
            while not second.seen["TEXT_MESSAGE_CONTENT"]:
                assert second.read(), json.dumps(cursors)
            return (time.perf_counter() - began) * 1000
    finally:
        home = home_mark(folder / "keepers")
        for process in marked_processes(home):
            process.end(signal.SIGTERM)
        wait_until(lambda: not list(marked_processes(home)))


def main() -> None:
    sys.stdout.write(machine() + "\n")
    times: list[float] = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            times.append(once(Path(folder)))
    figure(f"SIGKILL of a daemon with {THREADS} runs to the first resumed event", times, "ms",
           "aim: 2,000")  # fmt: skip


if __name__ == "__main__":
    main()
