"""Real keepers without a daemon, and who takes them over: what is broken, and who races."""

import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from sessions.domain.kept import Note, encode_note
from sessions.domain.keys import ConversationId, ThreadKey, ThreadOptions
from sessions.infrastructure.file_spool import FileSpool
from sessions.infrastructure.keeper_launcher import KeeperLauncher
from sessions.infrastructure.launch_pad import LaunchPad
from sessions.infrastructure.marks import home_mark, marked_processes, process_start, stat_fields
from sessions.infrastructure.survivors import KeeperSurvivors
from tests.support.keepers import ENVIRON, SCRIPTED_PAD, a_launcher, a_pad, wait_until

SCRIPTED = str(Path(__file__).parents[1] / "support/workers/scripted.py")
ECHO = (sys.executable, SCRIPTED, "echo")


@pytest.fixture
def folder(tmp_path: Path) -> Generator[Path]:
    """Of the keepers, none of which outlives the test."""
    keepers = tmp_path / "keepers"
    yield keepers
    for process in marked_processes(home_mark(keepers)):
        process.end(signal.SIGKILL)
    wait_until(lambda: not list(marked_processes(home_mark(keepers))))


def survivors(launch: KeeperLauncher) -> KeeperSurvivors:
    return KeeperSurvivors(launch, launch.folder, launch.home)


async def a_worker_left_behind(launch: KeeperLauncher, project: Path) -> int:
    """Launch one, and go away as a daemon that leaves its workers does. Returns its pid."""
    launch.leaves_workers = True
    thread = ThreadKey(str(project), ConversationId("c"))
    async with launch(thread, ThreadOptions(), "t") as worker:
        worker.remember(encode_note(Note(generation="g", token="t")))
        worker.send(b"x")
        await worker.__anext__()
        return worker.pid


async def test_of_two_daemons_that_race_for_a_worker_one_gets_it_and_the_other_lets_it_be(
    folder: Path, tmp_path: Path
) -> None:
    """The one that comes second once ended the keeper that the first had just taken over."""
    launch = a_launcher(folder, ECHO)
    with anyio.fail_after(30):
        pid = await a_worker_left_behind(launch, tmp_path)
        found: list[int] = []
        launch.leaves_workers = False

        async def take_over() -> None:
            taken = await survivors(launch)()
            found.append(len(taken))
            for survivor in taken:
                async with survivor.worker as worker:
                    while len(found) < 2:  # noqa: ASYNC110 (the other one's end is no event here)
                        await anyio.sleep(0.01)
                    worker.send(b"still there")
                    assert [b"still there" in line for line in await anext(aiter(worker))] == [True]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_over)
            tasks.start_soon(take_over)
        assert sorted(found) == [0, 1]
        assert process_start(pid) is None


@pytest.mark.parametrize("deleted", ["*.sock", "*.json", "*"])
async def test_a_keeper_whose_files_were_deleted_is_taken_over_all_the_same(
    folder: Path, tmp_path: Path, deleted: str
) -> None:
    """Whoever cleans up a run folder must not make anything unreachable."""
    launch = a_launcher(folder, ECHO)
    with anyio.fail_after(30):
        pid = await a_worker_left_behind(launch, tmp_path)
        for file in list(folder.glob(deleted)):
            file.unlink()
        (survivor,) = await survivors(launch)()
        assert survivor.kept.worker_pid == pid
        async with survivor.worker as worker:
            worker.send(b"y")
            assert await anext(aiter(worker))


async def test_a_pad_that_died_is_started_again_and_launches_go_on_meanwhile(
    folder: Path, tmp_path: Path
) -> None:
    """A pad is only ever a faster way: nobody may notice more than time."""
    home = home_mark(folder)
    pad = LaunchPad(argv=SCRIPTED_PAD, environ=ENVIRON, home=home)
    launch = a_launcher(folder, ECHO, pad)
    thread = ThreadKey(str(tmp_path), ConversationId("c"))

    async def a_launch() -> None:
        async with launch(thread, ThreadOptions(), "t") as worker:
            worker.send(b"x")
            assert await worker.__anext__()

    async def a_warm_pad(other_than: int | None) -> int:
        while not pad.is_warm or pad.pid in (None, other_than):  # noqa: ASYNC110 (as it warms up)
            await anyio.sleep(0.01)
        assert pad.pid is not None
        return pad.pid

    with anyio.fail_after(60):
        async with pad.serving():
            await a_launch()
            first = await a_warm_pad(None)
            await a_launch()
            os.kill(first, signal.SIGKILL)
            await a_launch()
            await a_warm_pad(first)
            await a_launch()


async def test_a_spool_without_a_place_holds_the_worker_up_and_loses_nothing(
    folder: Path, tmp_path: Path
) -> None:
    """A full disk counts as a full spool: then the worker waits, as for any slow reader."""
    lines = 200_000
    program = (
        "import sys; sys.stdin.readline()\n"
        f'for n in range({lines}): print(f\'{{{{"n":{{n}},"x":"{"x" * 40}"}}}}\')\n'
        "sys.stdout.flush(); sys.stdin.read()\n"
    )
    launch = a_launcher(folder, (sys.executable, "-c", program))
    thread = ThreadKey(str(tmp_path), ConversationId("c"))
    with anyio.fail_after(60):
        async with launch(thread, ThreadOptions(), "t") as worker:
            shutil.rmtree(folder)
            worker.send(b"go")
            await anyio.to_thread.run_sync(wait_until, lambda: _is_held_up(worker.pid))
            seen = 0
            async for batch in worker:
                for line in batch:
                    assert line.startswith(b'{"n":%d,' % seen)
                    seen += 1
                if seen == lines:
                    break


def test_a_spool_on_a_disk_that_fills_up_keeps_all_of_a_piece_or_nothing(tmp_path: Path) -> None:
    """The kernel writes what still fits before it says no: that part must not come back."""
    spool = FileSpool(tmp_path, max_bytes=10_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        spool.append(b"a" * 600)
        with pytest.raises(OSError, match="too large"):
            spool.append(b"b" * 600)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    spool.append(b"c" * 600)
    assert spool.take() == b"a" * 600 + b"c" * 600


@pytest.mark.parametrize("is_forked", [True, False])
async def test_odd_folders_and_variables_that_are_no_text(tmp_path: Path, is_forked: bool) -> None:
    """Longer than a socket's address may be, with spaces and other scripts, and a Latin-1 value."""
    odd = tmp_path / ("x" * 100) / "mit Leerzeichen" / "ünï→日本"
    odd.mkdir(parents=True)
    with a_pad((*SCRIPTED_PAD, "environment")) if is_forked else nullcontext() as pad:
        launch = a_launcher(odd / "keepers", (*ECHO[:2], "environment"), pad)
        launch.environ = {**ENVIRON, "ODD": os.fsdecode(b"\xff")}
        thread = ThreadKey(str(odd), ConversationId("c"))
        with anyio.fail_after(30):
            async with launch(thread, ThreadOptions(), "t") as worker:
                (line,) = await worker.__anext__()
                assert list((odd / "keepers").glob("*.sock"))
    said = json.loads(line)
    assert (said["cwd"], os.fsencode(said["env"]["ODD"])) == (str(odd), b"\xff")


def _is_held_up(pid: int) -> bool:
    """It sleeps, and has written more than a keeper holds in memory."""
    folder = Path(f"/proc/{pid}")
    written = int((folder / "io").read_text().partition("wchar: ")[2].split()[0])
    return stat_fields(folder)[0] == b"S" and written > 4 * 2**20
