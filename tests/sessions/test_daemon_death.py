"""kill -9 of a daemon in the middle of live runs, and the next one: nothing lost, nothing twice.

Real processes: a registry with keepers in a program of its own, which is killed.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sessions.infrastructure.marks import home_mark, marked_processes
from tests.support.keepers import wait_until

TINY = str(Path(__file__).parents[1] / "support/workers/tiny_daemon.py")
THREADS = 20


class TinyDaemon:
    """One life of the program, and what its clients were told, by thread."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.events: dict[str, list[tuple[str, int, dict[str, Any]]]] = {}
        self.attached: list[str] = []
        self.views: list[dict[str, Any]] = []
        self.first_views: list[dict[str, Any]] | None = None

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
            self.first_views = content if self.first_views is None else self.first_views
        elif sequence is not None:
            self.events.setdefault(name, []).append((generation, sequence, content))
        return True

    def count(self, kind: str) -> int:
        return sum(e["type"] == kind for told in self.events.values() for _, _, e in told)


@contextmanager
def tiny_daemon(folder: Path, cursors: dict[str, tuple[str, int]]) -> Generator[TinyDaemon]:
    process = subprocess.Popen(
        [sys.executable, TINY, str(folder), "counts", str(THREADS), json.dumps(cursors)],
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"]},
    )
    try:
        yield TinyDaemon(process)
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_twenty_live_runs_go_on_and_their_clients_resume_from_their_cursors(
    tmp_path: Path,
) -> None:
    """What no daemon of this field does: whoever restarts it must not lose a word of any agent."""
    keepers = tmp_path / "keepers"
    try:
        with tiny_daemon(tmp_path, {}) as first:
            while first.count("TEXT_MESSAGE_CONTENT") < 40 * THREADS or len(first.events) < THREADS:
                assert first.read()
            first.process.send_signal(signal.SIGKILL)
            while first.read():
                pass  # what it said before it died was delivered
        cursors = {name: told[-1][:2] for name, told in first.events.items()}
        with tiny_daemon(tmp_path, cursors) as second:
            while second.count("RUN_FINISHED") + first.count("RUN_FINISHED") < THREADS:
                assert second.read()
            while not second.views or any(v["status"] == "running" for v in second.views):
                assert second.read()
    finally:
        for process in marked_processes(home_mark(keepers)):
            process.end(signal.SIGTERM)
        wait_until(lambda: not list(marked_processes(home_mark(keepers))))
    assert second.attached == ["complete"] * THREADS
    for number in range(THREADS):
        name = f"t{number}"
        told = first.events[name] + second.events.get(name, [])
        assert len({generation for generation, _, _ in told}) == 1, "the generation went on"
        sequences = [sequence for _, sequence, _ in told]
        assert sequences == sorted(set(sequences)), "nothing came twice"
        counted = [e["delta"] for _, _, e in told if e["type"] == "TEXT_MESSAGE_CONTENT"]
        assert counted == [str(n) for n in range(700 + number)], "nothing was lost"
    open_interrupts = {v["conversation_id"]: v["interrupts"] for v in second.views}
    assert open_interrupts == {f"t{n}": ["i"] if n % 2 else [] for n in range(THREADS)}
    assert {file.suffix for file in keepers.iterdir()} == {".outcome"}
