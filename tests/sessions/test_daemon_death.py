"""kill -9 of a daemon in the middle of live runs, and the next one: nothing lost, nothing twice.

Real processes: a registry with keepers in a program of its own, which is killed.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sessions.infrastructure.marks import home_mark, marked_processes
from tests.support.keepers import wait_until

TINY = str(Path(__file__).parents[1] / "support/workers/tiny_daemon.py")
THREADS = 20
LIVES = 5
# The longest run counts to 719.
STEPS = 8


class TinyDaemon:
    """One life of the program, and what its clients were told, by thread."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.events: dict[str, list[tuple[str, int, dict[str, Any]]]] = {}
        self.attached: list[str] = []
        self.seen: Counter[str] = Counter()
        self.views: list[dict[str, Any]] = []

    def read(self) -> bool:
        """Take in one thing that it says; false when it says no more."""
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        if not said.endswith("\n"):
            return False
        name, generation, sequence, content = json.loads(said)
        if name == "attached":
            self.attached.append(content)
        elif name == "views":
            self.views = content
        elif sequence is not None:
            self.events.setdefault(name, []).append((generation, sequence, content))
            self.seen[content["type"]] += 1
        return True


@contextmanager
def tiny_daemon(
    folder: Path, cursors: dict[str, tuple[str, int]], word: str = "counts"
) -> Generator[TinyDaemon]:
    process = subprocess.Popen(
        [sys.executable, TINY, str(folder), word, str(THREADS), json.dumps(cursors)],
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"]},
    )
    try:
        yield TinyDaemon(process)
    finally:
        process.kill()
        process.communicate(timeout=120)


def test_twenty_live_runs_go_on_over_five_daemons_and_their_clients_resume_from_their_cursors(
    tmp_path: Path,
) -> None:
    """What no daemon of this field does: whoever restarts it must not lose a word of any agent."""
    keepers = tmp_path / "keepers"
    told: dict[str, list[tuple[str, int, dict[str, Any]]]] = {}
    cursors: dict[str, tuple[str, int]] = {}
    views: list[dict[str, Any]] = []
    try:
        for life in range(LIVES):
            with tiny_daemon(tmp_path, cursors, "counts-in-steps") as daemon:
                while len(daemon.attached) < len(cursors):
                    assert daemon.read()
                for step in range(life, life + 1 if life < LIVES - 1 else STEPS):
                    (tmp_path / f"go{step}").touch()
                if life < LIVES - 1:
                    while min(map(len, daemon.events.values()), default=0) < 10 or (
                        len(daemon.events) < THREADS
                    ):
                        assert daemon.read()
                    daemon.process.send_signal(signal.SIGKILL)
                    while daemon.read():
                        pass  # what it said before it died was delivered
                else:
                    while daemon.seen["RUN_FINISHED"] < THREADS:
                        assert daemon.read()
                    daemon.views = []
                    while not daemon.views:
                        assert daemon.read()
            views = daemon.views
            assert daemon.attached == ["complete"] * len(cursors)
            for name, events in daemon.events.items():
                told.setdefault(name, []).extend(events)
            cursors = {name: events[-1][:2] for name, events in told.items()}
    finally:
        for process in marked_processes(home_mark(keepers)):
            process.end(signal.SIGTERM)
        wait_until(lambda: not list(marked_processes(home_mark(keepers))))
    for number in range(THREADS):
        events = told[f"t{number}"]
        assert len({generation for generation, _, _ in events}) == 1, "the generation went on"
        sequences = [sequence for _, sequence, _ in events]
        assert sequences == sorted(set(sequences)), "nothing came twice"
        counted = [e["delta"] for _, _, e in events if e["type"] == "TEXT_MESSAGE_CONTENT"]
        assert counted == [str(n) for n in range(700 + number)], "nothing was lost"
    open_interrupts = {v["conversation_id"]: v["interrupts"] for v in views}
    assert open_interrupts == {f"t{n}": ["i"] if n % 2 else [] for n in range(THREADS)}
    assert {file.suffix for file in keepers.iterdir()} == {".outcome"}
