"""Importing a library without the optional extras it looks for, and without collecting garbage.

Both only cost the start: structlog draws tracebacks with rich if that is installed, the container
library reads settings with two others, and nothing that an import makes is garbage. None of it is
ever used in the daemon, and it was a third of the time until it serves.
"""

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def quick_imports(*without: str) -> Generator[None]:
    """Inside the block these modules are not found, unless they are imported already."""
    hidden = [name for name in without if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment] # pyright: ignore[reportArgumentType]
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
        if was_enabled:
            gc.enable()
