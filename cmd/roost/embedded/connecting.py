"""`roost.connect`: the public door for programs that embed roost. Either adapter, one call.

It is the composition root of the program around it: settings come from the roost home, and what has
a lifetime lives as long as the `async with` block.
"""

import os
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import structlog

from connection.daemon import DaemonConnection, Wishes
from connection.in_process import InProcessConnection
from connection.port import AgentConnection
from roost.daemon.starting import on_demand
from roost.embedded.in_process_worker import InProcessLauncher
from roost.home import RoostHome
from roost.logs import configure
from roost.panel.catalogue import SavedConversations
from roost.saved_sessions import SavedSessionFiles
from sessions.domain.keys import ThreadKey, ThreadOptions
from sessions.domain.settings import RegistrySettings
from sessions.registry import Registry

# How long a session of this process may take to end with the block.
_GRACE = 5.0


@asynccontextmanager
async def connect(
    project_dir: str | Path = ".",
    session: str | None = None,
    *,
    resume: str | None = None,
    in_process: bool = False,
    model: str | None = None,
    mode: str | None = None,
    last_messages: int | None = None,
    name: str | None = None,
) -> AsyncGenerator[AgentConnection]:
    """A connection to a session of a project, while the block runs.

    `session` is a conversation id: one that exists goes on, any other begins; without one a new
    conversation begins. `resume` is a selector instead (an id, a part of one, or a name) of a
    session of any project; one that names none, or several, is an error. The daemon is started
    when none runs; the session goes on there after the block. `in_process` keeps everything in
    this process instead, and ends the session with the block; what it did is in the conversation.
    `name` is what others read when a decision was made here: "answered in the terminal".
    Raises ConnectionFailure.
    """
    target = resume or ThreadKey.parse(_absolute(project_dir), session or str(uuid.uuid4()))
    options = ThreadOptions(model=model, mode=mode)
    home = RoostHome.from_environment(os.environ)
    if not in_process:
        daemon = on_demand()
        wishes = Wishes(last_messages=last_messages, name=name)
        attached = DaemonConnection(daemon.dial, daemon.ensure, wishes)
        async with attached.attached(target, options):
            yield attached
        return
    failure: Exception | None = None
    async with _in_process(home, last_messages, name) as connection:
        try:
            await connection.attach(target, options)
            yield connection
        except Exception as exc:
            failure = exc
    if failure is not None:
        # Raised out here, it is itself; inside it would come out wrapped by our task groups.
        raise failure


@asynccontextmanager
async def _in_process(
    home: RoostHome, last_messages: int | None, name: str | None
) -> AsyncGenerator[InProcessConnection]:
    if not structlog.is_configured():
        # Left alone it would print every fact to stdout, which is the program's own.
        configure("warning", stderr_json=False)
    launch = InProcessLauncher(home=home, environ=dict(os.environ))
    registry = Registry(launch, RegistrySettings(stop_grace=_GRACE))
    async with registry.serving():
        connection = InProcessConnection(
            registry, SavedSessionFiles(SavedConversations(home)), last_messages, name
        )
        try:
            yield connection
            connection.end()
        finally:
            with anyio.CancelScope(shield=True, deadline=anyio.current_time() + _GRACE):
                await connection.aclose()


def _absolute(path: str | Path) -> str:
    """By the name it was given: a link to a folder is a project of its own."""
    return str(Path(path).absolute())
