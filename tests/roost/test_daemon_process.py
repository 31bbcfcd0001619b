"""`roost daemon` as a real process: ready, alone, stopped in order, and never silent about why."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import anyio
import pytest
from websockets.asyncio.client import connect

from agent.infrastructure.process import process_start
from roost.version import VERSION
from tests.roost.conftest import PATIENCE, Machine
from tests.support.keepers import wait_until

# A worker that answers an open and then does nothing, whatever it is told.
STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    if '"resume_conversation"' in line:
        print('{"type":"MESSAGES_SNAPSHOT","messages":[]}', flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture
def anyio_backend() -> str:
    """The client library runs on asyncio."""
    return "asyncio"


def test_a_daemon_that_serves_says_where_in_its_run_file(machine: Machine) -> None:
    daemon = machine.daemon()
    record = machine.record()
    started = datetime.fromisoformat(record.pop("started_at"))
    assert abs(datetime.now(started.tzinfo) - started) < timedelta(minutes=10)
    assert record == {
        "pid": daemon.pid,
        "process_start": process_start(daemon.pid),
        "host": "127.0.0.1",
        "port": record["port"],
        "socket": str(machine.home.run / "daemon.sock"),
        "version": VERSION,
        "protocol_version": 2,
    }
    socket.create_connection(("127.0.0.1", record["port"]), timeout=PATIENCE).close()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(machine: Machine, signum: signal.Signals) -> None:
    daemon = machine.daemon()
    daemon.send_signal(signum)
    out, err = daemon.communicate(timeout=PATIENCE)
    assert (daemon.returncode, out, err) == (0, "", "")
    assert not machine.home.daemon_json.exists()
    assert machine.log()[-1]["event"] == "daemon_stopped"


def test_the_token_is_made_once_and_only_the_owner_can_read_it(machine: Machine) -> None:
    machine.daemon()
    assert machine.run("stop")[0] == 0
    token = machine.home.token.read_text()
    assert len(token.strip()) == 64
    assert stat.S_IMODE(machine.home.token.stat().st_mode) == 0o600
    assert stat.S_IMODE(machine.home.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(machine.home.run.stat().st_mode) == 0o700
    machine.daemon()
    assert machine.home.token.read_text() == token


def test_the_token_is_in_no_log(machine: Machine) -> None:
    machine.daemon()
    assert machine.run("status")[0] == 0
    machine.run("stop")
    assert machine.home.token.read_text().strip() not in json.dumps(machine.log())


def test_of_two_started_at_once_one_wins_and_the_other_says_who(machine: Machine) -> None:
    """A race decided by anything but a lock would give two owners to every thread."""
    for _ in range(3):
        two = [machine.start("daemon"), machine.start("daemon")]
        give_up = time.monotonic() + PATIENCE
        while all(process.poll() is None for process in two):
            assert time.monotonic() < give_up, "two daemons have one home"
            time.sleep(0.01)
        loser = next(process for process in two if process.poll() is not None)
        (winner,) = [process for process in two if process is not loser]
        _, err = loser.communicate(timeout=PATIENCE)
        machine.wait_ready(winner)
        assert loser.returncode == 1
        # Its port, too, if it had one by then.
        assert f"pid {winner.pid}, " in err
        assert len(err.splitlines()) == 1
        record = machine.record()
        third = machine.start("daemon")
        _, err = third.communicate(timeout=PATIENCE)
        assert third.returncode == 1
        assert f"pid {winner.pid}, port {record['port']}, since {record['started_at']}" in err
        assert machine.run("stop")[0] == 0


def test_what_a_killed_daemon_leaves_does_not_keep_the_next_from_starting(machine: Machine) -> None:
    first = machine.daemon()
    first.kill()
    first.communicate(timeout=PATIENCE)
    assert machine.home.daemon_json.exists()
    code, out, _ = machine.run("status")
    assert code == 3
    assert "ended without cleaning up" in out
    machine.daemon()
    assert machine.run("status")[0] == 0


def test_a_taken_port_is_one_line_and_exit_code_1(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        code, out, err = machine.run("daemon", ROOST_BINDING__PORT=port)
    assert (code, out) == (1, "")
    assert err.startswith(f"Error: 127.0.0.1:{port} can't be opened")
    assert len(err.splitlines()) == 1
    assert not machine.home.daemon_json.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [("ROOST_BINDING__TOKEN", ""), ("ROOST_AGENT__MODE", "x")],
)
def test_settings_that_can_not_be_used_stop_the_start(
    machine: Machine, name: str, value: str
) -> None:
    code, out, err = machine.run("daemon", **{name: value})
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert not machine.home.daemon_json.exists()


def test_an_empty_token_file_stops_the_start(machine: Machine) -> None:
    machine.home.path.mkdir()
    machine.home.token.write_text("\n")
    code, _, err = machine.run("daemon")
    assert code == 1
    assert f"{machine.home.token} is empty" in err


def test_a_home_that_can_not_be_made_is_said_in_one_line(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = machine.run("daemon", ROOST_HOME=str(tmp_path / "file" / "home"))
    assert code == 1
    assert str(tmp_path / "file") in err
    assert len(err.splitlines()) == 1


async def follow_a_stubborn_worker(machine: Machine, tmp_path: Path) -> subprocess.Popen[str]:
    """A daemon with a worker that does not end by itself."""
    worker = tmp_path / "worker.py"
    worker.write_text(STUBBORN)
    daemon = machine.daemon(
        ROOST_WORKER__COMMAND=json.dumps([sys.executable, str(worker)]),
        ROOST_WORKER__STOP_GRACE="600s",
        ROOST_BINDING__TOKEN="t",
    )
    url = f"ws://127.0.0.1:{machine.record()['port']}/ws"
    async with connect(url, proxy=None, open_timeout=PATIENCE) as client:
        await client.send('{"type":"browser_hello","token":"t","protocol_version":2}')
        await client.recv()
        opening = {"type": "resume_conversation", "project_dir": str(tmp_path), "id": "c"}
        await client.send(json.dumps(opening))
        with anyio.fail_after(PATIENCE):
            assert "MESSAGES_SNAPSHOT" in str(await client.recv())
    return daemon


async def test_status_shows_a_thread_and_a_second_signal_hurries_its_end(
    machine: Machine, tmp_path: Path
) -> None:
    daemon = await follow_a_stubborn_worker(machine, tmp_path)
    code, out, _ = machine.run("status", "--json", ROOST_BINDING__TOKEN="t")
    assert code == 0
    (thread,) = json.loads(out)["threads"]
    assert thread["conversation_id"] == "c"
    assert thread["project_dir"] == str(tmp_path)
    worker_pid = thread["worker_pid"]
    assert process_start(worker_pid) is not None
    daemon.send_signal(signal.SIGTERM)
    machine.wait_logged("daemon_stopping")
    daemon.send_signal(signal.SIGTERM)
    # The grace is ten minutes; without the hurry this would not be over in time.
    daemon.communicate(timeout=PATIENCE)
    assert daemon.returncode == 0
    wait_until(lambda: process_start(worker_pid) is None)


async def test_two_signals_at_once_hurry_too(machine: Machine, tmp_path: Path) -> None:
    daemon = await follow_a_stubborn_worker(machine, tmp_path)
    daemon.send_signal(signal.SIGTERM)
    daemon.send_signal(signal.SIGINT)
    daemon.communicate(timeout=PATIENCE)
    assert daemon.returncode == 0


def printed_by(program: str) -> list[str]:
    answer = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return answer.stdout.splitlines()


def test_the_daemon_imports_nothing_heavy() -> None:
    """Every second of its start is a second before the first window opens."""
    program = (
        "import sys, roost.daemon.cli, roost.daemon.container, roost.logs;"
        "heavy = {'pydantic_ai', 'ag_ui', 'openai', 'anthropic', 'google.genai', 'httpx2', 'mcp'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert printed_by(program) == ["[]"]


def test_help_imports_no_program() -> None:
    program = (
        "import sys\n"
        "from roost.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "bad = {'structlog', 'pydantic', 'anyio', 'roost.daemon.cli', 'roost.headless.cli'}\n"
        "print(sorted(bad & set(sys.modules)))"
    )
    assert printed_by(program)[-1] == "[]"


def test_a_worker_never_imports_from_its_project(tmp_path: Path) -> None:
    """A project with a folder named like one of our packages must not run in its place."""
    from roost.daemon.launching import worker_argv
    from roost.settings import WorkerSection

    (tmp_path / "roost").mkdir()
    (tmp_path / "roost" / "__init__.py").write_text("print('hijacked')")
    (tmp_path / "sessions.py").write_text("print('hijacked')")
    answer = subprocess.run(
        [*worker_argv(WorkerSection()), "--version"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert answer.stdout == f"roost, version {VERSION}\n"


def test_logs_prints_and_follows_until_ctrl_c(machine: Machine) -> None:
    machine.daemon()
    machine.run("stop")
    code, out, _ = machine.run("logs", "-n", "1")
    assert code == 0
    assert json.loads(out)["event"] == "daemon_stopped"
    follower = machine.start("logs", "-f", "-n", "1")
    assert follower.stdout is not None
    # It has begun to follow.
    assert json.loads(follower.stdout.readline())["event"] == "daemon_stopped"
    machine.daemon()
    assert json.loads(follower.stdout.readline())["event"] == "daemon_ready"
    follower.send_signal(signal.SIGINT)
    follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 130
