"""`roost run`, `list`, `rename` and `kill` as a shell uses them, with a daemon that they start."""

import json
import os
import signal
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from agent.infrastructure.process import is_alive
from tests.roost.conftest import PATIENCE, Machine
from tests.support.keepers import wait_until


@pytest.fixture
def shell(machine: Machine, tmp_path: Path) -> Generator[Machine]:
    """The daemon that a command started does not outlive the test."""
    machine.environ["PWD"] = str(tmp_path)
    yield machine
    if machine.home.daemon_json.exists():
        record = machine.record()
        code, _, error = machine.run("stop")
        assert code == 0, error
        assert not is_alive(record["pid"], record["process_start"])


def test_a_task_is_run_by_a_daemon_that_is_started_for_it_and_goes_on(shell: Machine) -> None:
    code, out, error = shell.run("run", "hello")
    assert (code, error) == (0, "")
    assert "You said: hello." in out
    code, out, _ = shell.run("list", "--json")
    (row,) = json.loads(out)
    assert (row["status"], row["title"]) == ("idle", "hello")
    code, out, _ = shell.run("run", "again", "--resume", row["activeSessionId"], "--json")
    assert code == 0
    kinds = [json.loads(line)["type"] for line in out.splitlines()]
    assert (kinds[0], kinds[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert len(json.loads(shell.run("list", "--json", "--all")[1])) == 1


def test_a_task_that_needs_a_decision_stops_with_4_and_says_where_to_decide(
    shell: Machine,
) -> None:
    code, _, error = shell.run("run", "run echo hi > proof.txt")
    assert code == 4
    assert "Bash waits for your approval: echo hi > proof.txt" in error
    (row,) = json.loads(shell.run("list", "--json")[1])
    assert f"roost chat --resume {row['activeSessionId']}" in error
    code, out, error = shell.run("run", "more", "--resume", row["activeSessionId"])
    assert (code, out) == (4, "")


def test_a_name_is_kept_and_is_a_selector_and_kill_keeps_the_conversation(shell: Machine) -> None:
    shell.run("run", "hello")
    (row,) = json.loads(shell.run("list", "--json")[1])
    assert shell.run("rename", row["activeSessionId"], "the poem")[0] == 0
    assert shell.run("kill", "the poem")[0] == 0
    rows = json.loads(shell.run("list", "--json", "--all")[1])
    assert [(r["name"], r["status"]) for r in rows] == [("the poem", "saved")]


def test_who_names_nobody_is_told_so_and_how_to_look(shell: Machine) -> None:
    code, _, error = shell.run("kill", "nobody")
    assert code == 1
    assert error == ("Error: no session goes by 'nobody'; `roost list` shows those that are open\n")


def test_without_a_daemon_to_be_had_the_exit_code_is_3(shell: Machine) -> None:
    """A home whose settings do not validate starts no daemon."""
    shell.home.path.mkdir()
    shell.home.config.write_text("worker: {idle_timeout: never}\n")
    code, _, error = shell.run("list")
    assert code == 3
    assert "worker.idle_timeout" in error


def test_a_daemon_without_a_port_does_all_that_programs_ask_of_its_socket(shell: Machine) -> None:
    shell.environ["ROOST_BINDING__ENABLED"] = "false"
    code, out, error = shell.run("run", "hello")
    assert (code, error) == (0, "")
    assert "You said: hello." in out
    record = shell.record()
    assert record["port"] is None
    assert not listening_ports(record["pid"])
    status = json.loads(shell.run("status", "--json")[1])
    assert (status["running"], status["reachable"]) == (True, True)
    assert [thread["status"] for thread in status["threads"]] == ["idle"]
    code, out, _ = shell.run("status")
    assert (code, "without a port" in out) == (0, True)
    assert "binding.enabled is false" in shell.run("panel")[2]
    assert "no port" in shell.run("daemon")[2]


def listening_ports(pid: int) -> list[str]:
    """The TCP ports that a process listens on; none where the system does not tell."""
    files = Path("/proc") / str(pid) / "fd"
    if not files.is_dir():
        return []
    mine: set[str] = set()
    for file in files.iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            mine.add(str(file.readlink()))
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[1] for row in lines if row[3] == "0A" and f"socket:[{row[9]}]" in mine]


def test_ctrl_c_ends_the_run_and_is_130(shell: Machine) -> None:
    process = shell.start("run", "slow 600")
    assert process.stdout is not None
    assert process.stdout.read(1)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    # The command does not wait for the end of the run that it has asked for.
    wait_until(lambda: statuses(shell) == ["idle"])


def statuses(shell: Machine) -> list[str]:
    return [row["status"] for row in json.loads(shell.run("list", "--json")[1])]
