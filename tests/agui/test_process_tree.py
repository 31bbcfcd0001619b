"""Where a connection comes from: on a made-up /proc, and with real processes that try to hide."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from agui.process_tree import Origin, ProcessTree, ScanTooLong

PORT = 52789
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")


class MadeUp:
    """A /proc of a machine where worker 100 and a person's shell 200 are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "net").mkdir()
        self.rows: list[str] = []
        self.process(1, parent=0)
        self.process(100, parent=1, session=100)
        self.process(200, parent=1, session=200)

    def process(
        self,
        pid: int,
        parent: int,
        session: int = 1,
        sockets: Sequence[int] = (),
        environ: str = "",
        name: str = "a program",
    ) -> None:
        folder = self.folder / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} ({name}) S {parent} {pid} {session} 0 -1\n")
        (folder / "environ").write_text(environ)
        for number, inode in enumerate(sockets):
            (folder / "fd" / str(number)).symlink_to(f"socket:[{inode}]")

    def connection(
        self, local: int, inode: int, remote: int = PORT, state: str = "01", file: str = "tcp"
    ) -> None:
        head = "  sl  local_address rem_address   st ...\n"
        row = f"   0: 0100007F:{local:04X} 0100007F:{remote:04X} {state} 0:0 0:0 0 1000 0 {inode} 1"
        with (self.folder / "net" / file).open("a") as out:
            out.write((head if out.tell() == 0 else "") + row + "\n")

    def origins(self, deadline: float | None = None) -> dict[int, Origin]:
        until = time.monotonic() + 60 if deadline is None else deadline
        return ProcessTree(frozenset({100}), PORT, until, self.folder).origins()


@pytest.fixture
def machine(tmp_path: Path) -> MadeUp:
    return MadeUp(tmp_path)


@pytest.mark.parametrize("file", ["tcp", "tcp6"])
def test_a_descendant_of_a_worker_is_inside_and_a_person_is_not(machine: MadeUp, file: str) -> None:
    machine.process(101, parent=100, session=101)
    machine.process(102, parent=101, session=102, sockets=[7], name="a) S 1 (b")
    machine.process(201, parent=200, session=200, sockets=[8])
    machine.connection(40_000, inode=7, file=file)
    machine.connection(40_001, inode=8, file=file)
    assert machine.origins() == {40_000: 100}


def test_the_worker_itself_is_inside(machine: MadeUp) -> None:
    (machine.folder / "100" / "fd" / "3").symlink_to("socket:[7]")
    machine.connection(40_000, inode=7)
    assert machine.origins() == {40_000: 100}


def test_one_that_init_adopted_is_known_by_its_session(machine: MadeUp) -> None:
    machine.process(101, parent=1, session=100, sockets=[7])
    machine.process(102, parent=101, session=102, sockets=[8])
    machine.connection(40_000, inode=7)
    machine.connection(40_001, inode=8)
    assert machine.origins() == {40_000: 100, 40_001: 100}


@pytest.mark.parametrize("before", ["A=b\0", f"A={'b' * 2**21}\0"], ids=["usual", "large"])
def test_one_that_left_the_session_is_known_by_the_token_in_its_environment(
    machine: MadeUp, before: str
) -> None:
    marks = f"{before}ROOST_WORKER_TOKEN=t0k\0ROOST_BINDING__URL=ws://127.0.0.1:{PORT}/ws\0"
    machine.process(101, parent=1, session=101, sockets=[7], environ=marks)
    machine.connection(40_000, inode=7)
    assert machine.origins() == {40_000: "t0k"}


@pytest.mark.parametrize("url", ["", "ROOST_BINDING__URL=ws://127.0.0.1:1/ws\0"])
def test_the_mark_of_another_daemons_worker_is_none_of_ours(machine: MadeUp, url: str) -> None:
    """Whoever works on roost with roost runs daemons and clients inside agents."""
    environ = f"ROOST_WORKER_TOKEN=t0k\0{url}"
    machine.process(101, parent=1, session=101, sockets=[7], environ=environ)
    machine.connection(40_000, inode=7)
    assert machine.origins() == {}


def test_other_connections_are_not_looked_at(machine: MadeUp) -> None:
    machine.process(101, parent=100, sockets=[7, 8])
    machine.connection(40_000, inode=7, remote=PORT + 1)
    machine.connection(40_001, inode=8, state="06")
    assert machine.origins() == {}


def test_a_process_inside_that_hides_its_files_holds_what_nobody_outside_holds(
    machine: MadeUp,
) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may look everywhere")
    machine.process(101, parent=100)
    (machine.folder / "101" / "fd").chmod(0)
    machine.process(201, parent=200, sockets=[8])
    machine.connection(40_000, inode=7)
    machine.connection(40_001, inode=8)
    assert machine.origins() == {40_000: 100}


def test_vanishing_processes_and_loops_do_no_harm(machine: MadeUp) -> None:
    machine.process(101, parent=102)
    machine.process(102, parent=101, sockets=[7])
    for name in ("stat", "environ"):
        (machine.folder / "200" / name).unlink()
    (machine.folder / "300").mkdir()
    (machine.folder / "301").mkdir()
    (machine.folder / "301" / "stat").write_text("rubbish")
    machine.connection(40_000, inode=7)
    assert machine.origins() == {}


def test_a_look_has_a_deadline(machine: MadeUp) -> None:
    machine.connection(40_000, inode=7)
    with pytest.raises(ScanTooLong):
        machine.origins(deadline=time.monotonic() - 1)


def test_without_proc_nobody_is_recognised(tmp_path: Path) -> None:
    tree = ProcessTree(frozenset({1}), PORT, time.monotonic() + 60, tmp_path / "none")
    assert tree.origins() == {}


DIALLER = """
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print(s.getsockname()[1], flush=True)
sys.stdin.read()
"""
# The shell ends, its child is adopted by somebody else; it waits for the end of its own stdin.
WORKERS = {
    "direct": '"$1" -c "$2" "$3"',
    "in a pipeline": '"$1" -c "$2" "$3" | cat',
    "orphaned": '( "$1" -c "$2" "$3" <&3 & ) 3<&0; exec sleep 600',
    "in a session of its own": '( setsid "$1" -c "$2" "$3" <&3 & ) 3<&0; exec sleep 600',
}


@contextmanager
def dialled(script: str, port: int, environ: dict[str, str]) -> Generator[tuple[int, int]]:
    """A worker whose command dials: its pid, and the dialler's port."""
    worker = subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", sys.executable, DIALLER, str(port)],
        env=os.environ | environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        yield worker.pid, int(worker.stdout.readline())
    finally:
        worker.stdin.close()
        worker.kill()
        worker.wait(60)
        worker.stdout.close()


@needs_proc
@pytest.mark.parametrize("how", WORKERS)
def test_a_real_command_of_a_worker_is_recognised(how: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        marks = {
            "ROOST_WORKER_TOKEN": "t0k",
            "ROOST_BINDING__URL": f"ws://127.0.0.1:{port}/ws",
        }
        with (
            dialled(WORKERS[how], port, marks) as (worker, client_port),
            socket.create_connection(("127.0.0.1", port)) as person,
        ):
            tree = ProcessTree(frozenset({worker}), port, time.monotonic() + 60)
            found = tree.origins()
            assert found[client_port] == ("t0k" if how == "in a session of its own" else worker)
            assert person.getsockname()[1] not in found
