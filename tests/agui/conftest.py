"""The published clients as judges: one node process for all the tests that ask them."""

from collections.abc import Generator

import pytest

from tests.support.stream_judge import StreamJudge, a_stream_judge


@pytest.fixture(scope="session")
def judge() -> Generator[StreamJudge]:
    with a_stream_judge() as judge:
        yield judge
