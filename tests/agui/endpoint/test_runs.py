"""Inputs over HTTP, against the real daemon and its own worker."""

from pathlib import Path

import pytest

from tests.agui.endpoint.front_end import a_front_end
from tests.agui.real import a_real_daemon


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


async def test_a_run_streams_from_its_start_to_its_end_and_the_body_ends(
    tmp_path: Path,
) -> None:
    async with a_real_daemon(tmp_path) as daemon, a_front_end(daemon) as front:
        body = await front.run("hello")
        assert body.status == 200
        assert body.headers["content-type"] == "text/event-stream"
        assert b"\r" not in body.raw
        assert body.types[:2] == ["RUN_STARTED", "STATE_SNAPSHOT"]
        assert body.types.count("RUN_FINISHED") == 1
        assert body.types[-1] == "RUN_FINISHED"
        assert (body.events[0]["threadId"], body.events[0]["runId"]) == ("t1", "r1")
        assert all(body.ids)
