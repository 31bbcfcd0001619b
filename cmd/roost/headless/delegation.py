"""What this worker is as a subagent, and which way its own subagents are opened.

A worker of a daemon that has a port opens threads there. Anything else (one task, a subagent of
that, a worker without a port) runs them as processes of its own.
"""

import json
import sys
from collections.abc import Mapping
from functools import partial

from agent.domain.lineage import Lineage
from agent.domain.subagents import Delegation, OpenChild
from roost.headless.deferred_log import DeferredLog
from roost.headless.options import Options
from roost.home import RoostHome

_TOKEN = "ROOST_WORKER_TOKEN"
_URL = "ROOST_BINDING__URL"


def lineage_of(environ: Mapping[str, str]) -> Lineage | None:
    """Whose subagent the environment says that we are. A list that is empty allows no tool."""
    parent = environ.get("ROOST_SUBAGENT__PARENT")
    if not parent:
        return None
    depth = environ.get("ROOST_SUBAGENT__DEPTH", "")
    tools = environ.get("ROOST_SUBAGENT__TOOLS", "").split(",")
    return Lineage(
        parent=parent,
        # One that does not say how deep it is may be anywhere: at least it is below its parent.
        depth=max(1, int(depth)) if depth.isdecimal() else 1,
        tools=[name.strip() for name in tools if name.strip()],
    )


def delegation_of(
    options: Options,
    home: RoostHome,
    environ: Mapping[str, str],
    lineage: Lineage | None,
    log: DeferredLog,
    *,
    is_worker: bool,
) -> Delegation:
    """Inert. Only the worker of a daemon has a way to one."""
    from agent.infrastructure.presets import PresetFiles

    def is_trusted() -> bool:
        from roost.trust import BadTrustFile, TrustedProjects

        try:
            return TrustedProjects(home.trusted).includes(str(options.project_dir))
        except BadTrustFile:
            return False

    return Delegation(
        open_child=_open_child(home, environ, log, is_worker=is_worker),
        presets=PresetFiles(options.project_dir, home.path, is_trusted, log),
        lineage=lineage,
        reports=lineage is not None or options.keep_alive,
    )


def daemon_url(home: RoostHome, given: str) -> str:
    """Where the daemon is now: as its run file says, else where we were told at our start."""
    try:
        found = json.loads(home.daemon_json.read_bytes())
        return f"ws://{found['host']}:{int(found['port'])}/ws"
    except (OSError, ValueError, LookupError, TypeError):
        return given


def _open_child(
    home: RoostHome, environ: Mapping[str, str], log: DeferredLog, *, is_worker: bool
) -> OpenChild:
    url, token = environ.get(_URL), environ.get(_TOKEN)
    if is_worker and url and token:
        from agent.infrastructure.children.daemon_children import DaemonChildren

        return DaemonChildren(partial(daemon_url, home, url), token, log)
    from agent.infrastructure.children.kept_children import KeptChildren

    return KeptChildren([sys.executable, "-P", "-m", "roost"], environ, log)
