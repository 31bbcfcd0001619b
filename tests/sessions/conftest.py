"""The registry's rules are loop-independent: told once, on trio, where settling costs no time.

What does depend on the loop (serving, the subprocess launcher) is tested on both by its own module.
"""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "trio"
