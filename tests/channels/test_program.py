"""The programs that host the channel, as real processes: `roost channels`, and the daemon."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from click.testing import CliRunner

from roost.channels.container import ChannelsContainer
from roost.channels.infrastructure.find_daemon import FindDaemon
from roost.channels.infrastructure.report_reader import read_reports
from roost.channels.infrastructure.state_file import ChannelTaken, StateFile
from roost.channels.main import Channels
from roost.cli import main
from roost.home import RoostHome
from roost.settings import BindingSection, TelegramSection
from tests.channels.fake_telegram import PERSON, TOKEN, FakeTelegram
from tests.channels.telegram_scenes import anyio_backend as anyio_backend
from tests.roost.conftest import Machine
from tests.roost.conftest import machine as machine

# Two imports of a large library, each several seconds of processor time.
PATIENCE = 180.0


def given(url: str, project: Path) -> dict[str, str]:
    return {
        "ROOST_TELEGRAM__TOKEN": TOKEN,
        "ROOST_TELEGRAM__ALLOWED_CHATS": str(PERSON),
        "ROOST_TELEGRAM__PROJECT": str(project),
        "ROOST_TELEGRAM__API_URL": url,
        "ROOST_TELEGRAM__POLL_TIMEOUT": "5s",
    }


def reports(machine: Machine) -> list[str]:
    return [str(report["status"]) for report in read_reports(machine.home.channel_reports)]


async def until(is_so: Callable[[], Any]) -> None:
    """Another process: there is no event to wait for."""
    with anyio.fail_after(PATIENCE):
        while not is_so():  # noqa: ASYNC110
            await anyio.sleep(0.05)


async def test_the_channel_runs_beside_a_daemon_and_outlives_it(
    machine: Machine, tmp_path: Path
) -> None:
    """A message is answered, an approval counts, and a new daemon is found again."""
    telegram = FakeTelegram()
    project = tmp_path / "project"
    project.mkdir()
    async with telegram.serving() as url:
        machine.environ |= {"ROOST_WORKER__STOP_GRACE": "1s"}
        await to_thread.run_sync(machine.daemon)
        channels = machine.start("channels", **given(url, project))
        await telegram.until_true(lambda: telegram.count("getUpdates") > 0, PATIENCE)
        telegram.writes("run echo done > out.txt")
        asked = await telegram.until(lambda s: "waits for your" in s.text, patience=PATIENCE)
        telegram.presses("Approve", asked)
        await telegram.until(lambda s: "Approved by Ada, here" in s.text, patience=PATIENCE)
        await until((project / "out.txt").exists)
        await until(lambda: reports(machine) == ["connected"])
        status, out, _ = await to_thread.run_sync(machine.run, "status")
        assert (status, "telegram: connected" in out) == (0, True)
        assert (await to_thread.run_sync(machine.run, "stop"))[0] == 0
        telegram.writes("while no daemon runs")
        await until(lambda: "while no daemon runs" in state_text(machine))
        await to_thread.run_sync(machine.daemon)
        await telegram.until(lambda s: "while no daemon runs" in s.text, patience=PATIENCE)
        channels.send_signal(signal.SIGTERM)
        out, err = await to_thread.run_sync(channels.communicate)
        assert channels.returncode == 0
        assert TOKEN.partition(":")[2] not in out + err
        assert reports(machine) == []
        await to_thread.run_sync(machine.run, "stop")


def state_text(machine: Machine) -> str:
    return " ".join(file.read_text() for file in machine.home.channels.glob("*.json"))


async def test_a_killed_daemon_answers_once_what_was_written_meanwhile(
    machine: Machine, tmp_path: Path
) -> None:
    telegram = FakeTelegram()
    project = tmp_path / "project"
    project.mkdir()
    async with telegram.serving() as url:
        settings = {**given(url, project), "ROOST_TELEGRAM__ENABLED": "true"}
        daemon = await to_thread.run_sync(lambda: machine.daemon(**settings))
        telegram.writes("first")
        await telegram.until(lambda s: "You said: first" in s.text, patience=PATIENCE)
        os.kill(daemon.pid, signal.SIGKILL)
        await to_thread.run_sync(daemon.wait)
        telegram.writes("second")
        await to_thread.run_sync(lambda: machine.daemon(**settings))
        await telegram.until(lambda s: "You said: second" in s.text, patience=PATIENCE)
        said = [text for text in telegram.texts() if "You said" in text]
        assert len(said) == 2
        (file,) = machine.home.channels.glob("*.json")
        assert file.stat().st_mode & 0o777 == 0o600
        assert TOKEN.partition(":")[2] not in "".join(map(str, machine.log()))
        await to_thread.run_sync(machine.run, "stop")


@pytest.mark.parametrize(
    ("settings", "code", "says"),
    [
        ({}, 1, "no channel is set up"),
        ({"ROOST_TELEGRAM__TOKEN": TOKEN, "ROOST_TELEGRAM__ENABLED": "true"}, 1, "the daemon runs"),
        ({"ROOST_TELEGRAM__TOKEN": TOKEN}, 3, "No daemon is running"),
    ],
)
def test_channels_says_why_it_does_not_start(
    tmp_path: Path, settings: dict[str, str], code: int, says: str
) -> None:
    environ = {"ROOST_HOME": str(tmp_path), **settings}
    answer = CliRunner().invoke(main, ["channels"], env=environ)
    assert answer.exit_code == code
    assert says in answer.output


def test_every_provider_of_the_container_builds(tmp_path: Path) -> None:
    home = RoostHome(tmp_path)
    container = ChannelsContainer(
        home=home, telegram=TelegramSection(), find_daemon=FindDaemon(home, BindingSection())
    )
    container.check_dependencies()
    assert isinstance(container.program(), Channels)


def test_one_process_at_a_time_has_a_channel(tmp_path: Path) -> None:
    """Two would answer twice, and each would lose what the other confirmed."""
    first, second = StateFile(tmp_path / "t.json"), StateFile(tmp_path / "t.json")
    with first.held(), pytest.raises(ChannelTaken), second.held():
        raise AssertionError("two have it")
    with second.held():
        pass


def test_a_damaged_state_is_put_aside_and_said(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text("{")
    state, damage = StateFile(file).load()
    assert (state.chats, file.exists()) == ({}, False)
    assert damage is not None and "damaged" in damage
    assert file.with_suffix(".damaged").read_text() == "{"
