"""The panel's API over a real port: rows, the feed, deleting, signing in and out."""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

import anyio
import httpx2
import pytest

from agui.browser_relay import ExtensionRelay
from agui.panel.panel import Panel
from agui.server import Binding, listen
from agui.settings import BindingSettings
from sessions.domain.keys import ThreadKey
from sessions.domain.ports import Client, ThreadView
from tests.agui.fakes import FakeThreads
from tests.agui.panels import FakeCatalogue, MemoryStore, a_panel, saved
from tests.agui.scenes import MIB, TOKEN, Scene, closing, hello, said

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])

NAMED = {"project_dir": "/p", "id": "c1"}


class WatchedThreads(FakeThreads):
    """Tells watchers of views that a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.watchers: list[Any] = []
        self.watched = anyio.Event()
        self.unwatched = anyio.Event()

    def watch(self, watcher: Any) -> Any:
        self.watched.set()
        self.watchers.append(watcher)

        def end() -> None:
            self.watchers.remove(watcher)
            self.unwatched.set()

        return end

    def shows(self, **changed: object) -> None:
        members: dict[str, object] = {
            "project_dir": "/p", "conversation_id": "c1", "status": "idle", "run_id": None,
            "interrupts": (), "followers": 0, "worker_pid": 2**30, "generation": "g", "since": 0.0,
        }  # fmt: skip
        view = ThreadView(**(members | changed))  # type: ignore[arg-type]
        self.known = (view,)
        for watcher in tuple(self.watchers):
            watcher(ThreadKey.parse("/p", view.conversation_id), view)


@dataclass(slots=True)
class ApiScene:
    http: httpx2.AsyncClient
    threads: WatchedThreads
    catalogue: FakeCatalogue
    store: MemoryStore
    panel: Panel
    scene: Scene

    async def post(self, path: str, body: object = None, token: str = TOKEN) -> Any:
        headers = {"authorization": f"Bearer {token}"}
        return await self.http.post(path, json=body or {}, headers=headers)

    async def session(self) -> str:
        link = (await self.post("/api/links")).json()["link"]
        answer = await self.http.post("/api/sign-in", json={"link": link})
        return cast(str, answer.json()["session"])


@asynccontextmanager
async def an_api(
    store: MemoryStore | None = None, *, write_timeout: float = 10.0
) -> AsyncGenerator[ApiScene]:
    threads, catalogue, store = WatchedThreads(), FakeCatalogue(), store or MemoryStore()
    panel = a_panel(threads, catalogue, store)
    relay = ExtensionRelay(MIB)
    settings = BindingSettings(token=TOKEN, port=0, write_timeout=write_timeout)
    binding = Binding(threads, settings, "9", relay, panel)
    with anyio.fail_after(120), listen(0) as listener:
        async with binding.serving(listener) as port:
            base = f"http://127.0.0.1:{port}"
            async with httpx2.AsyncClient(base_url=base, trust_env=False, timeout=60) as http:
                scene = Scene(port, threads, relay)
                yield ApiScene(http, threads, catalogue, store, panel, scene)


@dataclass(slots=True)
class Heard:
    """A feed, event by event."""

    lines: Any

    async def event(self) -> tuple[str, Any]:
        kind = ""
        async for line in self.lines:
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return kind, json.loads(line.removeprefix("data: "))
        raise EOFError


@asynccontextmanager
async def a_feed(api: ApiScene, token: str = TOKEN) -> AsyncGenerator[Heard]:
    headers = {"authorization": f"Bearer {token}"}
    async with api.http.stream("GET", "/api/feed", headers=headers) as response:
        assert response.status_code == 200
        yield Heard(response.aiter_lines())


async def test_the_feed_is_the_list_and_then_what_changes() -> None:
    async with an_api() as api:
        api.catalogue.keep(saved(outcome="interrupt"))
        async with a_feed(api) as feed:
            kind, rows = await feed.event()
            assert kind == "threads"
            assert [(row["id"], row["state"]) for row in rows] == [("c1", "waiting")]
            api.threads.shows(status="running", run_id="r1")
            kind, row = await feed.event()
            assert (kind, row["state"], row["title"]) == ("thread", "running", "water the plants")
        api.threads.shows(status="idle")


async def test_a_feed_that_was_left_is_forgotten() -> None:
    """A tab that is closed must not be told things for ever."""
    async with an_api() as api:
        async with a_feed(api) as feed:
            await feed.event()
            assert len(api.threads.watchers) == 1
        await api.threads.unwatched.wait()
        assert api.threads.watchers == []


async def test_a_page_that_reads_late_gets_the_newest_state_once() -> None:
    async with an_api() as api:
        with api.panel.feed.stream(None) as stream:
            for number in range(1000):
                api.threads.shows(status="running", run_id=f"r{number}")
            piece = await stream.next()
            assert piece is not None
            assert piece.count(b"event: ") == 1
            assert b'"r999"' in piece


async def test_a_page_that_reads_nothing_is_cut_off() -> None:
    """Closing would wait, for ever, until it takes what is buffered."""
    async with an_api(write_timeout=0.1) as api:
        for number in range(64):
            api.catalogue.keep(saved(f"c{number}", title="x" * 2**17))
        base = api.http.base_url
        async with await anyio.connect_tcp(base.host, base.port or 0) as stuck:
            asking = f"GET /api/feed HTTP/1.1\r\nhost: {base.host}:{base.port}\r\n"
            await stuck.send(f"{asking}authorization: Bearer {TOKEN}\r\n\r\n".encode())
            await api.threads.watched.wait()
            api.threads.shows(status="running", run_id="r1")
            await api.threads.unwatched.wait()
            got = 0
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    got += len(await stuck.receive())
        assert got < 64 * 2**17


async def test_deleting_stops_the_thread_and_can_be_taken_back() -> None:
    async with an_api() as api:
        api.catalogue.keep(saved())
        api.threads.shows(status="running", run_id="r1")

        def obey(client: Client, frame: bytes) -> None:
            if b"stop_thread" in frame:
                api.threads.shows(status="stopped", worker_pid=None)

        api.threads.on_frame = obey
        async with a_feed(api) as feed:
            await feed.event()
            assert (await api.post("/api/delete", NAMED)).status_code == 200
            assert b'"subagents":true' in api.threads.frames[0].replace(b" ", b"")
            api.threads.known = ()
            assert api.catalogue.kept == {}
            while (await feed.event())[0] != "gone":
                pass
            assert (await api.post("/api/restore", NAMED)).status_code == 200
            kind, row = await feed.event()
            while kind == "gone":  # told twice: by the thread's end, and by the deletion
                kind, row = await feed.event()
            assert (kind, row["title"]) == ("thread", "water the plants")
        again = await api.post("/api/restore", NAMED)
        assert (again.status_code, again.json()["code"]) == (409, "not_restored")
        assert (await api.post("/api/delete", NAMED | {"id": "none"})).status_code == 409


async def test_an_attachment_is_data_and_never_a_page() -> None:
    async with an_api() as api:
        api.catalogue.keep(saved())
        headers = {"authorization": f"Bearer {TOKEN}"}
        asked = NAMED | {"name": "attachment-1.png"}
        got = await api.http.get("/api/attachment", params=asked, headers=headers)
        assert (got.content, got.headers["content-type"]) == (
            b"a picture",
            "application/octet-stream",
        )
        assert (await api.http.get("/api/attachment", params=asked)).status_code == 401
        for wrong in (NAMED | {"name": "x"}, NAMED, {"name": "attachment-1.png"}):
            got = await api.http.get("/api/attachment", params=wrong, headers=headers)
            assert got.status_code in (404, 422)


@pytest.mark.parametrize("works", [True, False])
async def test_a_name_is_the_workers_to_write_down(works: bool) -> None:
    async with an_api() as api:

        def reply(client: Client, frame: bytes) -> None:
            asked = json.loads(frame)
            if asked["type"] == "command":
                assert (asked["name"], asked["args"]) == ("set_name", {"name": "The garden"})
                result = {"type": "command_result", "id": asked["id"], "success": works}
                failed = {} if works else {"code": "history", "error": "the disk is full"}
                client.deliver(json.dumps(result | failed, separators=(",", ":")).encode(), None)

        api.threads.on_frame = reply
        answer = await api.post("/api/rename", NAMED | {"name": "  The   garden "})
        if works:
            assert answer.json() == {"name": "The garden"}
        else:
            assert answer.status_code == 409
            assert "disk is full" in answer.json()["error"]
        assert len(api.threads.detached) == 1


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/rename", NAMED | {"name": " "}, 422),
        ("/api/rename", NAMED, 422),
        ("/api/delete", {"project_dir": "p", "id": "c1"}, 422),
        ("/api/delete", {"project_dir": "/p", "id": "../c1"}, 422),
        ("/api/delete", [], 422),
        ("/api/delete", {"project_dir": "/p", "id": "x" * 70_000}, 413),
    ],
)
async def test_a_body_that_does_not_fit_changes_nothing(path: str, body: Any, status: int) -> None:
    async with an_api() as api:
        answer = await api.post(path, body)
        assert answer.status_code == status
        assert set(answer.json()) == {"error", "code"}
        assert api.threads.handled == []


async def test_a_link_signs_in_once() -> None:
    async with an_api() as api:
        link = (await api.post("/api/links")).json()["link"]
        first = await api.http.post("/api/sign-in", json={"link": link})
        session = first.json()["session"]
        assert (await api.http.post("/api/sign-in", json={"link": link})).status_code == 401
        headers = {"authorization": f"Bearer {session}"}
        assert (await api.http.get("/api/threads", headers=headers)).json() == {"threads": []}
        assert session not in str(api.store.hashes)
        assert len(api.store.hashes) == 1


async def test_a_session_makes_no_links_and_revokes_nobody() -> None:
    """What is in a browser must not be a way to more."""
    async with an_api() as api:
        session = await api.session()
        assert (await api.post("/api/links", token=session)).status_code == 401
        assert (await api.post("/api/revoke", token=session)).status_code == 401


async def test_a_session_is_good_for_the_websocket_and_revoking_cuts_it() -> None:
    async with an_api() as api:
        session = await api.session()
        async with api.scene.dial() as socket, a_feed(api, session) as feed:
            await socket.send(hello(client="desktop", token=session, name="a tab"))
            assert "browser_hello_ack" in await said(socket)
            client = await api.scene.known(socket)
            assert getattr(client, "name", None) == "a tab"
            await feed.event()
            assert (await api.post("/api/revoke")).json() == {"ended": 1}
            _, code = await closing(socket)
            assert code is None
            with pytest.raises(EOFError):
                await feed.event()
        async with api.scene.dial() as socket:
            await socket.send(hello(client="desktop", token=session))
            assert await closing(socket) == ([], None)
        assert api.store.hashes == ()


async def test_a_program_inside_a_worker_is_not_let_in_whatever_it_shows() -> None:
    """An agent that reads the token file must not delete, rename, or sign itself in."""
    async with an_api() as api:
        link = (await api.post("/api/links")).json()["link"]
        # This process, and so its connections, count as a worker's from here on.
        api.threads.shows(worker_pid=os.getpid())
        for path, body in (
            ("/api/delete", NAMED),
            ("/api/links", {}),
            ("/api/revoke", {}),
            ("/api/sign-in", {"link": link}),
        ):
            answer = await api.post(path, body)
            assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed"), path
        headers = {"authorization": f"Bearer {TOKEN}"}
        for path in ("/api/threads", "/api/feed"):
            assert (await api.http.get(path, headers=headers)).status_code == 403
        assert api.threads.handled == []


async def test_signing_out_ends_ones_own_session_only() -> None:
    async with an_api() as api:
        mine, other = await api.session(), await api.session()
        assert (await api.post("/api/sign-out", token=mine)).status_code == 200
        assert (await api.post("/api/sign-out", token=mine)).status_code == 401
        headers = {"authorization": f"Bearer {other}"}
        assert (await api.http.get("/api/threads", headers=headers)).status_code == 200


async def test_sessions_that_were_saved_are_known_after_a_restart() -> None:
    store = MemoryStore()
    async with an_api(store) as api:
        session = await api.session()
    async with an_api(store) as api:
        headers = {"authorization": f"Bearer {session}"}
        assert (await api.http.get("/api/threads", headers=headers)).status_code == 200


async def test_a_session_that_could_not_be_saved_is_said_to_be() -> None:
    async with an_api(MemoryStore(full=True)) as api:
        link = (await api.post("/api/links")).json()["link"]
        answer = await api.http.post("/api/sign-in", json={"link": link})
        assert (answer.status_code, answer.json()["code"]) == (500, "not_saved")


async def test_open_feeds_do_not_keep_the_daemon_from_stopping() -> None:
    async with an_api() as api:
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with api.http.stream("GET", "/api/feed", headers=headers) as response:
            feed = Heard(response.aiter_lines())
            await feed.event()
            api.panel.feed.end()
            with pytest.raises(EOFError):
                await feed.event()


async def test_the_page_is_served_with_its_policy_and_asked_for_only_once() -> None:
    async with an_api() as api:
        page = await api.http.get("/")
        assert page.status_code == 200
        policy = page.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert page.headers["content-encoding"] == "gzip"
        script = next(part for part in page.text.split('"') if part.endswith(".js"))
        got = await api.http.get(script)
        assert "immutable" in got.headers["cache-control"]
        tag = {"if-none-match": got.headers["etag"]}
        assert (await api.http.get(script, headers=tag)).status_code == 304
        plain = await api.http.get(script, headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.text == got.text
        assert plain.headers["etag"] != got.headers["etag"]
        for elsewhere in ("/assets/../index.html", "/assets/", "/assets/none.js", "/index.htm"):
            assert (await api.http.get(elsewhere)).status_code == 404
