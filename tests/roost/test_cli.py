"""The command group: names, help, exit codes."""

import os
import pty
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from roost.cli import main
from roost.exit_codes import ExitCode
from roost.version import VERSION
from tests.roost.conftest import PATIENCE, Machine


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["version"] == VERSION
    assert CliRunner().invoke(main, ["--version"]).output == f"roost, version {VERSION}\n"


def test_help_lists_every_command() -> None:
    output = CliRunner().invoke(main, ["--help"]).output
    for name in ("daemon", "status", "stop", "logs", "trust", "demo", "headless"):
        assert f"  {name} " in output


@pytest.mark.parametrize("arguments", [["nothing"], ["status", "--nothing"], ["logs", "-n", "-1"]])
def test_a_wrong_call_is_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, arguments).exit_code == ExitCode.USAGE


@pytest.mark.parametrize("name", ["daemon", "status", "stop", "logs", "trust"])
def test_every_command_explains_itself(name: str) -> None:
    answer = CliRunner().invoke(main, [name, "--help"])
    assert answer.exit_code == 0
    assert f"Usage: main {name}" in answer.output


def always(command: click.Command) -> Callable[[click.Context, str], click.Command]:
    return lambda ctx, name: command


def test_a_command_ends_with_the_code_it_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def waits() -> ExitCode:
        return ExitCode.WAITING

    monkeypatch.setattr(main, "get_command", always(waits))
    assert CliRunner().invoke(main, ["waits"]).exit_code == 4


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "get_command", always(interrupted))
    assert CliRunner().invoke(main, ["interrupted"]).exit_code == 130


@pytest.mark.parametrize(
    ("terminal", "says"), [("dumb", "TERM is 'dumb'"), ("", "TERM is ''"), (None, "a terminal;")]
)
def test_the_chat_says_so_where_it_can_not_be_shown(
    machine: Machine, terminal: str | None, says: str
) -> None:
    """None: no terminal at all. No daemon is started for it."""
    ours, theirs = pty.openpty()
    try:
        end = subprocess.DEVNULL if terminal is None else theirs
        done = subprocess.run(
            [sys.executable, "-m", "roost", "chat"],
            env=machine.environ | {"TERM": terminal or ""},
            stdin=end,
            stdout=end,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == ExitCode.USAGE
    assert says in done.stderr.decode()
    assert not machine.home.path.exists()
