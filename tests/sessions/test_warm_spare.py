"""A worker that is ready before it is wanted, for where none can be forked: real processes."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from sessions.domain.keys import ConversationId, ThreadKey, ThreadOptions
from sessions.domain.ports import LaunchFailed
from sessions.infrastructure.marks import process_start
from sessions.infrastructure.subprocess_worker import SubprocessLauncher
from sessions.infrastructure.warm_spare import WarmSpare
from tests.support.keepers import ENVIRON, SCRIPTED_SPARE, a_spare, spare_is_warm, wait_until
from tests.support.pumped import next_lines

SCRIPTED = str(Path(__file__).parents[1] / "support/workers/scripted.py")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def a_launcher(spare: WarmSpare, *words: str) -> SubprocessLauncher:
    argv = (sys.executable, SCRIPTED, *words)
    environ = {**ENVIRON, "ODD": os.fsdecode(b"\xff")}
    return SubprocessLauncher(argv=argv, environ=environ, spare=spare)


async def its_environment(launch: SubprocessLauncher, project: Path) -> tuple[int, dict[str, str]]:
    """What the worker is, and what it says it was started with."""
    thread = ThreadKey(str(project), ConversationId("c"))
    async with launch(thread, ThreadOptions(model="m"), "t") as worker:
        (line,) = await next_lines(worker)
        said = json.loads(line)
        assert said["cwd"] == str(project)
        assert said["argv"][-4:] == ["--session-id", "c", "--model", "m"]
        return worker.pid, said["env"]


async def test_a_spare_becomes_the_worker_and_the_next_one_warms_up(tmp_path: Path) -> None:
    """In its folder, with its arguments and its environment, and nothing of the spare's own."""
    odd = tmp_path / os.fsdecode(b"Latin-1 \xfc")
    odd.mkdir()
    with anyio.fail_after(180):
        async with a_spare(tmp_path, "environment") as spare:
            launch = a_launcher(spare, "environment")
            first = spare.pid
            pid, environ = await its_environment(launch, odd)
            assert pid == first
            assert os.fsencode(environ["ODD"]) == b"\xff"
            assert environ["ROOST_WORKER_TOKEN"] == "t"
            assert environ["PWD"] == str(odd)
            assert "LC_CTYPE" not in environ, "which its interpreter had set"
            await spare_is_warm(spare)
            assert spare.pid != first


async def test_without_a_warm_one_a_launch_starts_a_fresh_interpreter(tmp_path: Path) -> None:
    with anyio.fail_after(180):
        async with a_spare(tmp_path, "environment") as spare:
            launch = a_launcher(spare, "environment")
            pids = {(await its_environment(launch, tmp_path))[0] for _ in range(2)}
            assert len(pids) == 2


async def test_a_spare_that_was_killed_is_not_taken_and_another_warms_up(tmp_path: Path) -> None:
    with anyio.fail_after(180):
        async with a_spare(tmp_path, "environment") as spare:
            killed = spare.pid
            assert killed is not None
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda: process_start(killed) is None)
            pid, _ = await its_environment(a_launcher(spare, "environment"), tmp_path)
            assert pid != killed
            while spare.pid in (None, killed):  # noqa: ASYNC110 (it rests first)
                await anyio.sleep(0.01)


async def test_a_spare_of_yesterdays_code_becomes_a_fresh_interpreter(tmp_path: Path) -> None:
    """It would run what is no longer there, with settings that nobody wants any more."""
    watched = tmp_path / "config.yaml"
    watched.write_text("a")
    with anyio.fail_after(180):
        async with a_spare(watched, "environment") as spare:
            watched.write_text("another")
            first = spare.pid
            pid, environ = await its_environment(a_launcher(spare, "environment"), tmp_path)
            assert pid == first, "in the same process, behind the same pipes"
            assert "LC_CTYPE" in environ, "as any interpreter that was just started sets it"


async def test_a_folder_that_is_not_there_costs_no_spare(tmp_path: Path) -> None:
    with anyio.fail_after(180):
        async with a_spare(tmp_path, "echo") as spare:
            thread = ThreadKey(str(tmp_path / "nowhere"), ConversationId("c"))
            with pytest.raises(LaunchFailed, match="does not exist"):
                async with a_launcher(spare, "echo")(thread, ThreadOptions(), "t"):
                    raise NotImplementedError
            assert spare.is_warm


async def test_a_spare_ends_with_the_block(tmp_path: Path) -> None:
    with anyio.fail_after(180):
        async with a_spare(tmp_path, "echo") as spare:
            pid = spare.pid
            assert pid is not None
        assert process_start(pid) is None


def test_a_spare_ends_with_its_daemon(tmp_path: Path) -> None:
    """However that ended: its stdin is all that holds the spare."""
    process = subprocess.Popen(
        [*SCRIPTED_SPARE, str(tmp_path), "echo"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRON,
    )
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, b"R\n")


async def test_a_spare_that_can_not_be_started_ends_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A daemon that is out of descriptors has to stay: what it serves goes on."""
    tried = anyio.Event()

    def full() -> tuple[int, int]:
        tried.set()
        raise OSError(errno.EMFILE, "Too many open files")

    spare = WarmSpare(argv=(sys.executable, "-c", ""), environ=ENVIRON)
    with anyio.fail_after(180):
        async with spare.serving():
            monkeypatch.setattr(os, "pipe", full)
            assert spare.take() is None
            await tried.wait()
            await anyio.wait_all_tasks_blocked()
            assert not spare.is_warm
            monkeypatch.undo()
