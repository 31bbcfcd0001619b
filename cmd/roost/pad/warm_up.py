"""What a worker needs, imported and used once, so that its fork finds it ready."""

import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from roost.home import RoostHome
from sessions.infrastructure.worker_process import Program

# What a worker imports from its start to the end of its preparation.
_NEEDED = (
    "roost.headless.cli",
    "roost.headless.main",
    "roost.headless.preparation",
    "roost.headless.container",
    "roost.headless.delegation",
    "roost.logs",
    "agent.infrastructure.children.kept_children",
    "agent.infrastructure.presets",
    "agent.subagents.tools",
    "anyio._core._signals",
    "anyio._core._subprocesses",
    "genai_prices.data",
    "structlog",
)
_OURS = ("roost", "agent", "sessions")


def warm_up() -> Program:
    """Import the worker and the configured model's provider. Returns what runs a worker."""
    import anyio

    from roost.cli import main

    for module in _NEEDED:
        importlib.import_module(module)
    # The event loop's own modules are imported when one first runs.
    anyio.run(anyio.sleep, 0)
    _import_provider()

    def run(arguments: Sequence[str]) -> None:
        main(args=list(arguments), prog_name="roost")

    return run


def _import_provider() -> None:
    """Only the configured one: each of the others takes its tenths of a second and its memory."""
    from agent.infrastructure.models.catalogue import DEFAULT_MODEL, import_provider
    from roost.settings import load_headless

    home = RoostHome.from_environment(os.environ)
    # What is wrong with the settings or the provider is the worker's to say.
    with suppress(Exception):
        settings = load_headless(os.environ, home, "/")
        import_provider((settings.agent.model or DEFAULT_MODEL).partition(":")[0])


def sources() -> list[Path]:
    """The files whose change makes this pad stale: our code, the packages' folder, the settings."""
    found = [RoostHome.from_environment(os.environ).config]
    found += [Path(entry) for entry in sys.path if entry.endswith("site-packages")]
    for name in _OURS:
        package = importlib.import_module(name)
        for folder in package.__path__:
            found += sorted(Path(folder).rglob("*.py"))
    return found
