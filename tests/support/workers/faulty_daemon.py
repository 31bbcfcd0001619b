"""Daemons that die at a step: `<python> faulty_daemon.py`.

Told a folder and a step, or "none", as one JSON list a line; answers with the exit code. Each is a
fork, since the imports take longer than all the rest. It takes over what there is, opens a thread,
has it run, and stops it.
"""

import json
import os
import sys
import traceback
from pathlib import Path

import anyio
import structlog

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "cmd")]

from sessions.domain.settings import RegistrySettings  # noqa: E402
from sessions.infrastructure.fault_points import Step, arm  # noqa: E402
from sessions.infrastructure.marks import home_mark  # noqa: E402
from sessions.infrastructure.survivors import KeeperSurvivors  # noqa: E402
from sessions.infrastructure.sweep import Sweeper  # noqa: E402
from sessions.registry import Registry  # noqa: E402
from tests.support.fakes import FakeClient  # noqa: E402
from tests.support.keepers import a_launcher  # noqa: E402

WORKER = str(Path(__file__).with_name("scripted.py"))


async def main(folder: Path, step: str) -> None:
    if step != "none":
        arm(Step(step))
    keepers = folder / "keepers"
    home = home_mark(keepers)
    settings = RegistrySettings(stop_grace=5.0)
    launcher = a_launcher(keepers, (sys.executable, WORKER, "counts"), settings=settings)
    registry = Registry(launcher, settings, survivors=KeeperSurvivors(launcher, keepers, home))
    client = FakeClient("c")
    async with Sweeper(home, os.getpid()).serving(), registry.serving():
        opening = {"type": "resume_conversation", "project_dir": str(folder), "id": "c"}
        registry.handle(client, json.dumps(opening).encode())
        message = {"id": "m", "role": "user", "content": "4"}
        run = {"type": "run_agent_input", "input": {"messages": [message]}}
        registry.handle(client, json.dumps(run).encode())
        while "RUN_FINISHED" not in client.types:  # noqa: ASYNC110 (the fake has no event)
            await anyio.sleep(0.01)
        assert "MESSAGES_SNAPSHOT" in client.types
        stopping = {"type": "stop_thread", "project_dir": str(folder), "id": "c"}
        registry.handle(client, json.dumps(stopping).encode())
        while any(view.worker_pid for view in registry.views()):  # noqa: ASYNC110
            await anyio.sleep(0.01)


def live(folder: Path, step: str) -> None:
    """Be that daemon. Never returns."""
    code = 1
    try:
        anyio.run(main, folder, step)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    for told in sys.stdin:
        folder, step = json.loads(told)
        pid = os.fork()
        if pid == 0:
            live(Path(folder), step)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()
