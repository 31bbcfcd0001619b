"""Virtual time: a day passes in no time, and only when every task waits."""

import pytest
from trio.testing import MockClock

MINUTE = 60.0
HOUR = 60 * MINUTE

virtual_time = pytest.mark.parametrize(
    "anyio_backend",
    [pytest.param(("trio", {"clock": MockClock(autojump_threshold=0)}), id="virtual")],
)
