"""A control group for each thread, against a fake hierarchy: plain files where the kernel has its.

A fake kills nobody and lets no folder be removed that has files in it; what is held here is who is
put where, with which limits, and who is to be killed. That joining and killing do what they say is
held against the kernel, where it lets us.
"""

import json
import os
import sys
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from roost.daemon.launching import control_groups
from roost.settings import WorkerSection
from sessions.domain.keys import ConversationId, ThreadKey, ThreadOptions
from sessions.domain.ports import LaunchFailed
from sessions.infrastructure.control_groups import ControlGroup, ControlGroups
from sessions.infrastructure.launch_pad import LaunchPad
from sessions.infrastructure.marks import (
    Mark,
    Marked,
    Role,
    home_mark,
    marked_processes,
    process_start,
)
from sessions.infrastructure.sweep import Sweeper
from tests.support.keepers import a_launcher, a_pad, wait_until
from tests.support.pumped import all_lines, next_lines

SCRIPTED = str(Path(__file__).parents[1] / "support/workers/scripted.py")
ECHO = (sys.executable, SCRIPTED, "echo")


def a_hierarchy(folder: Path) -> Path:
    """A delegated folder, as far as a fake can be one."""
    folder.mkdir(exist_ok=True)
    (folder / "cgroup.controllers").write_text("memory pids\n")
    return folder


async def a_worker_in_a_group(folder: Path, pad: LaunchPad | None) -> None:
    delegated = a_hierarchy(folder / "delegated")
    launch = a_launcher(folder / "keepers", ECHO, pad)
    home = home_mark(folder / "keepers")
    launch.groups = ControlGroups(delegated, home, memory=2**30, processes=64)
    thread = ThreadKey(str(folder), ConversationId("c"))
    with anyio.fail_after(180):
        async with launch(thread, ThreadOptions(), "t") as worker:
            worker.send(b"x")
            assert await next_lines(worker)
            ((keeper, group),) = launch.groups.found()
            assert (folder / "keepers" / f"{keeper}.json").exists()
            assert (delegated / "cgroup.subtree_control").read_text() == "+memory +pids"
            said = {file.name: file.read_text() for file in group.folder.iterdir()}
            assert said == {
                "memory.max": str(2**30),
                "pids.max": "64",
                "cgroup.procs": str(worker.pid),
            }
            (group.folder / "cgroup.kill").touch()
            worker.stop(5.0)
            await all_lines(worker)
    assert (group.folder / "cgroup.kill").read_text() == "1"


async def test_a_command_is_in_its_group_from_its_start_and_killed_with_it(tmp_path: Path) -> None:
    await a_worker_in_a_group(tmp_path, None)


async def test_a_fork_is_in_its_group_from_its_start_and_killed_with_it(tmp_path: Path) -> None:
    with a_pad() as pad:
        await a_worker_in_a_group(tmp_path, pad)


def a_real_hierarchy() -> Path | None:
    """A folder of the kernel's own, where one can be made. Its controllers may be elsewhere."""
    for mounted in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        if (mounted / "cgroup.controllers").exists():
            folder = mounted / f"roost-test-{os.getpid()}"
            with suppress(OSError):
                folder.mkdir()
                return folder
    return None


@pytest.fixture
def delegated() -> Generator[Path]:
    folder = a_real_hierarchy()
    if folder is None:
        pytest.skip("no control group can be made here")
    yield folder
    assert ControlGroup(folder).remove(60.0)


async def test_the_kernel_ends_with_a_group_what_evades_all_else(
    delegated: Path, tmp_path: Path
) -> None:
    """It cleared its environment, and its keeper was killed: no mark and no parent lead to it."""
    program = (
        "import subprocess, sys\n"
        "argv = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "child = subprocess.Popen(argv, start_new_session=True, env={})\n"
        "print('{\"pid\":%d}' % child.pid, flush=True); sys.stdin.read()\n"
    )
    launch = a_launcher(tmp_path / "keepers", (sys.executable, "-c", program))
    launch.groups = ControlGroups(delegated, launch.home)
    thread = ThreadKey(str(tmp_path), ConversationId("c"))
    with anyio.fail_after(180):
        async with launch(thread, ThreadOptions(), "t") as worker:
            (line,) = await next_lines(worker)
            evading = json.loads(line)["pid"]
            (keeper,) = (p for p in marked_processes(launch.home) if p.mark.role is Role.KEEPER)
            keeper.end()
            await all_lines(worker)
        assert process_start(evading) is not None
        sweeper = Sweeper(launch.home, os.getpid(), groups=launch.groups)
        sweeper.sweep()
        await anyio.to_thread.run_sync(wait_until, lambda: process_start(evading) is None)
        # What was killed may take its time to go; the next sweep removes its group.
        sweeper.sweep()
    assert not list(launch.groups.found())


async def test_a_group_that_cannot_be_made_is_a_launch_that_failed(tmp_path: Path) -> None:
    """Whoever sets a limit must not get a worker without one: here the folder is just a folder."""
    launch = a_launcher(tmp_path / "keepers", ECHO)
    launch.groups = ControlGroups(tmp_path, "h", memory=2**30)
    thread = ThreadKey(str(tmp_path), ConversationId("c"))
    with (
        anyio.fail_after(180),
        pytest.raises(LaunchFailed, match=r"control group .* can't be made"),
    ):
        async with launch(thread, ThreadOptions(), "t"):
            raise NotImplementedError


def test_a_group_without_limits_asks_for_no_controllers(tmp_path: Path) -> None:
    folder = a_hierarchy(tmp_path / "delegated")
    group = ControlGroup(folder / "g")
    group.make(None, None)
    assert not (folder / "cgroup.subtree_control").exists()
    (group.folder / "made/inside").mkdir(parents=True)
    assert group.remove(0.0)
    assert not group.folder.exists()
    assert group.remove(0.0)


def test_a_limit_asks_for_its_own_controller_only(tmp_path: Path) -> None:
    """The other one may not be delegated."""
    folder = a_hierarchy(tmp_path / "delegated")
    ControlGroup(folder / "g").make(None, 5)
    assert (folder / "cgroup.subtree_control").read_text() == "+pids"


def test_the_sweep_kills_the_groups_of_dead_keepers_and_no_others(tmp_path: Path) -> None:
    """What dropped its environment and outlived its keeper is found this way only."""
    folder = a_hierarchy(tmp_path)
    groups = ControlGroups(folder, "h")
    for group in (groups.of("dead"), groups.of("alive"), ControlGroups(folder, "x").of("dead")):
        group.make(None, None)
        (group.folder / "cgroup.kill").touch()
    keeper = Marked(1, "1", 0, Mark("h", Role.KEEPER, "alive"))
    Sweeper("h", 0, groups=groups, look=lambda home: [keeper]).sweep()
    killed = [f.parent.name for f in tmp_path.glob("*/cgroup.kill") if f.read_text() == "1"]
    assert killed == ["roost-h-dead"]


def test_the_settings_say_where_groups_are_and_what_they_are_held_to(tmp_path: Path) -> None:
    worker = WorkerSection(control_group=str(tmp_path), memory_limit=5, process_limit=6)
    assert control_groups(worker, "h") == ControlGroups(tmp_path, "h", 5, 6)
    assert control_groups(WorkerSection(), "h") is None
