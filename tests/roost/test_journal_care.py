"""A command journal that SQLite calls corrupt: the start says so, and `roost doctor` helps."""

from contextlib import closing

import pytest
from click.testing import CliRunner

from connection.sqlite_journal import FILE, SqliteJournal
from roost.cli import main
from roost.home import RoostHome
from tests.roost.conftest import Machine


def damage(home: RoostHome) -> bytes:
    """A journal as a daemon leaves it, with the middle of the file overwritten."""
    home.journal.mkdir(parents=True)
    with closing(SqliteJournal(home.journal).open()):
        pass
    file = home.journal / FILE
    content = bytearray(file.read_bytes())
    content[100:300] = b"\xff" * 200
    file.write_bytes(content)
    return bytes(content)


def test_a_daemon_does_not_start_on_it_and_says_what_helps(machine: Machine) -> None:
    damage(machine.home)
    code, _, err = machine.run("daemon")
    assert code == 1
    assert "is damaged" in err
    assert "`roost doctor --fix` moves it aside" in err
    assert "Traceback" not in err
    assert not machine.home.daemon_json.exists()


def test_doctor_finds_it_and_moves_it_aside_when_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    was = damage(machine.home)
    file = machine.home.journal / FILE
    monkeypatch.setenv("ROOST_HOME", str(machine.home.path))
    found = CliRunner().invoke(main, ["doctor"])
    assert found.exit_code == 1
    assert "is damaged" in found.output
    assert file.read_bytes() == was, "looking changes nothing"

    fixed = CliRunner().invoke(main, ["doctor", "--fix"])
    assert fixed.exit_code == 0, fixed.output
    assert not file.exists()
    (aside,) = machine.home.journal.glob(f"{FILE}.damaged-*")
    assert aside.read_bytes() == was, "nothing is deleted"
    SqliteJournal(machine.home.journal).open().close()
