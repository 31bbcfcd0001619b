"""The daemon dies at every step of launch, deliver, adopt and stop, and the next one goes on.

After each death a new daemon takes over or starts anew: its thread opens, runs and stops, and no
process is left then.
"""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sessions.infrastructure.fault_points import Step
from sessions.infrastructure.marks import home_mark, marked_processes
from tests.support.keepers import ENVIRON, wait_until

FAULTY = str(Path(__file__).parents[1] / "support/workers/faulty_daemon.py")


def a_life(folder: Path, step: str) -> tuple[int, str]:
    """Exit code and what it said."""
    process = subprocess.run(
        [sys.executable, FAULTY, str(folder), step],
        env=ENVIRON,
        stdout=subprocess.PIPE,
        timeout=60,
        text=True,
        check=False,
    )
    return process.returncode, process.stdout


@pytest.mark.parametrize("step", list(Step))
def test_a_daemon_that_died_at_any_step_is_followed_by_one_that_works(
    tmp_path: Path, step: Step
) -> None:
    home = home_mark(tmp_path / "keepers")
    try:
        if step.name.startswith("ADOPT"):
            # There has to be something to adopt.
            assert a_life(tmp_path, Step.LINES_RECEIVED)[0] == -signal.SIGKILL
            assert a_life(tmp_path, step) == (-signal.SIGKILL, "")
        else:
            assert a_life(tmp_path, step) == (-signal.SIGKILL, "")
        assert a_life(tmp_path, "none") == (0, "done\n")
        wait_until(lambda: not list(marked_processes(home)))
    finally:
        for process in marked_processes(home):
            process.end()
