"""The MCP servers of one worker: each started once, beside everything else, and named in the state.

Nothing waits for a server but a call of one of its own tools. What a server says of itself (that a
tool only reads) is not believed: the user's settings say it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio

from agent.domain.approval import Effect
from agent.domain.ports import Log, Tool, ToolResult, ToolSpec
from agent.infrastructure.mcp.connection import (
    START_SECONDS,
    ConnectFailed,
    ServerConfig,
    connected,
)
from agent.infrastructure.mcp.tool import McpTool, output_of, public_name

if TYPE_CHECKING:
    from mcp_types import Tool as ListedTool
    from pydantic_ai.mcp import MCPToolset

Status = Literal["starting", "ready", "failed", "ended"]

# A model is told of every tool in every request.
_MOST_TOOLS = 128
_LONGEST_DESCRIPTION = 4096
# How long one task without a daemon waits for them: it has one turn to get right, and no second.
_FIRST_WAIT = 15.0


@dataclass(slots=True)
class McpServer:
    """One server, and what became of it."""

    config: ServerConfig
    project_dir: Path
    environ: Mapping[str, str]
    log: Log
    status: Status = "starting"
    error: str = ""
    tools: dict[str, McpTool] = field(default_factory=dict[str, McpTool])
    settled: anyio.Event = field(default_factory=anyio.Event)
    """Set when it is not starting any more."""
    _names: dict[str, str] = field(default_factory=dict[str, str])
    _toolset: "MCPToolset[None] | None" = None
    _ended: anyio.Event = field(default_factory=anyio.Event)

    async def serve(self, on_change: Callable[[], None]) -> None:
        """Start it and keep it until it ends or this is cancelled. Never raises."""
        async with anyio.create_task_group() as tasks:
            try:
                async with connected(
                    self.config, self.project_dir, self.environ, self._ended, tasks
                ) as toolset:
                    await self._list(toolset)
                    self._become("ready")
                    on_change()
                    await self._ended.wait()
                    self._become("ended", self.error or "its process ended")
            except ConnectFailed as exc:
                self._become("failed", str(exc))
            on_change()
            tasks.cancel_scope.cancel()

    async def call(self, name: str, arguments: Mapping[str, object]) -> ToolResult:
        """Call one of its tools, once it is ready. A failure is a result."""
        with anyio.move_on_after(START_SECONDS):
            await self.settled.wait()
        own, toolset = self._names.get(name), self._toolset
        if self.status != "ready" or toolset is None:
            why = self.error or "it is not ready yet"
            return _failed(f"Not run: the MCP server {self.config.name} can't be used: {why}.")
        if own is None:
            return _failed(f"Not run: the MCP server {self.config.name} has no tool {name}.")
        with anyio.move_on_after(self.config.timeout):
            return await self._ask(toolset, own, arguments)
        return _failed(
            f"Stopped after {self.config.timeout:g} seconds, the timeout; what it did until then is"
            " done."
        )

    def shown(self) -> dict[str, object]:
        row: dict[str, object] = {
            "name": self.config.name,
            "status": self.status,
            "tools": len(self.tools) if self.status == "ready" else 0,
        }
        return {**row, "error": self.error} if self.error else row

    def tool(self, name: str, description: str, parameters: Mapping[str, object]) -> McpTool:
        """A tool of this server by the name that a model calls."""
        own = self._names.get(name, "")
        reads = bool(own) and any(fnmatchcase(own, each) for each in self.config.read_only)
        spec = ToolSpec(
            name=name,
            description=description[:_LONGEST_DESCRIPTION],
            parameters=parameters,
            effect=Effect.READS if reads else Effect.RUNS,
        )
        return McpTool(spec, self.call)

    async def _list(self, toolset: "MCPToolset[None]") -> None:
        try:
            with anyio.fail_after(START_SECONDS):
                listed = await toolset.list_tools()
        except TimeoutError as exc:
            raise ConnectFailed(f"it did not list its tools in {START_SECONDS:.0f} s") from exc
        except Exception as exc:  # whatever the library raises: this server can't be used
            raise ConnectFailed(f"it did not list its tools: {exc}") from exc
        if len(listed) > _MOST_TOOLS:
            self.log("warning", "mcp_tools_left_out", server=self.config.name, total=len(listed))
        for each in listed[:_MOST_TOOLS]:
            self._add(each)
        self._toolset = toolset

    def _add(self, listed: "ListedTool") -> None:
        name = public_name(self.config.name, listed.name)
        if name not in self._names:
            self._names[name] = listed.name
            schema: dict[str, object] = dict(listed.input_schema)
            self.tools[name] = self.tool(name, listed.description or "", schema)

    async def _ask(
        self, toolset: "MCPToolset[None]", own: str, arguments: Mapping[str, object]
    ) -> ToolResult:
        from fastmcp.exceptions import ToolError
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        try:
            value = await toolset.direct_call_tool(own, dict(arguments))
        except ToolError as exc:
            return _failed(str(exc) or "The tool failed and did not say why.")
        except Exception as exc:  # however the library says that the connection broke
            if isinstance(exc, MCPError) and exc.code not in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
                return _failed(f"The MCP server refused the call: {exc.message}")
            self.error = f"it broke off in a call ({type(exc).__name__}: {exc})"[:300]
            self._ended.set()
            return _failed(
                f"The MCP server {self.config.name} broke off in the middle of the call, so its"
                " outcome is unknown. Check what it did before you repeat it in another way."
            )
        return ToolResult(success=True, output=output_of(value))

    def _become(self, status: Status, error: str = "") -> None:
        self.status, self.error = status, error
        if status != "ready":
            self._toolset = None
        self.settled.set()
        level = "info" if status == "ready" else "warning"
        self.log(level, "mcp_server_changed", server=self.config.name, status=status)


class McpServers:
    """All of them. They live as long as `serve`."""

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        project_dir: Path,
        environ: Mapping[str, str],
        log: Log,
    ) -> None:
        self._servers = [McpServer(config, project_dir, environ, log) for config in configs]

    def tools(self) -> Mapping[str, Tool]:
        return {
            name: tool
            for server in self._servers
            if server.status == "ready"
            for name, tool in server.tools.items()
        }

    def find(self, name: str) -> Tool | None:
        for server in self._servers:
            if name in server.tools:
                return server.tools[name]
            if server.status == "starting" and name.startswith(public_name(server.config.name, "")):
                return server.tool(name, "", {})
        return None

    def state(self) -> list[dict[str, object]]:
        return [server.shown() for server in self._servers]

    async def wait_started(self) -> None:
        with anyio.move_on_after(_FIRST_WAIT):
            for server in self._servers:
                await server.settled.wait()

    async def serve(self, on_change: Callable[[], None]) -> None:
        async with anyio.create_task_group() as tasks:
            for server in self._servers:
                tasks.start_soon(server.serve, on_change)


def _failed(error: str) -> ToolResult:
    return ToolResult(success=False, error=error)
