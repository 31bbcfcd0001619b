"""Both event loops for every async test that has no reason to name one."""

import logging
import signal
from collections.abc import Generator

import pytest
import structlog
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


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Generator[None]:  # pyright: ignore[reportUnusedFunction]
    """Programs configure logging for their process: the next test here has none of that."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        root.handlers[:] = handlers
        root.setLevel(level)
