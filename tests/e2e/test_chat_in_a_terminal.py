"""`roost` in a real terminal: starts the daemon, survives its end, and leaves the agent alone."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path

import pytest

PATIENCE = 180.0


class Terminal:
    """A terminal of its own server, so that nobody else's sessions are touched."""

    def __init__(self, socket: Path, home: Path, project: Path) -> None:
        self._socket = socket
        self.home = home
        environ = {
            "ROOST_HOME": str(home),
            "ROOST_BINDING__PORT": "0",
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
        }
        command = shlex.join([sys.executable, "-m", "roost"])
        self._tmux(
            *("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40", "-c", str(project)),
            *(part for name, value in environ.items() for part in ("-e", f"{name}={value}")),
            f"{command}; echo left with $?; read line",
        )

    def types(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def shown(self) -> str:
        return self._tmux("capture-pane", "-p")

    def wait_for(self, is_there: Callable[[str], bool]) -> str:
        """Return what is shown once it is right."""
        deadline = time.monotonic() + PATIENCE
        while not is_there(shown := self.shown()):
            assert time.monotonic() < deadline, f"this is what it showed:\n{shown}"
            time.sleep(0.1)
        return shown

    def wait_for_words(self, words: str) -> str:
        return self.wait_for(lambda shown: words in shown)

    def daemon_pid(self) -> int:
        return int(json.loads((self.home / "run/daemon.json").read_text())["pid"])

    def close(self) -> None:
        self._tmux("kill-server")

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        return done.stdout


@pytest.fixture
def terminal(tmp_path: Path) -> Generator[Terminal]:
    if shutil.which("tmux") is None:
        reason = "NOT TRIED IN A TERMINAL: tmux is not installed"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    home, project = tmp_path / "h", tmp_path / "p"
    home.mkdir()
    project.mkdir()
    made = Terminal(tmp_path / "t", home, project)
    try:
        yield made
    finally:
        made.close()
        stop = [sys.executable, "-m", "roost", "stop"]
        environ = {**os.environ, "ROOST_HOME": str(home)}
        subprocess.run(stop, env=environ, capture_output=True, timeout=PATIENCE, check=False)


def test_a_person_talks_approves_loses_the_daemon_and_goes_on(terminal: Terminal) -> None:
    terminal.wait_for_words("ready")
    terminal.types("run echo hello > made.txt", "Enter")
    terminal.wait_for_words("The agent wants to use Bash")
    terminal.types("y")
    terminal.wait_for_words("Bash worked")
    with suppress(ProcessLookupError):
        os.kill(terminal.daemon_pid(), signal.SIGKILL)
    terminal.types("still here")
    terminal.wait_for(lambda shown: "reconnecting" not in shown and "still here" in shown)
    terminal.types("Enter")
    terminal.wait_for_words("> still here")
    shown = terminal.wait_for(lambda shown: "You said: still here" in shown and "ready" in shown)
    assert shown.count("Bash worked") == 1
    terminal.types("C-c")
    shown = terminal.wait_for_words("left with 0")
    assert "Come back with: roost chat --resume" in shown
    assert terminal.daemon_pid() > 0
