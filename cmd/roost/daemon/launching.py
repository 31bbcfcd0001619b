"""How this daemon starts workers: under keepers and from a launch pad, or as plain children.

Keepers need what only Linux has; elsewhere, and where the settings say so, a worker is a child of
the daemon and ends with it, and starts from a warm spare. The registry sees no difference.
"""

import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from roost.home import RoostHome
from roost.settings import WorkerSection
from sessions.domain.ports import FindSurvivors, LaunchWorker
from sessions.domain.settings import RegistrySettings
from sessions.infrastructure.control_groups import ControlGroups
from sessions.infrastructure.keeper_launcher import KeeperLauncher
from sessions.infrastructure.launch_pad import LaunchPad
from sessions.infrastructure.marks import home_mark
from sessions.infrastructure.subprocess_worker import SubprocessLauncher
from sessions.infrastructure.survivors import KeeperSurvivors
from sessions.infrastructure.sweep import Sweeper
from sessions.infrastructure.warm_spare import WarmSpare

log = structlog.stdlib.get_logger()

# `-P` keeps the working directory, which is the user's project, out of the import path: a folder
# of theirs named like one of our packages must not be run in its place.
_PYTHON = (sys.executable, "-P")


@dataclass(frozen=True, slots=True)
class Launching:
    """The ports that the registry gets, and what has to be entered for them."""

    launch: LaunchWorker
    survivors: FindSurvivors | None = None
    launcher: KeeperLauncher | None = None
    pad: LaunchPad | None = None
    spare: WarmSpare | None = None
    sweeper: Sweeper | None = None

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Whatever runs beside the workers."""
        async with AsyncExitStack() as stack:
            if self.sweeper is not None:
                await stack.enter_async_context(self.sweeper.serving())
            if self.pad is not None:
                await stack.enter_async_context(self.pad.serving())
            if self.spare is not None:
                await stack.enter_async_context(self.spare.serving())
            yield

    def leave_workers(self) -> None:
        """At the end of the daemon its workers go on, where they can."""
        if self.launcher is not None:
            self.launcher.leaves_workers = True


def worker_argv(worker: WorkerSection) -> Sequence[str]:
    """The configured command, else this very program."""
    return worker.command or (*_PYTHON, "-m", "roost")


def control_groups(worker: WorkerSection, home: str) -> ControlGroups | None:
    """Where the settings say that there are to be some."""
    if worker.control_group is None:
        if worker.memory_limit is not None or worker.process_limit is not None:
            log.warning("limits_without_control_group", setting="worker.control_group")
        return None
    folder = Path(worker.control_group)
    return ControlGroups(folder, home, worker.memory_limit, worker.process_limit)


def launching(
    worker: WorkerSection,
    home: RoostHome,
    settings: RegistrySettings,
    environ: dict[str, str],
    open_files: int,
) -> Launching:
    """Build it, as the platform and the settings allow. Starts nothing."""
    argv = worker_argv(worker)
    is_ours = worker.command is None
    if sys.platform != "linux" or not worker.outlives_daemon:
        spare = None
        if is_ours and worker.launch_pad:
            spare = WarmSpare(argv=(*_PYTHON, "-m", "roost.spare"), environ=environ)
        plain = SubprocessLauncher(argv=argv, environ=environ, open_files=open_files, spare=spare)
        return Launching(plain, spare=spare)
    mark = home_mark(home.path)
    pad = None
    if is_ours and worker.launch_pad:
        pad = LaunchPad(argv=(*_PYTHON, "-m", "roost.pad"), environ=environ, home=mark)
    groups = control_groups(worker, mark)
    sweeper = Sweeper(mark, os.getpid(), own_pad=lambda: pad.pid if pad else None, groups=groups)
    launcher = KeeperLauncher(
        argv=argv,
        is_ours=is_ours,
        keeper_argv=(*_PYTHON, "-m", "roost.keeper"),
        environ=environ,
        folder=home.keepers,
        home=mark,
        settings=settings,
        pad=pad,
        open_files=open_files,
        groups=groups,
        keeper_lost=sweeper.ask,
    )
    survivors = KeeperSurvivors(launcher, home.keepers, mark)
    return Launching(launcher, survivors, launcher, pad, sweeper=sweeper)
