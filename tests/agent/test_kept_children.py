"""Subagents as processes of our own: their leash, their lines, and that nothing is left of them."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import msgspec
import pytest

from agent.domain.lineage import ChildThread, Lineage
from agent.domain.subagents import Broke, News
from agent.infrastructure.children.kept_children import KeptChildren
from agent.infrastructure.process import is_alive, process_start
from tests.agent.support.fakes import FakeLog
from tests.agent.support.worker_process import a_place, command, until

PATIENCE = 180

# Ignores what it is told, writes its pid and what the test wants, and outlives its stdin.
STUBBORN = """
import os, signal, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
open("pids", "w").write(f"{os.getpid()} {child.pid}")
sys.stdout.write(sys.argv[1].replace("MANY", "x" * 3000) + "\\n")
sys.stdout.flush()
sys.stdin.read()
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def anyio_backend() -> str:
    """Real processes: once is enough."""
    return "asyncio"


def thread(folder: Path) -> ChildThread:
    lineage = Lineage(parent="p", tools=["Read"])
    return ChildThread(
        conversation_id="subagent-p-1", project_dir=str(folder), label="one", lineage=lineage
    )


def alive(*pids: int) -> list[int]:
    return [pid for pid in pids if process_start(pid) is not None]


async def test_leaving_ends_the_process_and_all_that_it_started(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", STUBBORN, "", "0"]
    children = KeptChildren(argv, dict(os.environ), FakeLog())
    with anyio.fail_after(PATIENCE):
        async with children(thread(tmp_path), is_known=False):
            await until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text())
            pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
            assert len(alive(*pids)) == 2
        await until(lambda: not alive(*pids))


async def test_a_line_over_the_ceiling_ends_it(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", STUBBORN, "MANY", "0"]
    log = FakeLog()
    children = KeptChildren(argv, dict(os.environ), log, longest_line=2000)
    news: list[News] = []
    with anyio.fail_after(PATIENCE):
        async with children(thread(tmp_path), is_known=False) as link:
            news += [each async for each in link]
    assert isinstance(news[-1], Broke)
    assert "line" in news[-1].reason


async def test_what_is_no_report_is_counted_and_passed_by(tmp_path: Path) -> None:
    report = msgspec.json.encode({"type": "subagent_turn", "final_assistant": "hi", "done": True})
    said = 'nonsense\n{"type":"other"}\n' + report.decode()
    argv = [sys.executable, "-c", STUBBORN, said, "0"]
    log = FakeLog()
    children = KeptChildren(argv, dict(os.environ), log)
    with anyio.fail_after(PATIENCE):
        async with children(thread(tmp_path), is_known=False) as link:
            news = await anext(aiter(link))
    assert news.report.text == "hi"  # type: ignore[union-attr] # pyright: ignore
    assert log.names() == ["subagent_line_ignored"] * 2


def processes_with(mark: str) -> list[int]:
    """Those that carry the mark in their environment, us excepted."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                if mark.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are counted on Linux only")
async def test_nothing_is_left_of_a_parent_that_was_killed(tmp_path: Path) -> None:
    """It had no chance to end anything: its children notice by themselves."""
    mark = f"SUBAGENTS_OF={tmp_path}"
    place = a_place(tmp_path, SUBAGENTS_OF=str(tmp_path), ROOST_AGENT__MODE="auto")
    task = "delegate slow 1000 | run sleep 600"
    process = await anyio.open_process(
        command(task), cwd=place.project, env=place.environment(), start_new_session=True
    )
    try:
        # The parent, two children, and the command of one of them.
        await until(lambda: _has_slept(processes_with(mark)) and len(processes_with(mark)) >= 4)
        start = process_start(process.pid)
        process.kill()
        await process.wait()
        assert not is_alive(process.pid, start)
        await until(lambda: not processes_with(mark))
    finally:
        for pid in processes_with(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await process.aclose()


def _has_slept(pids: list[int]) -> bool:
    """The command of the child is there."""
    for pid in pids:
        try:
            if b"sleep\x00600" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return True
        except OSError:
            continue
    return False


async def test_one_task_waits_for_its_subagents_and_reads_their_notes(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    (place.project / "a.txt").write_text("hello\n")
    with anyio.fail_after(300):
        done = await anyio.run_process(
            command("delegate read a.txt | run echo x > made"),
            cwd=place.project,
            env=place.environment(),
            check=False,
        )
    text = done.stdout.decode()
    assert "[Subagent Completed: read a.txt]" in text
    assert done.returncode == 4, "one of them waits for a person"
    told = done.stderr.decode()
    assert "run echo x > made" in told
    assert "--session-id subagent-" in told
    assert not (place.project / "made").exists()
