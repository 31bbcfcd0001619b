"""Our own worker without a daemon: spawn to first line, and memory when idle and after a run."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import figure, machine

ROUNDS = 7
_COMMAND = (sys.executable, "-m", "roost", "headless", "--serve", "--require-approval")


def pss(pid: int) -> float:
    """The process's own share of memory, in MB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no Pss in smaps_rollup")


def spawn_floor() -> float:
    """An interpreter that only says a line."""
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", "print(1)"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        took = (time.perf_counter() - began) * 1000
    return took


def life(home: Path, project: Path, name: str) -> tuple[float, float, float]:
    """Milliseconds to the first line, and megabytes when idle and after a run."""
    env = {**os.environ, "ROOST_HOME": str(home), "PWD": str(project)}
    began = time.perf_counter()
    with subprocess.Popen(
        (*_COMMAND, "--session-id", name),
        cwd=project,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdout.readline()
        first = (time.perf_counter() - began) * 1000

        def ask(frame: dict[str, object], until: str) -> None:
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write(json.dumps(frame).encode() + b"\n")
            worker.stdin.flush()
            while json.loads(worker.stdout.readline())["type"] != until:
                pass

        # The answer waits for all that is prepared meanwhile: what comes after it is idle.
        ask({"type": "command", "id": "1", "name": "get_tools", "args": {}}, "command_result")
        idle = pss(worker.pid)
        message = {"id": "m", "role": "user", "content": "think\nread a.txt"}
        ask({"type": "run_agent_input", "input": {"messages": [message]}}, "RUN_FINISHED")
        after = pss(worker.pid)
        worker.stdin.close()
        worker.wait()
    return first, idle, after


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "project").mkdir()
        (folder / "project" / "a.txt").write_text("alpha\n")
        life(folder / "home", folder / "project", "first")  # byte code is made by the first one
        lives = [life(folder / "home", folder / "project", f"c{n}") for n in range(ROUNDS)]
        floor = [spawn_floor() for _ in range(ROUNDS)]
    figure("an interpreter's first line (floor)", floor, "ms")
    figure("a worker's first line", [each[0] for each in lives], "ms")
    figure("PSS when idle", [each[1] for each in lives], "MB")
    figure("PSS after a run", [each[2] for each in lives], "MB")


if __name__ == "__main__":
    main()
