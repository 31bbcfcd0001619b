"""MCP servers: real small ones, as processes and over HTTP; dead, slow and dying ones too."""

import json
import os
import re
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from agent.domain.approval import Effect
from agent.domain.ports import BadArguments, ToolResult, ToolServers
from agent.infrastructure.mcp.connection import ServerConfig, named_pipe
from agent.infrastructure.mcp.servers import McpServers
from agent.infrastructure.mcp.tool import MOST_TEXT, output_of, public_name
from agent.infrastructure.process import is_alive
from tests.agent.support import mcp_stdio_server
from tests.agent.support.fakes import FakeLog
from tests.agent.support.worker_process import WorkerProcess, a_place, until, worker

SCRIPT = str(Path(mcp_stdio_server.__file__))
PATIENCE = 180


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the library knows no other


def stdio(name: str = "sums", *wishes: str, **more: Any) -> ServerConfig:
    return ServerConfig(name=name, command=[sys.executable, SCRIPT, *wishes], **more)


@contextmanager
def http_server() -> Generator[tuple[str, list[dict[str, str]]]]:
    """An MCP server over HTTP that answers each request with JSON; and the headers it got."""
    headers: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            headers.append({name.lower(): value for name, value in self.headers.items()})
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = b""
            called = request.get("params", {}).get("name")
            if called == "die":  # half of an answer, and nothing more
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"jsonrpc"')
                self.close_connection = True
                threading.Thread(target=server.shutdown).start()
                server.socket.close()
                return
            if "id" in request:
                answered = mcp_stdio_server.answer(request, 0)
                body = json.dumps({"jsonrpc": "2.0", "id": request["id"], **answered}).encode()
            self._send(200 if body else 202, body)

        def do_GET(self) -> None:
            self._send(405, b"")

        def do_DELETE(self) -> None:
            self._send(200, b"")

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - their name
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp", headers
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@asynccontextmanager
async def serving(tmp_path: Path, *configs: ServerConfig) -> AsyncGenerator[McpServers]:
    """The servers while they are served; all of them settled."""
    environ = {"PATH": os.environ["PATH"]}
    servers = McpServers(configs, tmp_path, environ, FakeLog())
    port: ToolServers = servers
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(port.serve, lambda: None)
        await settled(servers)
        yield servers
        tasks.cancel_scope.cancel()


async def settled(servers: McpServers) -> None:
    with anyio.fail_after(PATIENCE):
        while any(row["status"] == "starting" for row in servers.state()):  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def call(servers: McpServers, name: str, **arguments: object) -> ToolResult:
    tool = servers.find(name)
    assert tool is not None
    with anyio.fail_after(PATIENCE):
        return await tool.prepare(json.dumps(arguments).encode()).run()


async def test_a_process_lends_its_tools_and_answers(tmp_path: Path) -> None:
    async with serving(tmp_path, stdio(env={"SECRET": "open"})) as servers:
        assert servers.state() == [{"name": "sums", "status": "ready", "tools": 7}]
        spec = servers.tools()["mcp__sums__add"].spec
        assert spec.description == "Add two numbers."
        assert spec.parameters["type"] == "object"
        assert await call(servers, "mcp__sums__add", a=1, b=2) == ToolResult(
            success=True, output="3"
        )
        assert (await call(servers, "mcp__sums__env")).output == "open None"
        failed = await call(servers, "mcp__sums__fail")
        assert (failed.success, failed.error) == (False, "the disk is full")
        big = await call(servers, "mcp__sums__big")
        assert MOST_TEXT < len(big.output) < MOST_TEXT + 100


async def test_a_server_over_http_lends_its_tools_and_gets_its_headers(tmp_path: Path) -> None:
    with http_server() as (url, headers):
        config = ServerConfig(name="web", url=url, headers={"X-Token": "t"})
        async with serving(tmp_path, config) as servers:
            assert servers.state()[0]["status"] == "ready", servers.state()
            assert (await call(servers, "mcp__web__add", a=1, b=2)).output == "3"
        assert all(each["x-token"] == "t" for each in headers)


async def test_a_server_over_http_that_dies_in_a_call_fails_that_call_and_blocks_nothing(
    tmp_path: Path,
) -> None:
    """Who is hurt: whose turn waits for an answer of which half came."""
    with http_server() as (url, _):
        async with serving(tmp_path, ServerConfig(name="web", url=url)) as servers:
            cut_off = await call(servers, "mcp__web__die")
            assert not cut_off.success
            assert cut_off.error
            again = await call(servers, "mcp__web__add", a=1, b=2)
            assert not again.success
            assert again.error


async def test_what_only_reads_is_what_the_user_says(tmp_path: Path) -> None:
    async with serving(tmp_path, stdio(read_only=["ad*"])) as servers:
        tools = servers.tools()
        assert tools["mcp__sums__add"].spec.effect is Effect.READS
        assert tools["mcp__sums__env"].spec.effect is Effect.RUNS


async def test_dead_and_wrong_servers_are_named_with_the_reason_and_cost_the_others_nothing(
    tmp_path: Path,
) -> None:
    configs = (
        stdio("fails", "fail"),
        ServerConfig(name="missing", command=["no-such-program-here"]),
        ServerConfig(name="neither"),
        ServerConfig(name="unreachable", url="http://127.0.0.1:1/mcp"),
        stdio("works"),
    )
    async with serving(tmp_path, *configs) as servers:
        rows = {str(row["name"]): row for row in servers.state()}
        assert {name: row["status"] for name, row in rows.items()} == {
            "fails": "failed",
            "missing": "failed",
            "neither": "failed",
            "unreachable": "failed",
            "works": "ready",
        }
        assert "no database here" in str(rows["fails"]["error"])
        assert "no-such-program-here" in str(rows["missing"]["error"])
        assert "command or a url" in str(rows["neither"]["error"])
        assert rows["unreachable"]["error"]
        assert all(name.startswith("mcp__works__") for name in servers.tools())


async def test_a_slow_server_is_waited_for_by_its_own_calls_only(tmp_path: Path) -> None:
    servers = McpServers([stdio("slow", "silent"), stdio()], tmp_path, dict(os.environ), FakeLog())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(servers.serve, lambda: None)
        with anyio.fail_after(PATIENCE):
            while not servers.tools():  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert (await call(servers, "mcp__sums__add", a=2, b=2)).output == "4"
        assert [row["status"] for row in servers.state()] == ["starting", "ready"]
        # A call that was approved before a restart may come while its server still starts.
        assert servers.find("mcp__slow__add") is not None
        assert servers.find("mcp__nobody__add") is None
        tasks.cancel_scope.cancel()


async def test_a_call_made_while_its_server_starts_is_made_when_it_is_ready(tmp_path: Path) -> None:
    servers = McpServers([stdio()], tmp_path, dict(os.environ), FakeLog())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(servers.serve, lambda: None)
        assert (await call(servers, "mcp__sums__add", a=2, b=3)).output == "5"
        tasks.cancel_scope.cancel()


async def test_a_server_that_dies_in_a_call_leaves_an_uncertain_result_and_its_name(
    tmp_path: Path,
) -> None:
    changes: list[object] = []
    servers = McpServers([stdio()], tmp_path, dict(os.environ), FakeLog())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(servers.serve, lambda: changes.append(servers.state()[0]["status"]))
        await settled(servers)
        result = await call(servers, "mcp__sums__die")
        assert result.success is False
        assert "outcome is unknown" in result.error
        with anyio.fail_after(PATIENCE):
            while servers.state()[0]["status"] == "ready":  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert servers.state()[0]["status"] == "ended"
        assert servers.tools() == {}
        assert "Not run" in (await call(servers, "mcp__sums__add", a=1, b=1)).error
        tasks.cancel_scope.cancel()
    assert changes == ["ready", "ended"]


async def test_a_server_that_ends_by_itself_takes_its_tools_along(tmp_path: Path) -> None:
    async with serving(tmp_path, stdio()) as servers:
        pid = int((await call(servers, "mcp__sums__pids")).output.split()[0])
        os.kill(pid, signal.SIGKILL)
        with anyio.fail_after(PATIENCE):
            while servers.tools():  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert servers.state()[0]["status"] == "ended"


async def test_two_thousand_tools_with_odd_names_become_a_few_with_names_of_their_own(
    tmp_path: Path,
) -> None:
    """Each request tells a model of every tool, and no provider takes such names."""
    async with serving(tmp_path, stdio("many", "many"), stdio()) as servers:
        names = list(servers.tools())
        descriptions = [tool.spec.description for tool in servers.tools().values()]
        assert await call(servers, "mcp__sums__add", a=1, b=2) == ToolResult(
            success=True, output="3"
        )
    assert len([name for name in names if name.startswith("mcp__many__")]) <= 128
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
    assert max(map(len, descriptions)) <= 4096
    assert "mcp__many__Bash" in names


async def test_a_server_that_prints_rubbish_is_heard_through_it(tmp_path: Path) -> None:
    async with serving(tmp_path, stdio("flood", "flood")) as servers:
        done = await call(servers, "mcp__flood__add", a=1, b=2)
    assert done == ToolResult(success=True, output="3")


def test_where_processes_are_no_files_a_pipe_with_a_name_ends_with_its_holder() -> None:
    with named_pipe() as pipe:
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        with pytest.raises(BlockingIOError):
            os.read(reading, 1)
    assert os.read(reading, 1) == b""
    os.close(reading)
    assert not pipe.parent.exists()


async def test_a_call_that_is_stopped_holds_nobody_up(tmp_path: Path) -> None:
    """The server goes on as it likes; the run that asked is free, and so are other servers."""
    async with serving(tmp_path, stdio("slow"), stdio()) as servers:
        tool = servers.find("mcp__slow__slow")
        assert tool is not None
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tool.prepare(b"{}").run)
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
        assert (await call(servers, "mcp__sums__add", a=1, b=2)).output == "3"
        assert [row["status"] for row in servers.state()] == ["ready", "ready"]


async def test_a_call_has_a_deadline(tmp_path: Path) -> None:
    async with serving(tmp_path, stdio(timeout=0.5)) as servers:
        result = await call(servers, "mcp__sums__slow")
        assert "the timeout" in result.error
        assert servers.state()[0]["status"] == "ready"


async def test_nothing_of_a_stubborn_server_is_left_when_it_is_no_longer_served(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, stdio("bad", "stubborn")) as servers:
        pids = [int(each) for each in (await call(servers, "mcp__bad__pids")).output.split()]
        assert all(is_alive(pid, None) for pid in pids)
    await until(lambda: not any(is_alive(pid, None) for pid in pids))


def test_names_are_what_every_provider_takes_and_stay_the_same() -> None:
    assert public_name("my server", "get.it") == "mcp__my_server__get_it"
    long = public_name("s" * 50, "t" * 50)
    assert len(long) == 64
    assert long != public_name("s" * 50, "t" * 49 + "u")
    assert long == public_name("s" * 50, "t" * 50)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (["a", {"b": 1}], 'a\n{"b":1}'),
        ({"b": [1]}, '{"b":[1]}'),
        ([], ""),
    ],
)
def test_what_a_tool_gave_is_told_as_text(value: object, text: str) -> None:
    assert output_of(value) == text


async def test_arguments_that_are_no_object_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, stdio()) as servers:
        with pytest.raises(BadArguments):
            servers.tools()["mcp__sums__add"].prepare(b"[1]")


# -- a whole worker ----------------------------------------------------------------------------


async def is_ready(it: WorkerProcess, name: str) -> bool:
    await it.send(type="command", id="s", name="get_state")
    told = await it.wait_for(lambda line: line["type"] == "command_result")
    data = msgspec.convert(told["data"], dict[str, object])
    state = msgspec.convert(data["state"], dict[str, object])
    rows = msgspec.convert(state["mcpServers"], list[dict[str, object]])
    return {"name": name, "status": "ready", "tools": 7} in rows


async def test_a_worker_asks_for_a_servers_tool_and_takes_it_along_when_it_is_killed(
    tmp_path: Path,
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    place = a_place(
        tmp_path,
        TMPDIR=str(temporary),
        ROOST_MCP_SERVERS__BAD__COMMAND=json.dumps([sys.executable, SCRIPT, "stubborn"]),
        ROOST_MCP_SERVERS__SLOW__COMMAND=json.dumps([sys.executable, SCRIPT, "silent"]),
        ROOST_MCP_SERVERS__BAD__READ_ONLY="pids",
    )
    async with worker(place) as it:
        with anyio.fail_after(PATIENCE):
            while not await is_ready(it, "bad"):  # noqa: ASYNC110
                await anyio.sleep(0.05)
        await it.send(type="tool_request", id="t", tool_name="mcp__bad__pids", tool_args="{}")
        told = await it.wait_for(lambda line: line["type"] == "tool_result")
        pids = [int(each) for each in str(told["output"]).split()]
        await it.ask("help", "m1")
        started = await it.wait_for(lambda line: line["type"] == "STATE_SNAPSHOT")
        state = msgspec.convert(started["snapshot"], dict[str, object])
        assert state["mcpServers"] == [
            {"name": "bad", "status": "ready", "tools": 7},
            {"name": "slow", "status": "starting", "tools": 0},
        ]
        await it.wait_end()
        await it.send(type="tool_request", id="u", tool_name="mcp__bad__add",
                      tool_args='{"a":1,"b":1}')  # fmt: skip
        asked = await it.wait_for(lambda line: line["type"] == "CUSTOM")
        assert asked["name"] == "approval_request"
        await it.kill()
        await until(lambda: not any(is_alive(pid, None) for pid in pids))
    assert list(temporary.iterdir()) == []
