"""Real keepers and a real pad: what they cost when idle, who may take over, when a pad is stale."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pytest

from sessions.domain.keeper_frames import PAD_REQUEST, Adopt, FrameSplitter, Kind, Noted, told
from sessions.domain.keys import ConversationId, ThreadKey, ThreadOptions
from sessions.infrastructure.file_spool import FileSpool
from sessions.infrastructure.keeper_files import KeeperFiles, read_descriptor
from sessions.infrastructure.kept_worker import KeeperLost, KeptWorker, Link
from sessions.infrastructure.launch_pad import pad_environment
from sessions.infrastructure.marks import stat_fields
from tests.support.keepers import SCRIPTED_PAD, a_launcher, a_pad, wait_until
from tests.support.pumped import next_lines

SCRIPTED = str(Path(__file__).parents[1] / "support/workers/scripted.py")
ECHO = (sys.executable, SCRIPTED, "echo")


def switches(pid: int) -> int:
    """How often a process has gone to sleep so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


async def test_an_idle_keeper_sleeps(tmp_path: Path) -> None:
    """It once spun on the closed end of its own wake-up pipe, at a third of a processor."""
    thread = ThreadKey(str(tmp_path), ConversationId("c"))
    with anyio.fail_after(180):
        async with a_launcher(tmp_path / "keepers", ECHO)(thread, ThreadOptions(), "t") as worker:
            worker.send(b"x")
            await next_lines(worker)
            keeper = int(stat_fields(Path(f"/proc/{worker.pid}"))[1])
            await anyio.to_thread.run_sync(wait_until, lambda: _sleeps_for_a_while(keeper))


async def test_one_daemon_at_a_time_and_only_with_the_token(tmp_path: Path) -> None:
    """Two daemons that raced for a worker would both write to it."""
    folder = tmp_path / "keepers"
    thread = ThreadKey(str(tmp_path), ConversationId("c"))
    with anyio.fail_after(180):
        async with a_launcher(folder, ECHO)(thread, ThreadOptions(), "t"):
            (file,) = folder.glob("*.json")
            found = read_descriptor(file)
            assert found is not None
            assert file.stat().st_mode & 0o077 == 0
            for token, says in (("wrong", b"token"), (found.token, b"another daemon has it")):
                link = Link(KeeperFiles(folder, found.keeper).connect())
                await link.send(told(Kind.ADOPT, Adopt(token)))
                kind, payload = await link.receive()
                assert (kind, says in payload) == (Kind.REFUSED, True)
                with pytest.raises(KeeperLost):
                    await link.receive()
                link.close()


@pytest.mark.parametrize("is_forked", [True, False])
async def test_a_worker_is_what_a_fresh_interpreter_is(tmp_path: Path, is_forked: bool) -> None:
    """A fork that shared seeds, descriptors or handlers with others would do riddles."""
    said: list[dict[str, Any]] = []
    with a_pad((*SCRIPTED_PAD, "state")) if is_forked else nullcontext() as pad:
        launch = a_launcher(tmp_path / "keepers", (*ECHO[:2], "state"), pad)
        launch.open_files = 500
        thread = ThreadKey(str(tmp_path), ConversationId("c"))
        with anyio.fail_after(180):
            for _ in range(2):
                async with launch(thread, ThreadOptions(), "t") as worker:
                    said += map(json.loads, await next_lines(worker))
    assert len({one.pop("random") for one in said}) == 2
    for one in said:
        assert one == {
            "type": "STATE",
            "signals": dict.fromkeys(("SIGCHLD", "SIGTERM", "SIGHUP", "SIGUSR1"), "0")
            | {"SIGINT": one["signals"]["SIGINT"]},
            "blocked": [],
            "wakeup": -1,
            "fds": [0, 1, 2],
            "open_files": 500,
            "log_handlers": 0,
            "collects": True,
            "group": True,
        }
        assert "default_int_handler" in one["signals"]["SIGINT"]


@pytest.mark.parametrize(
    "warm_up",
    [
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        "kept.append(socket.socket())",
        "kept.append(select.epoll())",
    ],
)
def test_a_pad_that_would_fork_more_than_it_should_refuses(warm_up: str) -> None:
    """A second thread's locks, a connection, an event loop: no fork can do anything with those."""
    program = (
        "import select, socket, sys, threading, time\n"
        "from sessions.infrastructure.pad_process import serve_pad\n"
        f"kept = []\ndef warm_up():\n    {warm_up}\n    return print\n"
        "serve_pad(socket.socket(fileno=int(sys.argv[1])), warm_up, [])\n"
    )
    ours, pads = socket.socketpair()
    with ours:
        with pads:
            process = subprocess.Popen(
                [sys.executable, "-c", program, str(pads.fileno())],
                pass_fds=(pads.fileno(),),
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd=Path(__file__).parents[2],
            )
        ours.settimeout(120)
        assert ours.recv(1) == b"", "it never said that it is ready"
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert b"NotForkable: the launch pad has" in err


async def write_all(worker: KeptWorker) -> None:
    """What waits goes to the keeper; then the worker is let go."""
    with anyio.fail_after(180):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.write_outbox)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    worker.close()


async def test_of_notes_that_wait_for_a_keeper_only_the_last_is_sent() -> None:
    """A halted keeper takes none; who comes and goes meanwhile must not fill the memory."""
    ours, keepers = socket.socketpair()
    with keepers:
        worker = KeptWorker(Link(ours), 1, "k")
        worker.remember(b"first", None)
        worker.send(b"x")
        for number in range(100):
            worker.remember(b"%d" % number, 1.0)
        await write_all(worker)
        said = FrameSplitter().feed(keepers.recv(10_000))
        last = msgspec.msgpack.encode(Noted(b"99", 1.0))
        assert said[1:] == [(Kind.LINE, b"x"), (Kind.NOTE, last)]


async def test_what_one_turn_sends_leaves_in_one_write() -> None:
    """Each write wakes the keeper, and the worker behind it: an attach sends two lines."""
    ours, keepers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with keepers:
        worker = KeptWorker(Link(ours), 1, "k")
        long = b"x" * 100_000
        for line in (b"open", b"state", long, b"after"):
            worker.send(line)
        await write_all(worker)
        writes = [FrameSplitter().feed(keepers.recv(200_000)) for _ in range(3)]
        assert [[payload for _, payload in said] for said in writes] == [
            [b"open", b"state"],
            [long],
            [b"after"],
        ]


def test_a_pad_keeps_no_secret() -> None:
    environ = {"PATH": "/bin", "HOME": "/h", "OPENAI_API_KEY": "s", "ROOST_BINDING__TOKEN": "s"}
    assert pad_environment(environ | {"ROOST_HOME": "/r"}) == {
        "PATH": "/bin",
        "HOME": "/h",
        "ROOST_HOME": "/r",
    }


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_pad_whose_sources_changed_forks_no_more_and_ends(
    tmp_path: Path, is_changed: bool
) -> None:
    """A worker of yesterday's code, or without today's provider, would be a riddle."""
    watched = tmp_path / "config.yaml"
    watched.write_text("a")
    program = (
        "import socket,sys; from pathlib import Path\n"
        "from sessions.infrastructure.pad_process import serve_pad\n"
        f"watched = [Path({str(watched)!r})]\n"
        "serve_pad(socket.socket(fileno=int(sys.argv[1])), lambda: print, watched)\n"
    )
    ours, pads = socket.socketpair()
    with ours:
        with pads:
            process = subprocess.Popen(
                [sys.executable, "-c", program, str(pads.fileno())],
                pass_fds=(pads.fileno(),),
                stdin=subprocess.DEVNULL,
                cwd=Path(__file__).parents[2],
            )
        ours.settimeout(120)
        assert ours.recv(1) == b"R"
        if is_changed:
            watched.write_text("another")
        link, childs = socket.socketpair()
        with link, childs:
            socket.send_fds(ours, [PAD_REQUEST], [childs.fileno()])
            childs.close()
            if is_changed:
                link.settimeout(120)
                assert link.recv(1) == b""
                assert process.wait(120) == 0
            else:
                link.setblocking(False)
                with pytest.raises(BlockingIOError):
                    link.recv(1)
                assert process.poll() is None
    process.wait(120)


def test_a_spool_gives_back_in_order_and_leaves_no_file(tmp_path: Path) -> None:
    spool = FileSpool(tmp_path, max_bytes=100)
    spool.append(b"a" * 60)
    with pytest.raises(OSError, match="as large as it may get"):
        spool.append(b"b" * 60)
    assert list(tmp_path.iterdir()) == []
    spool.append(b"c" * 40)
    assert spool.take() == b"a" * 60 + b"c" * 40
    assert (len(spool), spool.take()) == (0, b"")
    spool.append(b"d")
    spool.clear()
    assert len(spool) == 0


def test_a_spool_on_a_full_disk_keeps_all_of_it_or_nothing() -> None:
    spool = FileSpool(Path("/dev/full/nowhere"), max_bytes=100)
    with pytest.raises(OSError, match=os.strerror(20)):
        spool.append(b"x")
    assert len(spool) == 0


def _sleeps_for_a_while(pid: int) -> bool:
    """It sleeps, and is woken by nothing for as long as anybody may look."""
    before = switches(pid)
    time.sleep(0.2)
    return stat_fields(Path(f"/proc/{pid}"))[0] == b"S" and switches(pid) == before
