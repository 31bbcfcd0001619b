"""The warm spare's process: it has imported what a worker needs, and waits to be told whose it is.

For where nothing can be forked from a launch pad. It becomes one worker, in place: what a fresh
interpreter would be, without the time that this takes. It ends with its daemon, whose end is its
stdin's; and when what it imported is no longer what is on disk, it becomes a fresh interpreter.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sessions.infrastructure.sources import Sources
from sessions.infrastructure.spare_order import READY, heard_order
from sessions.infrastructure.worker_process import Program


def serve_spare(
    warm_up: Callable[[], Program], sources: Iterable[Path], fresh: Sequence[str]
) -> None:
    """Warm up, say so, and be the worker that is asked for. `fresh` is the command of a new one."""
    watched = Sources(sources)
    program = warm_up()
    os.write(1, READY)
    order = heard_order(0)
    if order is None:
        return
    os.chdir(order.project_dir)
    if watched.have_changed:
        os.execve(fresh[0], [*fresh, *order.arguments], order.environ)
    os.environ.clear()
    os.environ.update(order.environ)
    program(order.arguments)
