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
from structlog.testing import capture_logs

from sessions.domain.kept import Note, encode_note
from sessions.domain.keys import ConversationId, ThreadKey, ThreadOptions
from sessions.domain.settings import RegistrySettings
from sessions.infrastructure.file_spool import FileSpool
from sessions.infrastructure.keeper_files import KeeperFiles, read_outcome
from sessions.infrastructure.keeper_launcher import KeeperLauncher
from sessions.infrastructure.launch_pad import LaunchPad
from sessions.infrastructure.marks import (
    Marked,
    Role,
    home_mark,
    marked_processes,
    process_start,
    stat_fields,
)
from sessions.infrastructure.survivors import KeeperSurvivors
from sessions.infrastructure.sweep import Sweeper
from tests.support.keepers import ENVIRON, SCRIPTED_PAD, a_launcher, a_pad, wait_until
from tests.support.pumped import all_lines, next_lines

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


async def a_worker_left_behind(launch: KeeperLauncher, project: Path, then: bytes = b"") -> int:
    """Launch one, and go away as a daemon that leaves its workers does. Returns its pid."""
    launch.leaves_workers = True
    thread = ThreadKey(str(project), ConversationId("c"))
    async with launch(thread, ThreadOptions(), "t") as worker:
        worker.remember(encode_note(Note(generation="g", token="t")), None)
        worker.send(b"x")
        await next_lines(worker)
        if then:
            worker.send(then)
            await anyio.wait_all_tasks_blocked()
        return worker.pid


async def test_of_two_daemons_that_race_for_a_worker_one_gets_it_and_the_other_lets_it_be(
    folder: Path, tmp_path: Path
) -> None:
    """The one that comes second once ended the keeper that the first had just taken over."""
    launch = a_launcher(folder, ECHO)
    with anyio.fail_after(180):
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
                    assert [b"still there" in line for line in await next_lines(worker)] == [True]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_over)
            tasks.start_soon(take_over)
        assert sorted(found) == [0, 1]
        await anyio.to_thread.run_sync(wait_until, lambda: process_start(pid) is None)


@pytest.mark.parametrize("deleted", ["*.sock", "*.json", "*"])
async def test_a_keeper_whose_files_were_deleted_is_taken_over_all_the_same(
    folder: Path, tmp_path: Path, deleted: str
) -> None:
    """Whoever cleans up a run folder must not make anything unreachable."""
    launch = a_launcher(folder, ECHO)
    with anyio.fail_after(180):
        pid = await a_worker_left_behind(launch, tmp_path)
        for file in list(folder.glob(deleted)):
            file.unlink()
        (survivor,) = await survivors(launch)()
        assert survivor.kept.worker_pid == pid
        async with survivor.worker as worker:
            worker.send(b"y")
            assert await next_lines(worker)


@pytest.mark.parametrize("changed", ["start", "socket"])
async def test_a_keeper_whose_files_lead_to_somebody_else_is_taken_over_all_the_same(
    folder: Path, tmp_path: Path, changed: str
) -> None:
    launch = a_launcher(folder, ECHO)
    with anyio.fail_after(180):
        await a_worker_left_behind(launch, tmp_path)
        (file,) = folder.glob("*.json")
        if changed == "start":
            file.write_text(json.dumps(json.loads(file.read_text()) | {"process_start": "1"}))
        else:
            file.with_suffix(".sock").unlink()
            file.with_suffix(".sock").touch()
        (survivor,) = await survivors(launch)()
        launch.leaves_workers = False
        async with survivor.worker as worker:
            worker.send(b"y")
            assert await next_lines(worker)


async def test_files_lead_to_the_keeper_that_left_them_and_to_nobody_else(
    folder: Path, tmp_path: Path
) -> None:
    """A pid is given away again, so that it names nobody without the start."""
    launch = a_launcher(folder, ECHO)
    with anyio.fail_after(180):
        async with launch(ThreadKey(str(tmp_path), ConversationId("c")), ThreadOptions(), "t"):
            (keeper,) = keepers_of(folder)
            files = KeeperFiles(folder, keeper.mark.keeper)
            assert files.lead_to(keeper.pid, keeper.start)
            assert not files.lead_to(keeper.pid, "1")
            assert not files.lead_to(os.getpid(), keeper.start)
            files.address.unlink()
            assert not files.lead_to(keeper.pid, keeper.start)


async def test_a_keeper_that_can_not_leave_its_files_anew_ends_its_worker(
    folder: Path, tmp_path: Path
) -> None:
    """Nobody could find it, and its worker would go on unseen."""
    launch = a_launcher(folder, ECHO)
    with anyio.fail_after(180):
        await a_worker_left_behind(launch, tmp_path)
        shutil.rmtree(folder)
        folder.touch()
        assert await survivors(launch)() == []
        await anyio.to_thread.run_sync(wait_until, lambda: not keepers_of(folder))


async def test_a_worker_that_no_registry_knows_ends_when_its_launch_is_given_up(
    folder: Path, tmp_path: Path
) -> None:
    """Without a note no other daemon would take it over."""
    launch = a_launcher(folder, ECHO)
    launch.leaves_workers = True
    with anyio.fail_after(180):
        async with launch(ThreadKey(str(tmp_path), ConversationId("c")), ThreadOptions(), "t"):
            assert keepers_of(folder)
        await anyio.to_thread.run_sync(wait_until, lambda: not keepers_of(folder))


async def test_a_pad_that_is_halted_is_replaced_and_the_launch_does_without(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions.infrastructure.keeper_launcher._FORK_TIMEOUT", 0.1)
    program = (
        "import os, signal, socket, sys\n"
        "requests = socket.socket(fileno=int(sys.argv[1]))\n"
        "requests.sendall(b'R')\n"
        "os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    pad = LaunchPad(argv=(sys.executable, "-c", program), environ=ENVIRON, home=home_mark(folder))
    launch = a_launcher(folder, ECHO, pad)

    async def a_launch() -> None:
        async with launch(
            ThreadKey(str(tmp_path), ConversationId("c")), ThreadOptions(), "t"
        ) as worker:
            worker.send(b"x")
            assert await next_lines(worker)

    with anyio.fail_after(180):
        async with pad.serving():
            await a_launch()
            while not pad.is_warm:  # noqa: ASYNC110 (another process: there is no event)
                await anyio.sleep(0.01)
            first = pad.pid
            await a_launch()
            while pad.pid in (None, first):  # noqa: ASYNC110 (as above)
                await anyio.sleep(0.01)
    assert not list(marked_processes(home_mark(folder)))


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
            assert await next_lines(worker)

    async def a_warm_pad(other_than: int | None) -> int:
        while not pad.is_warm or pad.pid in (None, other_than):  # noqa: ASYNC110 (as it warms up)
            await anyio.sleep(0.01)
        assert pad.pid is not None
        return pad.pid

    with anyio.fail_after(180):
        async with pad.serving():
            await a_launch()
            first = await a_warm_pad(None)
            await a_launch()
            os.kill(first, signal.SIGKILL)
            await a_launch()
            await a_warm_pad(first)
            await a_launch()


@pytest.mark.parametrize("has_place", [True, False])
async def test_what_a_slow_daemon_does_not_read_is_spooled_or_holds_the_worker_up(
    folder: Path, tmp_path: Path, has_place: bool
) -> None:
    """A full disk counts as a full spool: then the worker waits, as for any slow reader.

    Nothing is lost either way, and nothing is left of the spool.
    """
    lines = 200_000
    program = (
        "import sys; sys.stdin.readline()\n"
        f'for n in range({lines}): print(f\'{{{{"n":{{n}},"x":"{"x" * 40}"}}}}\')\n'
        "sys.stdout.flush(); sys.stdin.read()\n"
    )
    launch = a_launcher(folder, (sys.executable, "-c", program))
    thread = ThreadKey(str(tmp_path), ConversationId("c"))
    with anyio.fail_after(180):
        async with launch(thread, ThreadOptions(), "t") as worker:
            if not has_place:
                shutil.rmtree(folder)
            worker.send(b"go")

            def is_so() -> bool:
                if has_place:
                    return _has_written(worker.pid, lines * 50)
                return _is_held_up(worker.pid)

            await anyio.to_thread.run_sync(wait_until, is_so)
            assert {file.suffix for file in folder.glob("*")} <= {".json", ".sock"}
            said = await next_lines(worker, lines)
            for number, line in enumerate(said):
                assert line.startswith(b'{"n":%d,' % number)
            assert len(said) == lines


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
    """Longer than a socket's address may be, with spaces, other scripts and what is no text."""
    odd = tmp_path / ("x" * 100) / "mit Leerzeichen" / "ünï→日本" / os.fsdecode(b"Latin-1 \xfc")
    odd.mkdir(parents=True)
    with a_pad((*SCRIPTED_PAD, "environment")) if is_forked else nullcontext() as pad:
        launch = a_launcher(odd / "keepers", (*ECHO[:2], "environment"), pad)
        launch.environ = {**ENVIRON, "ODD": os.fsdecode(b"\xff")}
        thread = ThreadKey(str(odd), ConversationId("c"))
        with anyio.fail_after(180), capture_logs() as logs:
            async with launch(thread, ThreadOptions(), "t") as worker:
                (line,) = await next_lines(worker)
    assert "worker_ends_with_daemon" not in [entry["event"] for entry in logs], "it has a socket"
    said = json.loads(line)
    assert (said["cwd"], os.fsencode(said["env"]["ODD"])) == (str(odd), b"\xff")


async def test_a_halted_keeper_is_set_going_and_taken_over(folder: Path, tmp_path: Path) -> None:
    """A daemon must not wait for it, nor give up its worker. Its files are gone, too."""
    launch = a_launcher(folder, ECHO)
    with anyio.fail_after(180):
        pid = await a_worker_left_behind(launch, tmp_path)
        (keeper,) = keepers_of(folder)
        keeper.end(signal.SIGSTOP)
        await anyio.to_thread.run_sync(wait_until, lambda: keepers_of(folder)[0].is_halted)
        for file in list(folder.iterdir()):
            file.unlink()
        (survivor,) = await survivors(launch)()
        assert survivor.kept.worker_pid == pid
        launch.leaves_workers = False
        async with survivor.worker:
            pass


async def test_a_keeper_that_does_not_heed_a_stop_is_ended_and_its_worker_swept(
    folder: Path, tmp_path: Path
) -> None:
    """A halted keeper once kept its thread "stopping", and whoever opened it waiting, for ever."""
    launch = a_launcher(folder, ECHO)
    launch.overdue = 0.1
    sweeper = Sweeper(launch.home, os.getpid())
    launch.keeper_lost = sweeper.ask
    thread = ThreadKey(str(tmp_path), ConversationId("c"))
    with anyio.fail_after(180):
        async with sweeper.serving():
            async with launch(thread, ThreadOptions(), "t") as worker:
                (keeper,) = keepers_of(folder)
                keeper.end(signal.SIGSTOP)
                worker.stop(0.0)
                await all_lines(worker)
                assert worker.exit_reason() == "was lost: its keeper ended"
            await anyio.to_thread.run_sync(wait_until, lambda: process_start(worker.pid) is None)


async def test_a_worker_that_ended_without_a_daemon_leaves_word_of_its_end(
    folder: Path, tmp_path: Path
) -> None:
    launch = a_launcher(folder, ECHO)
    with anyio.fail_after(180):
        pid = await a_worker_left_behind(launch, tmp_path)
        os.kill(pid, signal.SIGKILL)
        await anyio.to_thread.run_sync(wait_until, lambda: not keepers_of(folder))
        assert [file.suffix for file in folder.iterdir()] == [".outcome"]
        with capture_logs() as logs:
            assert await survivors(launch)() == []
    (told,) = (entry for entry in logs if entry["event"] == "worker_ended_without_daemon")
    assert (told["conversation_id"], told["reason"]) == ("c", "was killed by SIGKILL")
    assert list(folder.iterdir()) == []


async def test_a_keeper_alone_ends_its_idle_worker_and_says_why(
    folder: Path, tmp_path: Path
) -> None:
    settings = RegistrySettings(announces_ready=False, idle_timeout=0.2)
    launch = a_launcher(folder, ECHO, settings=settings)
    with anyio.fail_after(180):
        pid = await a_worker_left_behind(launch, tmp_path)
        await anyio.to_thread.run_sync(wait_until, lambda: not keepers_of(folder))
    assert process_start(pid) is None
    (outcome,) = map(read_outcome, folder.iterdir())
    assert outcome is not None
    assert outcome.reason == "was stopped, because nobody needed it and no daemon ran"


@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_flood_is_counted_and_costs_no_memory(
    folder: Path, tmp_path: Path, is_alone: bool
) -> None:
    """A run goes on without a daemon, however much it says: what counts is kept, the rest is not.

    A line's number is its place in all that was written, also when nobody was there.
    """
    lines = 300_000
    program = (
        "import sys; sys.stdin.readline(); print('{}', flush=True)\n"
        'line = b\'{"type":"TEXT_MESSAGE_CONTENT","delta":"\' + b\'x\' * 160 + b\'"}\\n\'\n'
        "sys.stdin.readline()\n"
        f"for _ in range({lines // 1000}): sys.stdout.buffer.write(line * 1000)\n"
        "sys.stdout.flush(); sys.stdin.read()\n"
    )
    launch = a_launcher(folder, (sys.executable, "-c", program))
    with anyio.fail_after(180):
        pid = await a_worker_left_behind(launch, tmp_path, then=b"go" if is_alone else b"")
        (keeper,) = keepers_of(folder)
        if not is_alone:
            (survivor,) = await survivors(launch)()
            async with survivor.worker as worker:
                worker.send(b"go")
                assert len(await next_lines(worker, lines)) == lines
        await anyio.to_thread.run_sync(wait_until, lambda: _has_written(pid, lines * 200))
        await anyio.to_thread.run_sync(wait_until, lambda: _sleeps(keeper.pid))
        most = int(_status(keeper.pid, "VmHWM").split()[0])
        assert most < 64 * 1024, f"{most} KiB"
        (survivor,) = await survivors(launch)()
        kept = survivor.kept
        assert kept.sequence == lines + 1
        assert [number for number, _ in kept.ring] == list(
            range(kept.ring_begins_after + 1, lines + 2)
        )
        launch.leaves_workers = False
        async with survivor.worker:
            pass


async def test_files_that_are_no_descriptors_keep_nobody_from_what_is(
    folder: Path, tmp_path: Path
) -> None:
    """The folder may hold anything: of an older version, of a broken disk, of a joker."""
    launch = a_launcher(folder, ECHO)
    with anyio.fail_after(180):
        await a_worker_left_behind(launch, tmp_path)
        (real,) = folder.glob("*.json")
        said = json.loads(real.read_text())
        for number, content in enumerate(
            ("", "{", "[]", "[" * 5000, "null", '{"pid": 1}', "\xff", "x" * 200_000)
        ):
            (folder / f"{number}.json").write_bytes(content.encode("latin-1"))
        wrong = {"a": {"pid": "7"}, "b": {"pid": 1}, "c": {"socket": None}, "d": {"keeper": "e"}}
        # One of a process that is somebody else's by now, and one whose keeper never was.
        wrong |= {"f": {"process_start": "1"}, "g": {}}
        for name, fields in wrong.items():
            content = json.dumps(said | {"keeper": name} | fields)
            (folder / f"{name}.json").write_text(content)
        os.mkfifo(folder / "fifo.json")
        (folder / f".{'a' * 32}.json.1").write_text("{")
        (folder / "old.sock").touch()
        (folder / "broken.outcome").write_text("{")
        odd = [folder / f"odd{suffix}" for suffix in (".json", ".outcome", ".sock")]
        for path in odd:
            path.mkdir()
        (survivor,) = await survivors(launch)()
        assert sorted(folder.iterdir()) == sorted([real, real.with_suffix(".sock"), *odd])
        launch.leaves_workers = False
        async with survivor.worker:
            pass


async def test_a_pad_that_dies_while_it_is_asked_costs_a_launch_nothing_but_time(
    folder: Path, tmp_path: Path
) -> None:
    """SIGKILL between the request and the fork."""
    program = (
        "import os, socket, sys\n"
        "ours = socket.socket(fileno=int(sys.argv[1])); ours.sendall(b'R')\n"
        "socket.recv_fds(ours, 1, 1); os.kill(os.getpid(), 9)\n"
    )
    with a_pad((sys.executable, "-c", program)) as pad:
        launch = a_launcher(folder, ECHO, pad)
        thread = ThreadKey(str(tmp_path), ConversationId("c"))
        with anyio.fail_after(180):
            async with launch(thread, ThreadOptions(), "t") as worker:
                worker.send(b"x")
                assert await next_lines(worker)


def keepers_of(folder: Path) -> list[Marked]:
    return [p for p in marked_processes(home_mark(folder)) if p.mark.role is Role.KEEPER]


def _status(pid: int, name: str) -> str:
    status = Path(f"/proc/{pid}/status").read_text()
    return status.partition(f"\n{name}:")[2].partition("\n")[0].strip()


def _has_written(pid: int, count: int) -> bool:
    return int(Path(f"/proc/{pid}/io").read_text().partition("wchar: ")[2].split()[0]) >= count


def _sleeps(pid: int) -> bool:
    return stat_fields(Path(f"/proc/{pid}"))[0] == b"S"


def _is_held_up(pid: int) -> bool:
    """It sleeps, and has written more than a keeper holds in memory."""
    return _sleeps(pid) and _has_written(pid, 4 * 2**20)
