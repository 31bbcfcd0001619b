"""Log lines: where they go, what they look like, and what reading them gives."""

import io
import json
import logging
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
from freezegun import freeze_time

from roost import logs
from roost.daemon.daily_log import DailyLog, log_files
from roost.daemon.log_reader import Place, follow, last_lines


def test_a_line_has_timestamp_level_event_and_the_fields_in_that_order() -> None:
    out = io.StringIO()
    logs.configure("info", file=out)
    structlog.get_logger().warning("worker_exited", worker_pid=7, reason="é")
    line = json.loads(out.getvalue())
    assert list(line) == ["timestamp", "level", "event", "worker_pid", "reason"]
    assert line["level"] == "warning"
    assert line["event"] == "worker_exited"
    assert datetime.fromisoformat(line["timestamp"]).tzinfo is not None


@pytest.mark.parametrize(
    ("level", "shown"),
    [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)],
)
def test_the_level_is_the_least_that_is_logged(level: logs.Level, shown: int) -> None:
    out = io.StringIO()
    logs.configure(level, file=out)
    log = structlog.get_logger()
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)("x")
    assert len(out.getvalue().splitlines()) == shown


def test_what_libraries_warn_of_is_in_the_log_too() -> None:
    out = io.StringIO()
    logs.configure("info", file=out)
    logging.getLogger("a.library").warning("low on %s", "ink")
    logging.getLogger("a.library").info("chatter")
    (line,) = [json.loads(text) for text in out.getvalue().splitlines()]
    assert (line["event"], line["library"], line["message"]) == (
        "library_reported", "a.library", "low on ink",
    )  # fmt: skip


def test_stderr_gets_json_when_asked_and_nothing_goes_to_stdout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A worker's stdout is its protocol."""
    logs.configure("info", stderr_json=True)
    structlog.get_logger().info("x_happened")
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["event"] == "x_happened"


def test_people_get_one_readable_line_without_a_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure("info")
    try:
        raise ValueError("went wrong")
    except ValueError:
        structlog.get_logger().exception("thing_failed", attempt=2)
    _, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert "error   thing failed  attempt=2  error=ValueError: went wrong" in err


def test_a_log_that_can_not_be_written_stops_nobody() -> None:
    class Full(io.StringIO):
        def write(self, text: str, /) -> int:
            raise OSError(28, "No space left on device")

    logs.configure("info", file=Full())
    structlog.get_logger().info("x_happened")


def test_midnight_begins_a_new_file(tmp_path: Path) -> None:
    daily = DailyLog(tmp_path / "logs")
    with freeze_time("2026-11-30 23:59:59"):
        daily.write("before\n")
    with freeze_time("2026-12-01 00:00:00"):
        daily.write("after\n")
    daily.close()
    names = [path.name for path in log_files(tmp_path / "logs")]
    assert names == ["daemon-2026-11-30.log", "daemon-2026-12-01.log"]
    assert (tmp_path / "logs" / names[1]).read_text() == "after\n"


def test_a_fortnight_of_files_is_kept(tmp_path: Path) -> None:
    daily = DailyLog(tmp_path)
    for day in range(20):
        with freeze_time(datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=day)):
            daily.write("x\n")
    daily.close()
    names = [path.name for path in log_files(tmp_path)]
    assert len(names) == 14
    assert names[-1] == "daemon-2026-11-20.log"


def write_logs(folder: Path) -> None:
    (folder / "daemon-2026-11-29.log").write_text("1\n2\n3\n")
    (folder / "daemon-2026-11-30.log").write_text("4\n5\n")
    (folder / "other.log").write_text("no\n")


@pytest.mark.parametrize(
    ("count", "lines"),
    [(0, []), (1, ["5\n"]), (2, ["4\n", "5\n"]), (3, ["3\n", "4\n", "5\n"]), (99, 5)],
)
def test_the_last_lines_reach_back_over_files(
    tmp_path: Path, count: int, lines: list[str] | int
) -> None:
    write_logs(tmp_path)
    found, place = last_lines(tmp_path, count)
    assert found == lines or len(found) == lines
    assert place == Place(tmp_path / "daemon-2026-11-30.log", 4)


def test_without_a_log_there_are_no_lines(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "nothing", 5) == ([], Place())


def test_following_goes_on_where_reading_ended_and_over_midnight(tmp_path: Path) -> None:
    write_logs(tmp_path)
    _, place = last_lines(tmp_path, 1)
    today, tomorrow = place.file, tmp_path / "daemon-2026-12-01.log"
    assert today is not None
    steps = [
        lambda: today.write_text("4\n5\n6\nhal"),
        lambda: today.write_text("4\n5\n6\nhalf\n"),
        lambda: tomorrow.write_text("7\n"),
    ]
    followed = follow(tmp_path, place, lambda _: (steps.pop(0)(), None)[1])
    assert [next(followed) for _ in range(3)] == ["6\n", "half\n", "7\n"]
    followed.close()  # type: ignore[attr-defined] # pyright: ignore


def test_following_waits_for_the_first_file(tmp_path: Path) -> None:
    followed = follow(tmp_path, Place(), lambda _: write_logs(tmp_path))
    assert next(followed) == "1\n"
    followed.close()  # type: ignore[attr-defined] # pyright: ignore


def test_a_log_file_is_for_its_user_alone(tmp_path: Path) -> None:
    """Names of projects and conversations stand in it."""
    daily = DailyLog(tmp_path / "logs")
    daily.write("x\n")
    daily.close()
    (file,) = log_files(tmp_path / "logs")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
