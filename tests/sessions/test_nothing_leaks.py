"""Daemon, pad, keepers and workers are killed at any time, in any combination: nothing is left.

And nobody else is hurt: bystanders with look-alike names, other homes' marks and pids that files of
ours name are there all the time. `benchmarks/kills.py` does the same for longer.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from sessions.domain.keys import ConversationId, ThreadKey, ThreadOptions
from sessions.infrastructure.keeper_files import read_descriptor
from sessions.infrastructure.marks import (
    VARIABLE,
    Mark,
    Marked,
    Role,
    home_mark,
    marked_processes,
    process_start,
)
from sessions.infrastructure.sweep import Sweeper, ownerless
from tests.support.keepers import a_launcher, wait_until
from tests.support.kills import kill_at_random
from tests.support.pumped import all_lines, next_lines

SCRIPTED = str(Path(__file__).parents[1] / "support/workers/scripted.py")
SLEEPING = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_two_hundred_kills_at_random_leave_nothing_and_hit_nobody_else(tmp_path: Path) -> None:
    """What is left costs memory until the next reboot; a wrong kill costs somebody's work."""
    killing = kill_at_random(tmp_path, 200, threads=4, seed=int.from_bytes(os.urandom(4)))
    assert {"daemon", "keep", "work"} <= set(killing.kills)


async def test_what_left_group_session_and_stdin_ends_with_its_worker(tmp_path: Path) -> None:
    away = tmp_path / "away"
    argv = (sys.executable, SCRIPTED, "leaves-processes", str(away))
    thread = ThreadKey(str(tmp_path), ConversationId("c"))
    with anyio.fail_after(180):
        launch = a_launcher(tmp_path / "keepers", argv)
        async with launch(thread, ThreadOptions(), "t") as worker:
            await next_lines(worker)
            await anyio.to_thread.run_sync(wait_until, lambda: _written(away))
            assert process_start(int(away.read_text())) is not None
            worker.stop(5.0)
            await all_lines(worker)
            # Whoever is told of the end finds it done.
            assert process_start(int(away.read_text())) is None


CLEARING = "import os,sys; os.execve(sys.executable, [sys.executable, '-c', sys.argv[1]], {})"
# As programs do that show a title of their own in `ps`.
OVERWRITING = (
    "import ctypes, sys; f = open('/proc/self/stat').read().rpartition(')')[2].split();"
    "ctypes.memset(int(f[47]), 0, int(f[48]) - int(f[47])); exec(sys.argv[1])"
)


@pytest.mark.parametrize("hiding", [CLEARING, OVERWRITING])
async def test_only_what_hides_its_environment_evades_once_its_keeper_was_killed(
    tmp_path: Path, hiding: str
) -> None:
    """Without a control group this is the one way; with a living keeper it is none."""
    away = tmp_path / "away"
    program = (
        "import os,subprocess,sys\n"
        'print(\'{"type":"UP"}\', flush=True)\n'
        f"sleep = {SLEEPING[2]!r}\n"
        f"argv = [sys.executable, '-c', {hiding!r}, sleep]\n"
        "a = subprocess.Popen(argv, start_new_session=True)\n"
        "b = subprocess.Popen([sys.executable, '-c', sleep], start_new_session=True)\n"
        f"open({str(away)!r}, 'w').write(f'{{a.pid}} {{b.pid}}')\n"
        'print(\'{"type":"UP"}\', flush=True)\n'
        "sys.stdin.read()\n"
    )
    home = home_mark(tmp_path / "keepers")
    launch = a_launcher(tmp_path / "keepers", (sys.executable, "-c", program))
    thread = ThreadKey(str(tmp_path), ConversationId("c"))
    with anyio.fail_after(180):
        async with launch(thread, ThreadOptions(), "t") as worker:
            await next_lines(worker, 2)
            hidden, marked = (int(pid) for pid in away.read_text().split())
            wait_until(lambda: not Path(f"/proc/{hidden}/environ").read_bytes().strip(b"\0"))
            (keeper,) = (p for p in marked_processes(home) if p.mark.role is Role.KEEPER)
            keeper.end()
            await all_lines(worker)
            assert worker.is_lost
    Sweeper(home, os.getpid()).sweep()
    try:
        wait_until(lambda: process_start(marked) is None)
        wait_until(lambda: not list(marked_processes(home)))
        assert process_start(hidden) is not None
    finally:
        os.kill(hidden, signal.SIGKILL)


def test_a_mark_is_found_behind_the_largest_environment(tmp_path: Path) -> None:
    home = home_mark(tmp_path)
    large = {f"V{number}": "x" * 120_000 for number in range(12)}
    mark = str(Mark(home, Role.WORKER, "a" * 32))
    process = subprocess.Popen(SLEEPING, env=large | {VARIABLE: mark})
    try:
        wait_until(lambda: [p.pid for p in marked_processes(home)] == [process.pid])
    finally:
        process.kill()
        process.wait()


def test_out_of_descriptors_nobody_is_taken_for_ownerless(tmp_path: Path) -> None:
    """A keeper that could not be looked at would leave its worker without an owner."""
    program = (
        "import os, resource, sys\n"
        "from sessions.infrastructure.sweep import Sweeper\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), 4096))\n"
        "print(Sweeper('a' * 12, os.getpid()).sweep())\n"
    )
    # With three nothing can be listed, with four something can, and each process is one more.
    for limit in ("3", "4"):
        said = subprocess.run(
            [sys.executable, "-c", program, limit], capture_output=True, text=True, check=True
        )
        assert ("sweep_put_off" in said.stdout, said.stdout.splitlines()[-1]) == (limit == "3", "0")


def test_a_home_has_one_mark_by_whatever_path_it_is_reached(tmp_path: Path) -> None:
    """Else whoever comes by another path would not see whose workers run there."""
    (tmp_path / "link").symlink_to(tmp_path / "home")
    (tmp_path / "home").mkdir()
    assert home_mark(tmp_path / "link") == home_mark(tmp_path / "home")
    assert home_mark(tmp_path / "home/../home") == home_mark(tmp_path / "home")


def test_a_pid_that_was_used_again_is_not_hit(tmp_path: Path) -> None:
    home = home_mark(tmp_path)
    mark = Mark(home, Role.WORKER, "a" * 32)
    process = subprocess.Popen(SLEEPING, env={VARIABLE: str(mark)})
    try:
        wait_until(lambda: bool(list(marked_processes(home))))
        (found,) = marked_processes(home)
        earlier = Marked(found.pid, str(int(found.start) - 1), found.parent, mark)
        assert not earlier.end()
        other = Marked(found.pid, found.start, found.parent, Mark(home, Role.WORKER, "b" * 32))
        assert not other.end()
        assert process.poll() is None
        assert found.end()
        assert process.wait(120) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait(120)


@pytest.mark.parametrize(
    ("role", "keeper", "is_ended"),
    [
        (Role.WORKER, "a", False),  # its keeper lives
        (Role.WORKER, "b", True),
        (Role.KEEPER, "b", False),
        (Role.PAD, "0", True),
    ],
)
def test_who_is_without_an_owner(role: Role, keeper: str, is_ended: bool) -> None:
    living = Marked(1, "1", 0, Mark("h", Role.KEEPER, "a"))
    process = Marked(2, "1", 99, Mark("h", role, keeper))
    assert (process in ownerless([living, process], own_pad=3)) is is_ended


def test_our_own_pad_and_what_it_has_just_forked_are_let_be() -> None:
    pad = Marked(3, "1", 2, Mark("h", Role.PAD, "0"))
    forked = Marked(4, "1", 3, Mark("h", Role.PAD, "0"))
    assert ownerless([pad, forked], own_pad=3) == []


async def test_where_no_descriptor_can_be_left_a_worker_ends_with_its_daemon(
    tmp_path: Path,
) -> None:
    """The run folder is a file: nobody could find the keeper again, so it must not go on alone."""
    (tmp_path / "keepers").write_text("")
    launch = a_launcher(tmp_path / "keepers", (sys.executable, SCRIPTED, "echo"))
    thread = ThreadKey(str(tmp_path), ConversationId("c"))
    with anyio.fail_after(180):
        launch.leaves_workers = True
        async with launch(thread, ThreadOptions(), "t") as worker:
            worker.send(b"x")
            assert await next_lines(worker)
            pid = worker.pid
        await anyio.to_thread.run_sync(wait_until, lambda: process_start(pid) is None)


async def test_lost_files_are_left_anew_on_request(tmp_path: Path) -> None:
    folder = tmp_path / "keepers"
    launch = a_launcher(folder, (sys.executable, SCRIPTED, "echo"))
    thread = ThreadKey(str(tmp_path), ConversationId("c"))
    with anyio.fail_after(180):
        async with launch(thread, ThreadOptions(), "t"):
            (keeper,) = (
                p for p in marked_processes(home_mark(folder)) if p.mark.role is Role.KEEPER
            )
            for file in list(folder.iterdir()):
                file.unlink()
            keeper.end(signal.SIGHUP)
            file = folder / f"{keeper.mark.keeper}.json"
            await anyio.to_thread.run_sync(wait_until, lambda: read_descriptor(file) is not None)


def _written(file: Path) -> bool:
    return file.exists() and file.read_text().endswith("\n")
