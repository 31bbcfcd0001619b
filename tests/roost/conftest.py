"""Real programs in a home of their own, none of which outlives its test."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from roost.home import RoostHome
from sessions.infrastructure.marks import home_mark, marked_processes

PATIENCE = 180.0


@dataclass(slots=True)
class Machine:
    """Runs `roost` commands with one home, as a shell would."""

    home: RoostHome
    environ: dict[str, str]
    started: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "roost", *arguments],
            env=self.environ | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def run(self, *arguments: str, **environ: str) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        process = self.start(*arguments, **environ)
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err

    def daemon(self, **environ: str) -> subprocess.Popen[str]:
        """A daemon that serves."""
        process = self.start("daemon", **environ)
        self.wait_ready(process)
        return process

    def wait_ready(self, process: subprocess.Popen[str]) -> None:
        give_up = time.monotonic() + PATIENCE
        while not (self.home.daemon_json.exists() and self.record()["pid"] == process.pid):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < give_up, "the daemon was not ready in time"
            time.sleep(0.01)  # another process: there is no event to wait for

    def record(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(self.home.daemon_json.read_text()))

    def log(self) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = []
        for file in sorted(self.home.logs.glob("*.log")):
            # Also while it is written: the last line may not be whole yet.
            whole, _, _ = file.read_text().rpartition("\n")
            lines += [json.loads(line) for line in whole.splitlines()]
        return lines

    def wait_logged(self, event: str) -> None:
        give_up = time.monotonic() + PATIENCE
        while not any(line["event"] == event for line in self.log()):
            assert time.monotonic() < give_up, f"{event} was not logged in time: {self.log()}"
            time.sleep(0.01)


@pytest.fixture
def machine(tmp_path: Path) -> Generator[Machine]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROOST_")}
    environ = clean | {"ROOST_HOME": str(tmp_path / "home"), "ROOST_BINDING__PORT": "0"}
    environ |= {"ROOST_BINDING__HELLO_TIMEOUT": "60s"}
    found = Machine(RoostHome(tmp_path / "home"), environ)
    yield found
    for process in found.started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)
    # Keepers, and what they keep, outlive a daemon that was killed.
    for left in marked_processes(home_mark(found.home.path)):
        left.end()
