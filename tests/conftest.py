"""Both event loops for every async test that has no reason to name one."""

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


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)
