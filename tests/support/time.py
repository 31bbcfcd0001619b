"""Virtual time: a day passes in no time, and only when every task waits.

Where real sockets are asked, on asyncio, a test lets time pass by hand: `later`.
"""

import asyncio  # noqa: TID251 (the clock is the loop's own)

import pytest
from trio.testing import MockClock

MINUTE = 60.0
HOUR = 60 * MINUTE

virtual_time = pytest.mark.parametrize(
    "anyio_backend",
    [pytest.param(("trio", {"clock": MockClock(autojump_threshold=0)}), id="virtual")],
)


def later(seconds: float) -> None:
    """For the loop that runs here it is so much later, at once; what was to wait so long is due.

    Deadlines can be long then: none passes because the machine is held up.
    """
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]
