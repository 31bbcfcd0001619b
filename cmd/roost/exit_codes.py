"""How every program of roost ends. Scripts and the demo rely on these numbers."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit status of a command."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    """No daemon answers."""
    WAITING = 4
    """It stopped because a person has to decide something first."""
    INTERRUPTED = 130
    """Ctrl-C, as a shell counts it: 128 + SIGINT."""
