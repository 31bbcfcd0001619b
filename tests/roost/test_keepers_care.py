"""`roost stop --keep-workers`, `status` and `doctor` around real daemons and their keepers."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from websockets.asyncio.client import connect

from roost.cli import main
from roost.daemon.doctor import living_keepers
from roost.daemon.lock import daemon_lock
from roost.daemon.run_file import RunFile
from roost.home import RoostHome
from sessions.infrastructure.marks import (
    VARIABLE,
    Mark,
    Role,
    home_mark,
    marked_processes,
    process_start,
)
from tests.roost.conftest import PATIENCE, Machine
from tests.support.keepers import wait_until

SCRIPTED = str(Path(__file__).parents[1] / "support/workers/scripted.py")
WORKER = json.dumps([sys.executable, SCRIPTED, "counts"])
SETTINGS = {"ROOST_WORKER__COMMAND": WORKER, "ROOST_BINDING__TOKEN": "t"}


@pytest.fixture
def anyio_backend() -> str:
    """The client library runs on asyncio."""
    return "asyncio"


async def open_thread(machine: Machine, project: Path) -> int:
    """A daemon's thread with a worker. Returns the worker's pid."""
    url = f"ws://127.0.0.1:{machine.record()['port']}/ws"
    async with connect(url, proxy=None, open_timeout=PATIENCE) as client:
        await client.send('{"type":"browser_hello","token":"t","protocol_version":2}')
        opening = {"type": "resume_conversation", "project_dir": str(project), "id": "c"}
        await client.send(json.dumps(opening))
        with anyio.fail_after(PATIENCE):
            while "MESSAGES_SNAPSHOT" not in str(await client.recv()):
                pass
    (thread,) = status(machine)["threads"]
    return int(thread["worker_pid"])


def status(machine: Machine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(roost(machine, "status", "--json")[1])
    return found


def doctor(machine: Machine, *arguments: str) -> tuple[int, str]:
    return roost(machine, "doctor", *arguments)


def roost(machine: Machine, *arguments: str) -> tuple[int, str]:
    """A command in this process, which has imported already what each process of its own would."""
    answer = CliRunner().invoke(main, arguments, env=machine.environ | SETTINGS)
    return answer.exit_code, answer.output


async def test_a_plain_stop_ends_the_workers(machine: Machine, tmp_path: Path) -> None:
    machine.daemon(**SETTINGS)
    worker = await open_thread(machine, tmp_path)
    code, out, _ = machine.run("stop", **SETTINGS)
    assert (code, "and its workers have stopped" in out) == (0, True)
    assert process_start(worker) is None
    wait_until(lambda: not list(marked_processes(home_mark(machine.home.path))))


async def test_keep_workers_leaves_them_to_the_next_daemon(
    machine: Machine, tmp_path: Path
) -> None:
    """Also where the home's name is longer than a socket's address may be, and no text."""
    home = tmp_path / ("long" * 30) / os.fsdecode(b"\xfc")
    home.parent.mkdir()
    machine.home = RoostHome(home)
    machine.environ["ROOST_HOME"] = str(home)
    machine.daemon(**SETTINGS)
    worker = await open_thread(machine, tmp_path)
    (before,) = status(machine)["threads"]
    code, out = roost(machine, "stop", "--keep-workers")
    assert (code, "go on for the next one" in out) == (0, True)
    assert process_start(worker) is not None
    code, out = roost(machine, "stop", "--keep-workers")
    assert (code, out) == (0, "No daemon is running.\n")
    assert process_start(worker) is not None
    code, out = doctor(machine)
    assert code == 0
    assert "1 workers go on without one" in out
    machine.daemon(**SETTINGS)
    (after,) = status(machine)["threads"]
    assert (after["worker_pid"], after["generation"]) == (worker, before["generation"])


async def test_stop_without_a_daemon_ends_what_goes_on_without_one(
    machine: Machine, tmp_path: Path
) -> None:
    daemon = machine.daemon(**SETTINGS)
    worker = await open_thread(machine, tmp_path)
    daemon.kill()
    daemon.communicate(timeout=PATIENCE)
    (keeper,) = living_keepers(machine.home)
    keeper.end(signal.SIGSTOP)
    code, out = roost(machine, "stop")
    assert (code, "1 workers that had gone on" in out) == (0, True)
    assert process_start(worker) is None


async def test_a_stop_while_a_worker_is_launched_leaves_nothing(
    machine: Machine, tmp_path: Path
) -> None:
    machine.daemon(**SETTINGS)
    url = f"ws://127.0.0.1:{machine.record()['port']}/ws"
    async with connect(url, proxy=None, open_timeout=PATIENCE) as client:
        await client.send('{"type":"browser_hello","token":"t","protocol_version":2}')
        for number in range(4):
            opening = {"type": "resume_conversation", "project_dir": str(tmp_path)}
            await client.send(json.dumps(opening | {"id": f"c{number}"}))
        code, _ = roost(machine, "stop")
    assert code == 0
    wait_until(lambda: not list(marked_processes(home_mark(machine.home.path))))
    wait_until(lambda: not list(machine.home.keepers.glob("*")))


async def test_a_daemon_without_its_run_file_is_named_and_stopped_all_the_same(
    machine: Machine, tmp_path: Path
) -> None:
    """Its record is gone; who has the lock is asked then."""
    daemon = machine.daemon(**SETTINGS)
    worker = await open_thread(machine, tmp_path)
    machine.home.daemon_json.unlink()
    assert doctor(machine) == (0, "Nothing is wrong.\n"), "it may be about to stop"
    holder = json.loads(machine.home.daemon_lock.read_text())
    earlier = json.dumps(holder | {"since": "2020-01-01T00:00:00+00:00"})
    machine.home.daemon_lock.write_text(earlier)
    code, out = doctor(machine)
    assert code == 1
    assert f"A daemon runs (pid {daemon.pid}) and has lost its run file" in out
    _, out = roost(machine, "status")
    assert out.startswith(f"A daemon (pid {daemon.pid}) starts or stops just now, or has lost")
    code, out = doctor(machine, "--fix")
    assert (code, "  repaired" in out) == (0, True)
    daemon.communicate(timeout=PATIENCE)
    assert process_start(worker) is not None
    second = machine.daemon(**SETTINGS)
    machine.home.daemon_json.unlink()
    code, out = roost(machine, "stop")
    assert (code, f"pid {second.pid}) and its workers have stopped" in out) == (0, True)
    assert process_start(worker) is None


async def test_a_daemon_whose_run_folder_was_deleted_stays_the_only_one_and_can_be_stopped(
    machine: Machine, tmp_path: Path
) -> None:
    daemon = machine.daemon(**SETTINGS)
    worker = await open_thread(machine, tmp_path)
    shutil.rmtree(machine.home.run)
    code, _, err = machine.run("daemon", **SETTINGS)
    assert (code, f"a daemon runs already (pid {daemon.pid})" in err) == (1, True)
    assert roost(machine, "status")[1].startswith(f"A daemon (pid {daemon.pid}) starts or stops")
    out = doctor(machine)[1]
    assert "has lost its files, so that no daemon finds it" in out
    assert "No daemon runs" not in out
    code, out = roost(machine, "stop", "--keep-workers")
    assert (code, f"The daemon (pid {daemon.pid}) has stopped" in out) == (0, True)
    daemon.communicate(timeout=PATIENCE)
    machine.daemon(**SETTINGS)
    assert [thread["worker_pid"] for thread in status(machine)["threads"]] == [worker]


async def test_a_halted_daemon_is_named_and_set_going_and_a_stop_stops_it(machine: Machine) -> None:
    daemon = machine.daemon(**SETTINGS)
    daemon.send_signal(signal.SIGSTOP)
    wait_until(lambda: f"The daemon {daemon.pid} is halted" in doctor(machine)[1])
    assert "repaired" in doctor(machine, "--fix")[1]
    wait_until(lambda: doctor(machine)[0] == 0)
    daemon.send_signal(signal.SIGSTOP)
    assert "have stopped" in roost(machine, "stop")[1]
    assert daemon.wait(PATIENCE) == 0


async def test_the_pad_of_a_daemon_without_its_run_file_is_let_be(machine: Machine) -> None:
    home = machine.home
    with daemon_lock(home.daemon_lock, RunFile(home.daemon_json)):
        pad = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"],
            env={VARIABLE: str(Mark(home_mark(home.path), Role.PAD, "0" * 32))},
        )
        try:
            wait_until(lambda: bool(list(marked_processes(home_mark(home.path)))))
            assert doctor(machine) == (0, "Nothing is wrong.\n")
            home.daemon_lock.write_text("{}")
            assert f"The launch pad {pad.pid} has no owner" in doctor(machine)[1]
        finally:
            pad.kill()
            pad.wait(PATIENCE)


async def test_status_shows_daemon_keepers_and_workers_with_age_and_memory(
    machine: Machine, tmp_path: Path
) -> None:
    daemon = machine.daemon(**SETTINGS)
    worker = await open_thread(machine, tmp_path)
    shown = {p["role"]: p for p in status(machine)["processes"]}
    assert (shown["daemon"]["pid"], shown["worker"]["pid"]) == (daemon.pid, worker)
    for role in ("daemon", "keeper", "worker"):
        assert shown[role]["conversation_id"] == (None if role == "daemon" else "c")
        assert shown[role]["memory_bytes"] > 100_000
        assert 0 <= shown[role]["age_seconds"] < 600
    _, out = roost(machine, "status")
    assert "PROCESS" in out
    assert f"{worker}" in out


async def test_doctor_finds_nothing_wrong_with_a_daemon_at_work_but_what_is_halted(
    machine: Machine, tmp_path: Path
) -> None:
    machine.daemon(**SETTINGS)
    worker = await open_thread(machine, tmp_path)
    assert doctor(machine) == (0, "Nothing is wrong.\n")
    os.kill(worker, signal.SIGSTOP)
    wait_until(lambda: f"process of a thread {worker} is halted" in doctor(machine)[1])
    assert "repaired" in doctor(machine, "--fix")[1]
    wait_until(lambda: doctor(machine)[0] == 0)


async def test_doctor_repairs_all_that_a_crash_can_leave(machine: Machine, tmp_path: Path) -> None:
    """The daemon's own records are gone, a keeper's files are, a keeper was killed: all at once."""
    daemon = machine.daemon(**SETTINGS)
    await open_thread(machine, tmp_path)
    daemon.kill()
    daemon.communicate(timeout=PATIENCE)
    home = home_mark(machine.home.path)
    orphan = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env={VARIABLE: str(Mark(home, Role.WORKER, "e" * 32))},
    )
    try:
        wait_until(lambda: any(p.pid == orphan.pid for p in marked_processes(home)))
        (keeper,) = living_keepers(machine.home)
        for file in list(machine.home.keepers.iterdir()):
            file.unlink()
        (machine.home.keepers / f"{'d' * 32}.sock").touch()
        (machine.home.keepers / f"{'c' * 32}.json").write_text("{")
        (machine.home.keepers / f".{'b' * 32}.json.1").touch()
        machine.home.token.write_text("x")
        machine.home.token.chmod(0o644)
        groups = tmp_path / "groups"
        group = groups / f"roost-{home}-{'a' * 32}"
        group.mkdir(parents=True)
        machine.environ["ROOST_WORKER__CONTROL_GROUP"] = str(groups)
        keeper.end(signal.SIGSTOP)
        wait_until(lambda: any(k.is_halted for k in living_keepers(machine.home)))
        code, out = doctor(machine)
        assert code == 1
        for says in (
            "ended without cleaning up",
            "is open to other users",
            "is damaged, and its keeper is gone",
            ".sock is left from a keeper",
            ".json.1 was never written to its end",
            f"The keeper {keeper.pid} is halted",
            f"The keeper {keeper.pid} has lost its files",
            f"The control group {group} is left",
            f"The process of a thread {orphan.pid} has no owner",
        ):
            assert says in out
        code, out = doctor(machine, "--fix")
        assert (code, out.count("  repaired")) == (0, 9)
        assert orphan.wait(PATIENCE) == -signal.SIGKILL
        wait_until(lambda: doctor(machine)[1].startswith("No daemon runs, and 1 workers"))
    finally:
        orphan.kill()
        orphan.wait(PATIENCE)
    machine.daemon(**SETTINGS)
    assert len(status(machine)["threads"]) == 1
    assert process_start(keeper.pid) is not None
