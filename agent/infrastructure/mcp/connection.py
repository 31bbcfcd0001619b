"""How one MCP server is reached: over HTTP, or as a process of ours that ends with the worker.

A process runs in a group of its own. A guard in that group reads from a pipe that only this worker
holds open: when it closes, because the server is no longer wanted or because the worker was killed,
what is left of the group is killed.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

if TYPE_CHECKING:
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai.mcp import MCPToolset

# Until it has answered its first requests. Some fetch themselves from a registry first.
START_SECONDS = 60.0
# What its end may take: it is asked, then told, then killed.
_CLOSING = 8.0
# Of what it prints on stderr the end is kept, for the reason when it fails.
_KEPT = 2048

_DESCRIPTORS = Path("/proc/self/fd")

# $1 is the guard's pipe; the rest is the server's command. The guard must not hold its output open.
_GUARDED = (
    'exec 3<"$1"; shift; (read -r -u 3 _; kill -KILL -- -$$) </dev/null >/dev/null 2>&1 &'
    ' exec 3<&-; exec "$@"'
)


class ConnectFailed(Exception):
    """The server can't be used. The message says why, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One server, as it is set."""

    name: str
    command: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    read_only: Sequence[str] = ()
    """Names of tools that only read, as patterns."""
    timeout: float = 120.0


@asynccontextmanager
async def connected(
    config: ServerConfig,
    project_dir: Path,
    environ: Mapping[str, str],
    ended: anyio.Event,
    tasks: TaskGroup,
) -> AsyncGenerator["MCPToolset[None]"]:
    """The server, ready to be asked. Sets `ended` when its process is gone.

    Raises ConnectFailed.
    """
    if bool(config.command) == bool(config.url):
        raise ConnectFailed("set either a command or a url for it")
    try:
        toolset_class = await anyio.to_thread.run_sync(_load)
    except ImportError as exc:
        raise ConnectFailed("its package is not installed: pip install 'roost[mcp]'") from exc
    if config.url:
        toolset = toolset_class(
            config.url,
            headers=dict(config.headers) or None,
            init_timeout=START_SECONDS,
            tool_error_behavior="error",
        )
        async with _entered(toolset):
            yield toolset
        return
    command = shutil.which(config.command[0], path=environ.get("PATH"))
    if command is None:
        raise ConnectFailed(f"{config.command[0]} is not a program that can be found")
    with _guard() as pipe, contextlib.closing(Stderr()) as stderr:
        tasks.start_soon(stderr.serve, ended)
        toolset = toolset_class(
            _stdio(
                config, ["-c", _GUARDED, "bash", str(pipe), command], project_dir, environ, stderr
            ),
            init_timeout=START_SECONDS,
            tool_error_behavior="error",
        )
        async with _entered(toolset, stderr):
            yield toolset


def _stdio(
    config: ServerConfig,
    guarded: list[str],
    project_dir: Path,
    environ: Mapping[str, str],
    stderr: "Stderr",
) -> "StdioTransport":
    from fastmcp.client.transports import StdioTransport

    return StdioTransport(
        "bash",
        [*guarded, *config.command[1:]],
        env={**environ, **config.env},
        cwd=str(project_dir),
        keep_alive=False,
        log_file=stderr.sink,
    )


def _load() -> "type[MCPToolset[None]]":
    from pydantic_ai.mcp import MCPToolset

    return MCPToolset[None]


@asynccontextmanager
async def _entered(
    toolset: "MCPToolset[None]", stderr: "Stderr | None" = None
) -> AsyncGenerator[None]:
    """Enter the library's connection; leave it also when nobody waits for it any more."""
    stack = contextlib.AsyncExitStack()
    try:
        try:
            with anyio.fail_after(START_SECONDS):
                await stack.enter_async_context(toolset)
        except TimeoutError as exc:
            raise ConnectFailed(f"it was not ready within {START_SECONDS:.0f} seconds") from exc
        except Exception as exc:  # whatever the library raises: this server can't be used
            said = stderr.said() if stderr is not None else ""
            raise ConnectFailed(said or f"{type(exc).__name__}: {exc}") from exc
        if stderr is not None:
            stderr.sink.close()  # the server has its own; the last one to close it has ended
        yield
    finally:
        # Closing a connection that broke raises what broke it once more; the call has told it.
        with anyio.move_on_after(_CLOSING, shield=True), contextlib.suppress(Exception):
            await stack.aclose()


@contextmanager
def _guard() -> Generator[Path]:
    """A path to a pipe that says nothing, and whose end is the end of the server's group."""
    if not _DESCRIPTORS.is_dir():
        with named_pipe() as pipe:
            yield pipe
        return
    # A pipe without a name: a worker that is killed leaves nothing of it on the disk.
    source, held = os.pipe()
    try:
        yield Path(f"/proc/{os.getpid()}/fd/{source}")
    finally:
        os.close(source)
        os.close(held)


@contextmanager
def named_pipe() -> Generator[Path]:
    """The same where processes are no files. A worker that is killed leaves it behind."""
    folder = Path(tempfile.mkdtemp(prefix="roost-mcp-"))
    held: int | None = None
    try:
        pipe = folder / "alive"
        os.mkfifo(pipe, 0o600)
        # For reading too, so that it opens at once; the guard's open then finds a writer.
        held = os.open(pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        yield pipe
    finally:
        if held is not None:
            os.close(held)
        shutil.rmtree(folder, ignore_errors=True)


class Stderr:
    """What a server prints beside its answers: the end of it is kept."""

    def __init__(self) -> None:
        self._source, write = os.pipe()
        self.sink = os.fdopen(write, "w")
        self._tail = bytearray()

    def close(self) -> None:
        self.sink.close()
        os.close(self._source)

    async def serve(self, ended: anyio.Event) -> None:
        """Read until nobody has it open for writing: the server is gone then."""
        while True:
            await anyio.wait_readable(self._source)
            if not (data := os.read(self._source, 65536)):
                break
            self._tail += data
            del self._tail[:-_KEPT]
        ended.set()

    def said(self) -> str:
        """Its last words, short."""
        return " ".join(self._tail.decode("utf-8", "replace").split())[-300:]
