"""A page of another origin: what its browser is told, on every route, listed and not."""

import pytest

from tests.agui.endpoint.front_end import a_front_end
from tests.agui.endpoint.staged import a_staged_endpoint

LISTED = "http://localhost:3000"
UNLISTED = "http://localhost:3001"
ROUTES = {
    "/agui/info": "GET",
    "/agui/agent/default/capabilities": "GET",
    "/agui/agent/default/run": "POST",
    "/agui/agent/default/connect": "POST",
    "/agui/agent/default/stop/t1": "POST",
}


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


async def test_a_listed_page_may_ask_and_read_on_every_route_and_another_on_none() -> None:
    async with (
        a_staged_endpoint(allowed_origins=frozenset({LISTED})) as daemon,
        a_front_end(daemon) as front,
    ):
        for route, method in ROUTES.items():
            question = {
                "access-control-request-method": method,
                "access-control-request-headers": "authorization, content-type",
            }
            answer = await front.http.options(route, headers={"origin": LISTED, **question})
            assert (answer.status_code, answer.content) == (204, b"")
            assert answer.headers["access-control-allow-origin"] == LISTED
            assert method in answer.headers["access-control-allow-methods"].split(", ")
            allowed = answer.headers["access-control-allow-headers"].split(", ")
            assert {"authorization", "content-type"} <= set(allowed)

            answer = await front.http.options(route, headers={"origin": UNLISTED, **question})
            assert answer.status_code == 403
            assert not [name for name in answer.headers if name.startswith("access-control")]

            answer = await front.http.request(method, route, headers={"origin": LISTED})
            assert answer.headers["access-control-allow-origin"] == LISTED, "refusals can be read"
            assert "origin" in answer.headers["vary"]
            answer = await front.http.request(method, route, headers={"origin": UNLISTED})
            assert answer.status_code == 403
            assert not [name for name in answer.headers if name.startswith("access-control")]
        assert daemon.stage.launches == []


async def test_a_listed_page_reads_a_run() -> None:
    async with (
        a_staged_endpoint(allowed_origins=frozenset({LISTED})) as daemon,
        a_front_end(daemon) as front,
        front.streams("run", front.input("hello"), {"origin": LISTED}) as body,
    ):
        assert body.status == 200
        assert body.headers["access-control-allow-origin"] == LISTED


async def test_a_preflight_of_a_page_with_headers_of_its_own_is_answered() -> None:
    """Front ends add headers (a trace, a session); the user listed the page, so it is trusted."""
    async with (
        a_staged_endpoint(allowed_origins=frozenset({LISTED})) as daemon,
        a_front_end(daemon) as front,
    ):
        question = {
            "origin": LISTED,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type,x-trace",
        }
        answer = await front.http.options("/agui/agent/default/run", headers=question)
        assert "x-trace" in answer.headers["access-control-allow-headers"].split(", ")
