"""Every mix of Host, Origin, method, content type and token, on every route and on the upgrade.

The expected verdict comes from the small table below, which knows nothing of the code under test.
A route that takes a body refuses all but JSON; on the others no content type changes anything.
"""

import itertools
from pathlib import Path
from typing import Any

import anyio
import pytest

from agui.browser_relay import ExtensionRelay
from agui.peers import Peers
from agui.server import Binding
from agui.settings import BindingSettings
from tests.agui.fakes import FakeThreads
from tests.agui.panels import a_panel
from tests.agui.scenes import TOKEN, hello

PORT = 52789
LISTED = "https://app.example:8443"

HOSTS: dict[str | None, bool] = {
    "127.0.0.1:52789": True,
    "localhost:52789": True,
    "[::1]:52789": True,
    "evil.example:52789": False,
    "127.0.0.1:1": False,
    None: False,
}
ORIGINS: dict[str | None, bool] = {
    None: True,
    "chrome-extension://abc": True,
    "moz-extension://abc": True,
    "http://127.0.0.1:52789": True,
    LISTED: True,
    "https://app.example": False,
    "https://app.example:8443.evil": False,
    "http://localhost:3000": False,
    "https://127.0.0.1:52789": False,
    "null": False,
}
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
CONTENT_TYPES: dict[str | None, bool] = {
    None: False,
    "application/json": True,
    "Application/JSON; charset=utf-8": True,
    "text/plain": False,
    "application/x-www-form-urlencoded": False,
    "text/json": False,
}
TOKENS: dict[str | None, bool] = {
    None: False,
    f"Bearer {TOKEN}": True,
    "Bearer wrong": False,
    f"Basic {TOKEN}": False,
    "Bearer worker-token": False,
}
AGENT = "/agui/agent/default"
SAFE = ("GET", "HEAD")
READ = ("/status", "/api/threads", "/agui/info", f"{AGENT}/capabilities")
WRITTEN = (f"{AGENT}/run", f"{AGENT}/connect", f"{AGENT}/stop/t")
ROUTES = (
    *READ,
    *WRITTEN,
    "/",
    "/icon.svg",
    "/api/rename",
    "/api/links",
    "/api/sign-in",
    "/api/none",
    "/artifacts/p/a.txt",
    "/artifacts/p/none",
    "/ws",
    "/x",
    "/agui",
    "/agui/agent/nobody/run",
)


def expected(
    route: str,
    host: str | None,
    origin: str | None,
    method: str,
    content_type: str | None,
    token: bool,
) -> int:
    """The rules, as a person would say them."""
    is_artifact = route.startswith("/artifacts/")
    if not HOSTS[host]:
        return 400
    if not ORIGINS[origin] and not is_artifact:
        return 403
    if route in ("/", "/icon.svg"):
        return 200 if method in SAFE else 405
    if route in ("/api/rename", "/api/links", "/api/sign-in"):
        if method != "POST":
            return 405
        if not token and route != "/api/sign-in":
            return 401
        # The body of these requests is empty: even JSON does not fit.
        return 422 if CONTENT_TYPES[content_type] else 415
    if route in READ:
        if method not in SAFE:
            return 405
        return 200 if token else 401
    if route in WRITTEN or route.endswith("/run"):
        if method != "POST":
            return 405
        if not token:
            return 401
        if "nobody" in route:
            return 404
        if "/stop/" in route and content_type is None:
            return 200  # it needs no body
        # The body is empty: that is no JSON.
        return 400 if CONTENT_TYPES[content_type] else 415
    if is_artifact:
        if method not in SAFE:
            return 405
        return 200 if route.endswith("a.txt") else 404
    return 404


def a_binding(projects: Path | None = None) -> tuple[Any, FakeThreads]:
    threads = FakeThreads()
    settings = BindingSettings(
        token=TOKEN, port=PORT, allowed_origins=frozenset({LISTED}), projects=projects
    )
    binding = Binding(threads, settings, "9", ExtensionRelay(1000), a_panel(threads))
    peers = Peers(threads, PORT)
    return binding.application(binding.endpoint(peers), binding.http(peers), PORT), threads


def request(route: str, method: str, **headers: str | None) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "path": route,
        "raw_path": route.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [
            (name.replace("_", "-").encode(), value.encode())
            for name, value in headers.items()
            if value is not None
        ],
    }


async def answer(app: Any, scope: dict[str, Any]) -> tuple[int, dict[str, str]]:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    return start["status"], {k.decode(): v.decode() for k, v in start["headers"]}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_every_request_gets_the_verdict_of_the_table(route: str, tmp_path: Path) -> None:
    (tmp_path / "p" / "artifacts").mkdir(parents=True)
    (tmp_path / "p" / "artifacts" / "a.txt").write_text("a")
    app, threads = a_binding(tmp_path)
    wrong: list[str] = []
    for mix in itertools.product(HOSTS, ORIGINS, METHODS, CONTENT_TYPES, TOKENS):
        host, origin, method, content_type, token = mix
        scope = request(
            route, method, host=host, origin=origin, content_type=content_type, authorization=token
        )
        status, headers = await answer(app, scope)
        verdict = expected(route, host, origin, method, content_type, TOKENS[token])
        shared = origin == LISTED and HOSTS[host] and route.startswith(("/ws", "/agui"))
        allowed = headers.get("access-control-allow-origin")
        if (status, allowed) != (verdict, LISTED if shared else None):
            wrong.append(f"{route} {mix}: {status} {allowed}, should be {verdict}")
    assert wrong == []
    assert threads.handled == []


async def upgrade(app: Any, first: str, route: str = "/ws", **headers: str | None) -> str:
    """Try to open the WebSocket and say the frame: refused, closed in silence, or welcome."""
    scope = {**request(route, "GET", **headers), "type": "websocket"}
    sent: list[Any] = []
    came = [
        {"type": "websocket.connect"},
        {"type": "websocket.receive", "text": first},
        {"type": "websocket.disconnect", "code": 1000},
    ]
    said_welcome = anyio.Event()

    async def receive() -> Any:
        if len(came) == 1 and any(m["type"] == "websocket.accept" for m in sent):
            await said_welcome.wait()
        return came.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)
        if message["type"] == "websocket.send":
            said_welcome.set()

    with anyio.fail_after(60):
        await app(scope, receive, send)
    if sent[0]["type"] == "websocket.http.response.start":
        return str(sent[0]["status"])
    assert sent[0]["type"] == "websocket.accept"
    return "welcome" if len(sent) > 1 else "silence"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_every_upgrade_gets_the_verdict_of_the_table() -> None:
    app, threads = a_binding()
    firsts = {
        hello(): True,
        hello(token="wrong"): False,
        hello(token=None): False,
        '{"type":"new_session","project_dir":"/p"}': False,
    }
    wrong: list[str] = []
    for mix in itertools.product(HOSTS, ORIGINS, firsts, TOKENS):
        host, origin, first, authorization = mix
        verdict = "welcome" if firsts[first] else "silence"
        if not ORIGINS[origin]:
            verdict = "403"
        if not HOSTS[host]:
            verdict = "400"
        # The header is for HTTP: on the WebSocket, only the hello's token counts.
        got = await upgrade(app, first, host=host, origin=origin, authorization=authorization)
        if got != verdict:
            wrong.append(f"{mix}: {got}, should be {verdict}")
    assert wrong == []
    assert threads.handled == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_upgrade_elsewhere_is_judged_as_strictly(tmp_path: Path) -> None:
    """That artifacts may be shown anywhere is for requests, not for connections."""
    app, _ = a_binding(tmp_path)
    route = "/artifacts/p/a.txt"
    assert await upgrade(app, hello(), route, host="localhost:52789", origin="null") == "403"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("private", [None, "true"])
async def test_the_preflight_of_a_listed_page_is_answered(private: str | None) -> None:
    app, _ = a_binding()
    scope = request(
        "/agui/agent/x/run",
        "OPTIONS",
        host="127.0.0.1:52789",
        origin=LISTED,
        access_control_request_method="POST",
        access_control_request_private_network=private,
    )
    status, headers = await answer(app, scope)
    assert status == 204
    assert headers["access-control-allow-origin"] == LISTED
    assert "authorization" in headers["access-control-allow-headers"]
    assert headers["vary"] == "origin"
    assert headers.get("access-control-allow-private-network") == private
    assert "access-control-allow-credentials" not in headers


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("route", "origin", "status"),
    [
        ("/ws", "https://evil.example", 403),
        ("/agui/info", "null", 403),
        ("/status", LISTED, 405),
        ("/artifacts/p/a.txt", LISTED, 405),
        ("/agui/info", "http://127.0.0.1:52789", 405),
    ],
)
async def test_other_preflights_are_told_nothing(
    route: str, origin: str, status: int, tmp_path: Path
) -> None:
    app, _ = a_binding(tmp_path)
    got, headers = await answer(
        app,
        request(
            route,
            "OPTIONS",
            host="127.0.0.1:52789",
            origin=origin,
            access_control_request_method="POST",
        ),
    )
    assert got == status
    assert not any(name.startswith("access-control") for name in headers)
