"""The daemon dies at every step of launch, deliver, adopt and stop, and the next one goes on.

After each death a new daemon takes over or starts anew: its thread opens, runs and stops, and no
process is left then.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from sessions.infrastructure.fault_points import Step
from sessions.infrastructure.marks import home_mark, marked_processes
from tests.support.keepers import ENVIRON, wait_until

FAULTY = str(Path(__file__).parents[1] / "support/workers/faulty_daemon.py")


Lives = Callable[[Path, str], int]


@pytest.fixture(scope="module")
def a_life() -> Generator[Lives]:
    """One daemon's, in a folder, to a step; its exit code."""
    process = subprocess.Popen(
        [sys.executable, FAULTY],
        env=ENVIRON,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def live(folder: Path, step: str) -> int:
        stdin.write(json.dumps([str(folder), step]) + "\n")
        stdin.flush()
        return int(stdout.readline())

    yield live
    process.communicate(timeout=120)


@pytest.mark.parametrize("step", list(Step))
def test_a_daemon_that_died_at_any_step_is_followed_by_one_that_works(
    tmp_path: Path, step: Step, a_life: Lives
) -> None:
    home = home_mark(tmp_path / "keepers")
    try:
        if step.name.startswith("ADOPT"):
            # There has to be something to adopt.
            assert a_life(tmp_path, Step.LINES_RECEIVED) == -signal.SIGKILL
            assert a_life(tmp_path, step) == -signal.SIGKILL
        else:
            assert a_life(tmp_path, step) == -signal.SIGKILL
        assert a_life(tmp_path, "none") == 0
        wait_until(lambda: not list(marked_processes(home)))
    finally:
        for process in marked_processes(home):
            process.end()
