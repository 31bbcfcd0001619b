"""Real keepers and a real pad for tests, without a daemon."""

import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

from sessions.domain.keeper_frames import PAD_READY
from sessions.domain.settings import RegistrySettings
from sessions.infrastructure.keeper_launcher import KeeperLauncher
from sessions.infrastructure.launch_pad import LaunchPad, pad_environment
from sessions.infrastructure.marks import VARIABLE, Mark, Role, home_mark, roomy
from sessions.infrastructure.warm_spare import WarmSpare

ROOT = Path(__file__).parents[2]
KEEPER = (sys.executable, "-P", "-m", "roost.keeper")
SCRIPTED_PAD = (sys.executable, str(Path(__file__).parent / "workers/scripted_pad.py"))
SCRIPTED_SPARE = (sys.executable, str(Path(__file__).parent / "workers/scripted_spare.py"))
SCRIPTED_KEEPER = (sys.executable, str(Path(__file__).parent / "workers/scripted_keeper.py"))
ENVIRON = {"PATH": "/usr/bin:/bin"}


def a_launcher(
    folder: Path,
    argv: Sequence[str],
    pad: LaunchPad | None = None,
    settings: RegistrySettings | None = None,
) -> KeeperLauncher:
    """Launches `argv` under keepers that leave their files in the folder.

    With a pad `argv` has to be that of the scripted worker, which then is what forks run.
    """
    return KeeperLauncher(
        argv=argv,
        is_ours=pad is not None,
        keeper_argv=KEEPER if pad is None else (*SCRIPTED_KEEPER, *argv[2:]),
        environ=ENVIRON,
        folder=folder,
        home=home_mark(folder),
        settings=settings or RegistrySettings(announces_ready=False, stop_grace=5.0),
        pad=pad,
    )


@contextmanager
def a_pad(argv: Sequence[str] = SCRIPTED_PAD) -> Generator[LaunchPad]:
    """A warm pad whose forks run the scripted worker."""
    ours, pads = socket.socketpair()
    environ = pad_environment(ENVIRON)
    environ[VARIABLE] = roomy(Mark("0" * 12, Role.PAD, "0" * 32))
    process = subprocess.Popen(
        [*argv, str(pads.fileno())], env=environ, pass_fds=(pads.fileno(),), cwd=ROOT
    )
    pads.close()
    try:
        ours.settimeout(120)
        assert ours.recv(1) == PAD_READY
        pad = LaunchPad(argv=argv, environ=ENVIRON, home="0" * 12)
        pad.offer(ours)
        yield pad
    finally:
        ours.close()
        process.wait(120)


@asynccontextmanager
async def a_spare(watched: Path, *words: str) -> AsyncGenerator[WarmSpare]:
    """Warm spares that become the scripted worker, the first of them warm."""
    spare = WarmSpare(argv=(*SCRIPTED_SPARE, str(watched), *words), environ=ENVIRON)
    async with spare.serving():
        assert spare.take() is None, "there is none before one is wanted"
        await spare_is_warm(spare)
        yield spare


async def spare_is_warm(spare: WarmSpare) -> None:
    while not spare.is_warm:  # noqa: ASYNC110 (another process: there is no event to wait for)
        await anyio.sleep(0.01)


def wait_until(holds: Callable[[], bool], patience: float = 120.0, every: float = 0.01) -> None:
    """Wait for something that other processes do; there is no event for it."""
    give_up = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < give_up, "it did not come to that in time"
        time.sleep(every)
