"""Both event loops for every async test that has no reason to name one."""

import signal

import pytest
from hypothesis import settings

# The machine may be busy with other things: how long an example takes says nothing about the code.
settings.register_profile("roost", deadline=None)
settings.load_profile("roost")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="Write the golden transcripts (tests/golden) anew instead of comparing with them.",
    )


def pytest_configure() -> None:
    """A shell starts what runs in its background with Ctrl-C ignored, and children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)
