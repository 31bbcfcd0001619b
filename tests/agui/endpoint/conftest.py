"""One daemon, as a process, for all tests that need none of their own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roost.home import RoostHome
from tests.agui.scenes import TOKEN

# Starting takes seconds on a busy machine.
PATIENCE = 180.0


@dataclass(frozen=True, slots=True)
class Served:
    """The daemon, and a project and the name of a thread that no other test uses."""

    home: RoostHome
    port: int
    project: Path
    thread: str


@dataclass(frozen=True, slots=True)
class _Daemon:
    home: RoostHome
    port: int


@pytest.fixture(scope="package")
def _daemon(tmp_path_factory: pytest.TempPathFactory) -> Generator[_Daemon]:
    home = RoostHome(tmp_path_factory.mktemp("served").resolve())
    environ = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
    environ |= {"ROOST_HOME": str(home.path), "ROOST_BINDING__PORT": "0"}
    # What a test leaves behind is soon stopped: its threads are of no use to another one.
    environ |= {"ROOST_BINDING__TOKEN": TOKEN, "ROOST_WORKER__IDLE_TIMEOUT": "20s"}
    argv = [sys.executable, "-P", "-m", "roost", "daemon"]
    with subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL) as process:
        try:
            yield _Daemon(home, _ready(home.daemon_json, process)["port"])
        finally:
            process.terminate()


def _ready(path: Path, process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    give_up = time.monotonic() + PATIENCE
    while not path.exists():
        assert process.poll() is None, "the daemon ended"
        assert time.monotonic() < give_up, "the daemon was not ready in time"
        time.sleep(0.02)  # another process: there is no event to wait for
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.fixture
def served(_daemon: _Daemon, tmp_path: Path) -> Served:
    project = tmp_path.resolve() / "project"
    project.mkdir()
    return Served(_daemon.home, _daemon.port, project, f"thread-{time.monotonic_ns()}")
