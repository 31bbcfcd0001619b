"""Importing a library quickly at the start, and politely later.

Without the optional extras it looks for, and without collecting garbage: structlog draws
tracebacks with rich if that is installed, the container library reads settings with two others, and
nothing that an import makes is garbage. None of it is ever used in the daemon, and it was a third
of the time until it serves.
"""

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager

# How long a thread that imports may keep the interpreter from an event loop that wants it. With the
# usual 5 ms the loop gets a turn too rarely: each of its turns waits so long for the next.
_POLITE = 0.0005


@contextmanager
def polite_imports() -> Generator[None]:
    """For a long import in a thread: the event loop gets its turns while it goes on."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_POLITE)
    try:
        with quick_imports():
            yield
    finally:
        sys.setswitchinterval(usual)


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
