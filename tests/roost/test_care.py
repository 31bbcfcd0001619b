"""`roost status` and `roost stop`, without a daemon, with a broken one, and with a stranger."""

import http.server
import json
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from roost.cli import main
from roost.daemon.run_file import RunFile
from roost.daemon.status import age_text, find_status
from roost.daemon.stopping import stop_daemon
from tests.roost.test_run_file import RECORD, run_file

NOW = datetime(2026, 11, 30, 14, 5, tzinfo=UTC)
THREAD = {
    "project_dir": "/srv/p",
    "conversation_id": "c-1",
    "status": "waiting",
    "followers": 2,
    "worker_pid": 42,
    "for_seconds": 125.5,
}


class Answers(http.server.BaseHTTPRequestHandler):
    """A daemon's port that answers whatever the test wants."""

    status: ClassVar[int] = 200
    body: ClassVar[bytes] = b"{}"
    seen: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        type(self).seen.append(self.headers["Authorization"])
        self.send_response(type(self).status)
        self.send_header("content-length", str(len(type(self).body)))
        self.end_headers()
        self.wfile.write(type(self).body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quiet."""


@contextmanager
def daemon_that_answers(folder: Path, status: int, body: bytes) -> Generator[RunFile]:
    Answers.status, Answers.body, Answers.seen = status, body, []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            file = run_file(folder, (7, "99"))
            file.write(replace(RECORD, port=server.server_port))
            yield file
        finally:
            server.shutdown()
            thread.join(60)


def said(file: RunFile, token: str | None = "t", trouble: str | None = None) -> str:
    return "\n".join(find_status(file, token, trouble).lines(NOW))


def test_without_a_daemon_it_says_how_to_start_one(tmp_path: Path) -> None:
    assert said(run_file(tmp_path)) == "No daemon is running. 'roost daemon' starts one."


def test_a_daemon_is_shown_with_its_threads(tmp_path: Path) -> None:
    body = json.dumps({"threads": [THREAD]}).encode()
    with daemon_that_answers(tmp_path, 200, body) as file:
        text = said(file)
        assert Answers.seen == ["Bearer t"]
    first, _, heading, row = text.splitlines()
    assert first.startswith("The daemon runs: pid 7, 127.0.0.1:")
    assert "(2h 5m)" in first
    assert heading.split() == ["STATUS", "FOR", "FOLLOWERS", "PID", "CONVERSATION", "PROJECT"]
    assert row.split() == ["waiting", "2m", "5s", "2", "42", "c-1", "/srv/p"]


def test_a_daemon_without_threads_says_so(tmp_path: Path) -> None:
    with daemon_that_answers(tmp_path, 200, b'{"threads": []}') as file:
        assert said(file).endswith("It has no threads.")


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, b"", "refused our token"),
        (500, b"", "it answered 500"),
        (200, b"not json", "does not answer"),
        (200, b"[]", "makes no sense"),
        (200, b"{}", "makes no sense"),
    ],
)
def test_an_answer_that_is_none_is_said_to_be_so(
    tmp_path: Path, status: int, body: bytes, says: str
) -> None:
    with daemon_that_answers(tmp_path, status, body) as file:
        found = find_status(file, "t")
    assert not found.is_reachable
    assert says in "\n".join(found.lines(NOW))


def test_a_daemon_that_does_not_listen_is_said_to_be_so(tmp_path: Path) -> None:
    file = run_file(tmp_path, (7, "99"))
    file.write(replace(RECORD, port=1))
    assert "It does not answer on its port" in said(file)


def test_without_a_token_it_still_tells_what_it_can(tmp_path: Path) -> None:
    file = run_file(tmp_path, (7, "99"))
    file.write(RECORD)
    text = said(file, None, "config.yaml: not valid YAML")
    assert "pid 7" in text
    assert "config.yaml: not valid YAML" in text


@pytest.mark.parametrize("settings", ["agent: {mode: fast}", "agent: ["])
def test_broken_settings_do_not_keep_status_and_stop_from_working(
    tmp_path: Path, settings: str
) -> None:
    (tmp_path / "config.yaml").write_text(settings)
    environ = {"ROOST_HOME": str(tmp_path)}
    assert CliRunner().invoke(main, ["status"], env=environ).exit_code == 3
    stopped = CliRunner().invoke(main, ["stop"], env=environ)
    assert (stopped.exit_code, stopped.output) == (0, "No daemon is running.\n")


def test_status_as_json_without_a_daemon(tmp_path: Path) -> None:
    answer = CliRunner().invoke(main, ["status", "--json"], env={"ROOST_HOME": str(tmp_path)})
    assert answer.exit_code == 3
    assert json.loads(answer.output) == {
        "running": False,
        "reachable": False,
        "daemon": None,
        "threads": None,
        "channels": [],
        "processes": [],
        "note": None,
    }


def never(pid: int, signum: int) -> None:
    raise NotImplementedError


def test_stop_signals_the_daemon_and_waits_until_it_is_gone(tmp_path: Path) -> None:
    living = {(7, "99")}
    file = RunFile(tmp_path / "daemon.json", lambda pid, start: (pid, start) in living)
    file.write(RECORD)
    sent: list[tuple[int, int]] = []

    def send(pid: int, signum: int) -> None:
        sent.append((pid, signum))
        living.clear()

    stopped = stop_daemon(file, 5, send)
    assert sent == [(7, signal.SIGTERM), (7, signal.SIGCONT)], "it may be halted"
    assert stopped.is_gone
    assert "pid 7" in stopped.says


def test_stop_never_signals_a_stranger_that_has_the_pid_now(tmp_path: Path) -> None:
    file = run_file(tmp_path, (7, "100"))
    file.write(RECORD)
    assert stop_daemon(file, 5, never).is_gone


def test_stop_never_signals_a_process_whose_start_is_not_known(tmp_path: Path) -> None:
    """A file that names just a pid could be about anybody."""
    file = run_file(tmp_path, (RECORD.pid, None))
    file.write(replace(RECORD, process_start=None))
    signals: list[tuple[int, int]] = []
    stopped = stop_daemon(file, 1, lambda pid, signum: signals.append((pid, signum)))
    assert signals == []
    assert not stopped.is_gone
    assert "Nothing was stopped" in stopped.says


@pytest.mark.parametrize("changed", [{"pid": 1}, {"started_at": "x"}, {"started_at": "2026-01-01"}])
def test_a_run_file_that_makes_no_sense_is_damaged(tmp_path: Path, changed: dict[str, Any]) -> None:
    file = run_file(tmp_path, (RECORD.pid, RECORD.process_start))
    file.write(replace(RECORD, **changed))
    assert "damaged" in said(file)


def test_odd_names_do_not_break_the_table(tmp_path: Path) -> None:
    odd = {**THREAD, "conversation_id": "c" * 255, "project_dir": "/srv/a\nb"}
    body = json.dumps({"threads": [odd]}).encode()
    with daemon_that_answers(tmp_path, 200, body) as file:
        lines = said(file).splitlines()
    assert lines[-1].endswith("/srv/a\\nb")
    assert all(len(line) < 140 for line in lines)


def test_stop_gives_up_in_time_and_says_what_to_do(tmp_path: Path) -> None:
    file = run_file(tmp_path, (7, "99"))
    file.write(RECORD)
    stopped = stop_daemon(file, 0.0, lambda pid, signum: None)
    assert not stopped.is_gone
    assert "again" in stopped.says


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.9, "59s"), (60, "1m"), (3605, "1h"), (90_000, "1d 1h"), (-5, "0s")],
)
def test_an_age_has_at_most_two_units(seconds: float, text: str) -> None:
    assert age_text(seconds) == text
