"""Artifacts over HTTP: what is served, how, and all that is not."""

import os
import socket
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from agui.artifact_files import NoSuchArtifact, open_artifact
from tests.agui.scenes import Scene, binding


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    """Two projects, a secret beside them, and links of every kind."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    folder = tmp_path / "projects"
    artifacts = folder / "one-1234" / "artifacts"
    (artifacts / "sub dir").mkdir(parents=True)
    (folder / "one-1234" / "conversations").mkdir()
    (folder / "one-1234" / "conversations" / "c.jsonl").write_text("private")
    (folder / "two-5678" / "artifacts").mkdir(parents=True)
    (folder / "two-5678" / "artifacts" / "b.txt").write_text("b")
    (artifacts / "a.txt").write_text("hello")
    (artifacts / "sub dir" / "é.svg").write_text("<svg/>")
    (artifacts / "page.html").write_text("<script>alert(1)</script>")
    (artifacts / "logs.txt.gz").write_bytes(b"\x1f\x8b")
    (artifacts / "noname").write_bytes(b"\0")
    (artifacts / "..hidden..").write_text("dots in a name are no traversal")
    (artifacts / "latest.txt").symlink_to("a.txt")
    (artifacts / "out.txt").symlink_to(secret)
    (artifacts / "up").symlink_to("../conversations")
    (artifacts / "root").symlink_to("/")
    (artifacts / "loop").symlink_to("loop")
    (artifacts / "dangling").symlink_to("nowhere")
    (folder / "linked").symlink_to(folder / "one-1234")
    (folder / "three").mkdir()
    (folder / "three" / "artifacts").symlink_to(tmp_path)
    os.mkfifo(artifacts / "pipe")
    return folder


async def ask(
    scene: Scene, path: str, method: str = "GET", headers: str = ""
) -> tuple[int, dict[str, str], bytes]:
    """One request, its path exactly as given."""

    def request() -> bytes:
        with socket.create_connection(("127.0.0.1", scene.port), timeout=60) as connection:
            connection.sendall(
                f"{method} {path} HTTP/1.1\r\nHost: localhost:{scene.port}\r\n"
                f"Connection: close\r\n{headers}\r\n".encode()
            )
            answer = b""
            while data := connection.recv(65536):
                answer += data
            return answer

    with anyio.fail_after(60):
        head, _, body = (await anyio.to_thread.run_sync(request)).partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    named = dict(line.split(": ", 1) for line in lines)
    return int(status.split()[1]), {k.lower(): v for k, v in named.items()}, body


async def test_a_file_is_served_with_its_type_and_no_power(projects: Path) -> None:
    async with binding(projects=projects) as scene:
        status, headers, body = await ask(scene, "/artifacts/one-1234/a.txt")
        assert (status, body) == (200, b"hello")
        assert headers["content-type"] == "text/plain; charset=utf-8"
        assert headers["content-length"] == "5"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("sandbox;")
        assert not any(name.startswith("access-control") for name in headers)


async def test_a_hostile_page_can_neither_run_a_script_nor_act_as_us(projects: Path) -> None:
    async with binding(projects=projects) as scene:
        _, headers, _ = await ask(scene, "/artifacts/one-1234/page.html")
        policy = headers["content-security-policy"]
        assert "allow-scripts" not in policy
        assert "allow-same-origin" not in policy
        assert "default-src 'none'" in policy


async def test_head_says_the_same_without_the_body(projects: Path) -> None:
    async with binding(projects=projects) as scene:
        for path in ("/artifacts/one-1234/a.txt", "/artifacts/one-1234/none.txt"):
            got, head = await ask(scene, path), await ask(scene, path, "HEAD")
            assert head == (got[0], got[1], b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"])
async def test_other_methods_are_405_and_say_what_is_allowed(projects: Path, method: str) -> None:
    async with binding(projects=projects) as scene:
        status, headers, _ = await ask(
            scene, "/artifacts/one-1234/a.txt", method, "Content-Length: 0\r\n"
        )
        assert status == 405
        assert sorted(headers["allow"].split(", ")) == ["GET", "HEAD"]


async def test_a_part_of_a_file_can_be_asked_for(projects: Path) -> None:
    """Players of recordings do."""
    async with binding(projects=projects) as scene:
        status, headers, body = await ask(
            scene, "/artifacts/one-1234/a.txt", headers="Range: bytes=1-3\r\n"
        )
        assert (status, body) == (206, b"ell")
        assert headers["content-range"] == "bytes 1-3/5"


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("one-1234/sub%20dir/%C3%A9.svg", "image/svg+xml"),
        ("one-1234/latest.txt", "text/plain; charset=utf-8"),
        ("one-1234/%2e%2ehidden..", "application/octet-stream"),
        ("one-1234/logs.txt.gz", "application/octet-stream"),
        ("one-1234/noname", "application/octet-stream"),
        ("two-5678/b.txt?x=../y", "text/plain; charset=utf-8"),
    ],
)
async def test_names_and_links_that_stay_inside_are_served(
    projects: Path, path: str, content_type: str
) -> None:
    async with binding(projects=projects) as scene:
        status, headers, _ = await ask(scene, f"/artifacts/{path}")
        assert (status, headers["content-type"]) == (200, content_type)


NOT_SERVED = [
    "",
    "/",
    "//",
    "a.txt",
    "one-1234",
    "one-1234/",
    "one-1234/none.txt",
    "one-1234/sub%20dir",
    "one-1234/sub%20dir/",
    "one-1234/a.txt/",
    "one-1234/a.txt/x",
    "one-1234//a.txt",
    "/one-1234/a.txt",
    "./one-1234/a.txt",
    "one-1234/./a.txt",
    "../secret.txt",
    "%2e%2e/secret.txt",
    "one-1234/../conversations/c.jsonl",
    "one-1234/%2e%2e/conversations/c.jsonl",
    "one-1234/%2E./conversations/c.jsonl",
    "one-1234/..%2fconversations/c.jsonl",
    "one-1234/%2e%2e%2fconversations%2fc.jsonl",
    "one-1234/%252e%252e/conversations/c.jsonl",
    "one-1234/..\\conversations\\c.jsonl",
    "one-1234/..%5cconversations%5cc.jsonl",
    "one-1234/sub%20dir/../a.txt",
    "one-1234%2fa.txt",
    "one-1234%2fartifacts/a.txt",
    "one-1234/artifacts/a.txt",
    "two-5678/../one-1234/a.txt",
    "one-1234/sub%20dir%2f%C3%A9.svg",
    "one-1234%2f..%2ftwo-5678/b.txt",
    "one-1234/a.txt%00",
    "one-1234/a.txt%00.png",
    "one-1234/%2fetc/passwd",
    "one-1234//etc/passwd",
    "one-1234/out.txt",
    "one-1234/up/c.jsonl",
    "one-1234/root/etc/passwd",
    "one-1234/loop",
    "one-1234/dangling",
    "one-1234/pipe",
    "one-1234/" + "x" * 300,
    "linked/a.txt",
    "three/secret.txt",
    "none/a.txt",
]


async def test_everything_else_is_404_and_all_404s_are_alike(projects: Path) -> None:
    async with binding(projects=projects) as scene:
        answers = {path: await ask(scene, f"/artifacts/{path}") for path in NOT_SERVED}
        assert {p: a[0] for p, a in answers.items() if a[0] != 404} == {}
        assert len({a[2] for a in answers.values()}) == 1
        assert (await ask(scene, "/artifacts"))[0] == 404
        assert (await ask(scene, "/artifactsx/one-1234/a.txt"))[0] == 404


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "tauri://localhost"])
async def test_any_page_may_show_one_and_none_may_read_it(projects: Path, origin: str) -> None:
    async with binding(projects=projects) as scene:
        status, headers, _ = await ask(
            scene, "/artifacts/one-1234/a.txt", headers=f"Origin: {origin}\r\n"
        )
        assert status == 200
        assert "access-control-allow-origin" not in headers


async def test_a_wrong_host_gets_nothing(projects: Path) -> None:
    async with binding(projects=projects) as scene:
        stream = await anyio.connect_tcp("127.0.0.1", scene.port)
        async with stream:
            await stream.send(b"GET /artifacts/one-1234/a.txt HTTP/1.1\r\nHost: evil:80\r\n\r\n")
            with anyio.fail_after(60):
                assert (await stream.receive()).startswith(b"HTTP/1.1 400 ")


async def test_no_file_stays_open(projects: Path) -> None:
    def open_files() -> list[str]:
        links = [Path("/dev/fd") / name for name in os.listdir("/dev/fd")]  # noqa: PTH208
        return [os.fspath(link.resolve()) for link in links if link.resolve().is_file()]

    async with binding(projects=projects) as scene:
        for path in ("a.txt", "none.txt", "pipe", "sub%20dir"):
            for method in ("GET", "HEAD"):
                await ask(scene, f"/artifacts/one-1234/{path}", method)
        assert [name for name in open_files() if str(projects) in name] == []


def test_a_folder_that_is_swapped_for_a_link_in_between_leads_nowhere(
    projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that may only write artifacts must not read the rest of the disk through us."""
    artifacts = projects / "one-1234" / "artifacts"
    (artifacts / "swapped").mkdir()
    (artifacts / "swapped" / "secret.txt").write_text("harmless")
    really_open = os.open

    def swap_then_open(path: Any, *arguments: Any, **options: Any) -> int:
        if path == "swapped":
            (artifacts / "swapped").rename(artifacts / "before")
            (artifacts / "swapped").symlink_to(projects.parent)
        return really_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", swap_then_open)
    with pytest.raises(NoSuchArtifact):
        open_artifact(projects, b"one-1234/swapped/secret.txt")
