"""The steps at which a test kills the daemon: one for each point where it owes somebody something.

Nothing arms them but a test's own program; then `reached` ends the process as SIGKILL does.
"""

import os
import signal
from enum import StrEnum


class Step(StrEnum):
    """In the order in which a worker's life passes them."""

    LAUNCH_BEGUN = "launch_begun"
    KEEPER_STARTED = "keeper_started"
    LAUNCH_TOLD = "launch_told"
    LAUNCH_ANSWERED = "launch_answered"
    LINE_SENT = "line_sent"
    LINES_RECEIVED = "lines_received"
    LINES_DELIVERED = "lines_delivered"
    ADOPT_CONNECTED = "adopt_connected"
    ADOPT_TOLD = "adopt_told"
    ADOPT_ANSWERED = "adopt_answered"
    STOP_ASKED = "stop_asked"
    STOP_ANSWERED = "stop_answered"
    FAREWELL_SAID = "farewell_said"


class _Armed:
    step: Step | None = None


def arm(step: Step) -> None:
    """Die at this step."""
    _Armed.step = step


def reached(step: Step) -> None:
    if step is _Armed.step:
        os.kill(os.getpid(), signal.SIGKILL)
