"""A daemon of a registry, a pad, keepers and a sweeper, whose threads are opened again and again.

`<python> killable_daemon.py <folder> <threads>`. Every worker starts a process that tries to get
away. Ends in order at a SIGTERM.
"""

import json
import os
import signal
import sys
from pathlib import Path

import anyio
import structlog

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "cmd")]

from sessions.domain.settings import RegistrySettings  # noqa: E402
from sessions.infrastructure.launch_pad import LaunchPad  # noqa: E402
from sessions.infrastructure.marks import home_mark  # noqa: E402
from sessions.infrastructure.survivors import KeeperSurvivors  # noqa: E402
from sessions.infrastructure.sweep import Sweeper  # noqa: E402
from sessions.registry import Registry  # noqa: E402
from tests.support.fakes import FakeClient  # noqa: E402
from tests.support.keepers import ENVIRON, SCRIPTED_PAD, a_launcher  # noqa: E402


async def main(folder: Path, threads: int) -> None:
    keepers = folder / "keepers"
    home = home_mark(keepers)
    pad = LaunchPad(argv=(*SCRIPTED_PAD, "leaves-processes", str(folder / "away")), environ=ENVIRON,
                    home=home)  # fmt: skip
    sweeper = Sweeper(home, os.getpid(), own_pad=lambda: pad.pid)
    scripted = str(Path(__file__).with_name("scripted.py"))
    argv = (sys.executable, scripted, "leaves-processes", str(folder / "away"))
    settings = RegistrySettings(
        announces_ready=False, stop_grace=1.0, durable_interrupts=False, backoff=(0.0,) * 1000
    )
    launcher = a_launcher(keepers, argv, pad, settings)
    launcher.keeper_lost = sweeper.ask
    registry = Registry(launcher, settings, survivors=KeeperSurvivors(launcher, keepers, home))
    async with sweeper.serving(), pad.serving(), registry.serving():
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        clients = [FakeClient(f"c{number}") for number in range(threads)]
        with anyio.open_signal_receiver(signal.SIGTERM) as signals:
            async with anyio.create_task_group() as tasks:

                async def open_again() -> None:
                    while True:
                        alive = {v.conversation_id for v in registry.views() if v.worker_pid}
                        for client in clients:
                            client.received.clear()
                            if client.name not in alive:
                                opening = {"type": "resume_conversation", "id": client.name,
                                           "project_dir": str(folder)}  # fmt: skip
                                registry.handle(client, json.dumps(opening).encode())
                        await anyio.sleep(0.1)

                tasks.start_soon(open_again)
                async for _ in signals:
                    break
                tasks.cancel_scope.cancel()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
