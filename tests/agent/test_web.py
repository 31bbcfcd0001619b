"""WebFetch: pages as text, bounded, and nothing of this machine or its network."""

import gzip
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import msgspec
import pytest

from agent.domain.approval import Effect, Verdict, verdict
from agent.domain.ports import BadArguments, ToolResult
from agent.infrastructure.tools.page_text import page_text
from agent.infrastructure.tools.web import MAX_BODY, MAX_TEXT, WebFetch, is_public, resolve

Page = tuple[int, dict[str, str], bytes]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextmanager
def site(**pages: Page) -> Generator[tuple[int, list[str]]]:
    """A server on the loopback; its port, and the Host of each request."""
    hosts: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hosts.append(self.headers["Host"])
            status, headers, body = pages[self.path.strip("/") or "index"]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - their name
            """Quiet: stderr is the test runner's."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_port, hosts
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def fetched(tool: WebFetch, url: str) -> ToolResult:
    with anyio.fail_after(60):
        return await tool.prepare(msgspec.json.encode({"url": url})).run()


async def names(host: str, port: int) -> list[str]:
    """Every name is this machine, except one that is a public address that nobody reaches."""
    del port
    return ["203.0.113.1"] if host == "public.example" else ["127.0.0.1"]


HTML: dict[str, str] = {"Content-Type": "text/html; charset=utf-8"}


async def test_a_page_comes_as_text_from_the_address_that_was_checked() -> None:
    page = "<html><head><title>T é</title><script>x()</script></head><body><p>Hi <a href='/b'>b</a>"
    with site(index=(200, HTML, page.encode())) as (port, hosts):
        done = await fetched(WebFetch(True, names), f"http://some.example:{port}/")
    assert done == ToolResult(success=True, output=f"# T é\n\nHi b (http://some.example:{port}/b)")
    assert hosts == [f"some.example:{port}"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "inside.example", "[::1]"])
async def test_this_machine_is_not_fetched_from_unless_allowed(host: str) -> None:
    """Who is hurt: who has a database or a router that trusts everybody inside."""
    with site(index=(200, {}, b"secret")) as (port, hosts):
        done = await fetched(WebFetch(False, names), f"http://{host}:{port}/")
    assert not done.success
    assert "private network" in done.error
    assert hosts == []


async def test_a_redirect_is_checked_as_a_new_address() -> None:
    asked: list[str] = []

    async def once(host: str, port: int) -> list[str]:
        asked.append(host)
        return await names(host, port)

    with site(
        index=(302, {"Location": "http://elsewhere.example:1/x"}, b""),
        round=(302, {"Location": "/round"}, b""),
    ) as (port, hosts):
        await fetched(WebFetch(True, once), f"http://first.example:{port}/")
        assert asked == ["first.example", "elsewhere.example"]
        looped = await fetched(WebFetch(True, names), f"http://x:{port}/round")
        assert "redirects more than" in looped.error
        assert len(hosts) == 7


async def test_a_redirect_to_another_kind_of_address_is_refused() -> None:
    with site(index=(302, {"Location": "file:///etc/passwd"}, b"")) as (port, _):
        done = await fetched(WebFetch(True, names), f"http://x:{port}/")
    assert "not an http or https address" in done.error


async def test_what_is_too_large_is_cut_and_what_is_no_text_is_not_given() -> None:
    plain = {"Content-Type": "text/plain"}
    with site(
        index=(200, plain, b"x" * (MAX_BODY + 100_000)),
        image=(200, {"Content-Type": "image/png"}, b"\0"),
        gone=(404, plain, b"no such page"),
    ) as (port, _):
        tool = WebFetch(True, names)
        large = await fetched(tool, f"http://x:{port}/")
        assert len(large.output) < MAX_TEXT + 100
        assert large.output.endswith("left out ...]")
        assert "no text" in (await fetched(tool, f"http://x:{port}/image")).error
        gone = await fetched(tool, f"http://x:{port}/gone")
        assert (gone.success, gone.output) == (False, "no such page")
        assert "HTTP 404" in gone.error


async def test_a_name_with_public_and_private_addresses_leads_to_a_public_one_only() -> None:
    """Who is hurt: who is behind a name server that a stranger's page may ask for both."""

    async def both(host: str, port: int) -> list[str]:
        return ["127.0.0.1", "::1", "1.1.1.1", "10.0.0.1"]

    assert await WebFetch(False, both).address_of("two.example", 80) == "1.1.1.1"


async def test_a_name_that_changes_its_mind_is_connected_to_where_it_was_checked() -> None:
    """Between the check and the connection nobody is asked for the name again."""
    answers = [["127.0.0.1"], ["203.0.113.1"]]

    async def once(host: str, port: int) -> list[str]:
        return answers.pop(0)

    with site(index=(200, {}, b"page")) as (port, hosts):
        done = await fetched(WebFetch(True, once), f"http://rebinding.example:{port}/")
    assert done.output == "page"
    assert hosts == [f"rebinding.example:{port}"]
    assert len(answers) == 1


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.0.0.1", "0", "[::ffff:127.0.0.1]"])
async def test_no_way_to_write_this_machines_address_leads_to_it(host: str) -> None:
    with site(index=(200, {}, b"secret")) as (port, hosts):
        done = await fetched(WebFetch(False, resolve), f"http://{host}:{port}/")
    assert not done.success
    assert hosts == []


@pytest.mark.parametrize("to", ["http://127.0.0.1:{port}/", "//inside.example:{port}/"])
async def test_a_redirect_to_this_machine_is_refused(to: str) -> None:
    """The first server is allowed here because its address is; its word is not."""

    async def first(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    class FirstIsPublic(WebFetch):
        async def address_of(self, host: str, port: int) -> str:
            is_first = host == "first.example"
            return "127.0.0.1" if is_first else await super().address_of(host, port)

    with site() as (port, hosts):
        pages: dict[str, Page] = {"index": (302, {"Location": to.format(port=port)}, b"")}
        with site(**pages) as (other, asked):
            done = await fetched(FirstIsPublic(False, first), f"http://first.example:{other}/")
    assert "private network" in done.error
    assert (len(asked), hosts) == (1, [])


async def test_a_redirect_to_what_is_no_address_is_a_failed_result() -> None:
    with site(index=(302, {"Location": "http://[x/"}, b"")) as (port, _):
        done = await fetched(WebFetch(True, names), f"http://x:{port}/")
    assert "can't be fetched" in done.error


@contextmanager
def endless(head: bytes, piece: bytes = b"x", pause: float = 0.01) -> Generator[int]:
    """A server that sends these bytes and then a piece, again and again."""
    server = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            try:
                connection.sendall(head)
                while not stop.wait(pause):
                    connection.sendall(piece)
            except OSError:
                return  # the reader has hung up

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        stop.set()
        # It may have been given up before it connected.
        socket.create_connection(server.getsockname()).close()
        thread.join()
        server.close()


@pytest.mark.parametrize("head", ["HTTP/1.1 200 OK\r\nA: ", "HTTP/1.1 200 OK\r\n\r\n"])
async def test_the_whole_fetch_has_a_time_limit_however_little_comes_at_a_time(head: str) -> None:
    """Who is hurt: who waits for an agent whose page never ends."""
    with endless(head.encode()) as port:
        done = await fetched(WebFetch(True, names, seconds=0.2), f"http://x:{port}/")
    assert "did not come whole within 0.2 seconds" in done.error


async def test_a_page_without_an_end_is_read_no_further_than_its_limit() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
    with endless(head, b"x" * 65536, pause=0) as port:
        done = await fetched(WebFetch(True, names, seconds=60), f"http://x:{port}/")
    assert done.success
    assert done.output.endswith("left out ...]")


async def test_a_page_that_unpacks_to_far_more_than_came_is_cut() -> None:
    bomb = gzip.compress(b"a" * (16 * MAX_BODY))
    packed = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
    with site(index=(200, packed, bomb), torn=(200, packed, b"no gzip")) as (port, _):
        done = await fetched(WebFetch(True, names), f"http://x:{port}/")
        torn = await fetched(WebFetch(True, names), f"http://x:{port}/torn")
    assert done.success
    assert len(done.output) < MAX_TEXT + 100
    assert "can't be fetched" in torn.error


async def test_headers_without_end_are_a_failed_result() -> None:
    many = {f"X-{number}": "x" * 1000 for number in range(1000)}
    with site(index=(200, many, b"page")) as (port, _):
        done = await fetched(WebFetch(True, names), f"http://x:{port}/")
    assert not done.success


@pytest.mark.parametrize("charset", ["no-such", "base64", "punycode", "unicode_escape", '"'])
async def test_a_page_in_an_encoding_that_is_none_is_read_as_utf_8(charset: str) -> None:
    told = {"Content-Type": f"text/plain; charset={charset}"}
    with site(index=(200, told, "\\ud800 é".encode())) as (port, _):
        done = await fetched(WebFetch(True, names), f"http://x:{port}/")
    assert done.output == "\\ud800 é"


async def test_a_page_in_an_encoding_that_is_known_is_read_in_it() -> None:
    told = {"Content-Type": "text/plain; charset=ISO-8859-1"}
    with site(index=(200, told, b"\xe9")) as (port, _):
        assert (await fetched(WebFetch(True, names), f"http://x:{port}/")).output == "é"


async def test_a_server_that_is_not_there_is_a_failed_result() -> None:
    done = await fetched(WebFetch(True, names), "http://x:1/")
    assert not done.success
    assert "can't be fetched" in done.error


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "x", "http://", "http://u:p@x/", "http://x:y"]
)
def test_what_is_no_address_of_the_web_is_refused_before_anybody_is_asked(url: str) -> None:
    with pytest.raises(BadArguments):
        WebFetch().prepare(msgspec.json.encode({"url": url}))


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("1.1.1.1", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("10.0.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("2002:0101:0101::", True),
        ("::127.0.0.1", False),
        ("::ffff:0:127.0.0.1", False),
        ("64:ff9b:1::7f00:1", False),
    ],
)
def test_which_addresses_are_of_the_internet(address: str, public: bool) -> None:
    assert is_public(address) is public


def test_a_fetch_is_asked_for_unless_nothing_is() -> None:
    assert verdict("standard", Effect.FETCHES) is Verdict.ASK
    assert verdict("plan", Effect.FETCHES) is Verdict.ASK
    assert verdict("auto", Effect.FETCHES) is Verdict.RUN


def test_html_reads_as_its_reader_would_read_it() -> None:
    html = """<body><h1>Head</h1><style>p{}</style><p>one
        two</p><ul><li>a<li>b</ul><pre>x
  y</pre><table><tr><td>1<td>2</table>&amp;<a href="javascript:x">no</a></body>"""
    assert page_text(html, "http://x/") == ("Head\n\none two\n\n- a\n- b\n\nx\n  y\n\n1 2\n&no")


SLOW_PIECES = (
    "<", "<a ", "<a b='", "<!--", "</", "<![CDATA[", "<b>x</i>", "<div>", "&", "&#1", " \n",
    "<a =", "<script>", "</scrip", "<table><tr><td>", "<a href=http://[>x</a>",
    "<title>x<b>", "<pre> ",
)  # fmt: skip
READ_ALL = """
import json, sys
from agent.infrastructure.tools.page_text import page_text
for piece in json.load(sys.stdin):
    page_text(piece * (500_000 // len(piece)), "http://x/")
    print(piece, flush=True)
"""


def test_no_page_is_made_to_be_slow() -> None:
    """Half a megabyte of each takes moments: were the work squared, one alone took minutes."""
    reading = [sys.executable, "-c", READ_ALL]
    subprocess.run(reading, input=json.dumps(SLOW_PIECES).encode(), timeout=300, check=True)


def test_what_a_page_does_not_close_costs_no_more_than_that() -> None:
    assert page_text("a<script>x</scripty>", "http://x/") == "a"
    assert page_text("a<!-- <p>b", "http://x/") == "a"
    assert page_text("a < b &#" + "1" * 5000 + ";", "http://x/").startswith("a < b &#1")
    assert page_text("<head><title>T<body></title>x", "http://x/") == "# T\n\nx"
    link = "<p title='a>b'>x<a href=/y?a&amp;b>z</a>"
    assert page_text(link, "http://x/") == "xz (http://x/y?a&b)"
