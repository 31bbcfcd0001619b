"""The run file: when there is a daemon, and when there only was one."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from roost.daemon.run_file import DaemonRecord, NotRunning, RunFile, Running

RECORD = DaemonRecord(
    pid=7,
    process_start="99",
    started_at="2026-11-30T12:00:00+00:00",
    host="127.0.0.1",
    port=52789,
    socket=None,
    version="1",
    protocol_version=2,
)


def run_file(folder: Path, *living: tuple[int, str | None]) -> RunFile:
    return RunFile(folder / "run" / "daemon.json", lambda pid, start: (pid, start) in living)


def test_what_was_written_is_found(tmp_path: Path) -> None:
    file = run_file(tmp_path, (7, "99"))
    file.write(RECORD)
    assert file.look() == Running(RECORD)
    assert [path.name for path in file.file.parent.iterdir()] == ["daemon.json"]


def test_without_a_file_there_is_no_daemon_and_nothing_to_say(tmp_path: Path) -> None:
    assert run_file(tmp_path).look() == NotRunning()


def test_a_reused_pid_is_not_the_daemon(tmp_path: Path) -> None:
    file = run_file(tmp_path, (7, "100"))
    file.write(RECORD)
    found = file.look()
    assert isinstance(found, NotRunning)
    assert "pid 7" in str(found.note)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        json.dumps(asdict(replace(RECORD, pid=0))).encode(),
        json.dumps(asdict(RECORD) | {"pid": "7"}).encode(),
        json.dumps(asdict(RECORD) | {"pid": True}).encode(),
        json.dumps(asdict(RECORD) | {"port": "1"}).encode(),
        json.dumps(asdict(RECORD) | {"host": 1}).encode(),
        json.dumps(asdict(RECORD) | {"process_start": 99}).encode(),
    ],
)
def test_a_broken_file_is_no_daemon_and_says_so(tmp_path: Path, content: bytes) -> None:
    file = run_file(tmp_path, (7, "99"))
    file.file.parent.mkdir()
    file.file.write_bytes(content)
    found = file.look()
    assert isinstance(found, NotRunning)
    assert "damaged" in str(found.note)


def test_members_of_a_newer_version_are_ignored(tmp_path: Path) -> None:
    file = run_file(tmp_path, (7, "99"))
    file.file.parent.mkdir()
    file.file.write_text(json.dumps(asdict(RECORD) | {"new": 1}))
    assert file.look() == Running(RECORD)


def test_removing_twice_is_fine(tmp_path: Path) -> None:
    file = run_file(tmp_path)
    file.write(RECORD)
    file.remove()
    file.remove()
    assert file.look() == NotRunning()
