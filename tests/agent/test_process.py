"""Who a pid is."""

import os
import subprocess
import sys

from agent.infrastructure.process import is_alive, process_start


def test_this_process_is_alive_under_its_own_start() -> None:
    start = process_start(os.getpid())
    assert start is not None
    assert is_alive(os.getpid(), start)


def test_a_pid_that_started_at_another_time_is_another_process() -> None:
    """Who is hurt: a lease of a dead worker would lock its conversation for ever."""
    assert not is_alive(os.getpid(), "1")


def test_a_process_that_ended_is_gone_even_before_its_parent_has_looked() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert process_start(child.pid) is None
    finally:
        child.wait()
    assert process_start(child.pid) is None


def test_no_process_has_a_pid_below_one() -> None:
    assert process_start(0) is None
    assert not is_alive(-1, None)
