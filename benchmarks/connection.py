"""The boundary against a real daemon: hello, attach, first screen, commands; and its own latency.

The daemon, its worker and the clients are processes of their own. For the latency of events, and
for the memory of a client, the server is in this process, with a worker that has none.
"""

import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import structlog
from anyio.abc import Process

from benchmarks.report import figure, machine
from connection.daemon import DaemonConnection, Wishes
from connection.transport import Transport
from roost.daemon.starting import OnDemand
from roost.home import RoostHome
from sessions.domain.keys import ConversationId, ThreadKey
from tests.support.local_scene import a_local_server

TIMES = 30
EVENTS = 300
HISTORY_BYTES = 100 * 2**20
ONE_MESSAGE = "x" * 20_000


async def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    print(machine())
    root = Path(tempfile.mkdtemp(prefix="roost-bench-"))
    try:
        async with a_daemon(root) as daemon:
            await hello(daemon)
            await attach(daemon, root)
            await commands(daemon, root)
            await first_screen(daemon, root)
        for clients in (3, 25):
            await latency(root / str(clients), clients)
        await memory(root / "memory")
    finally:
        shutil.rmtree(root, ignore_errors=True)


@asynccontextmanager
async def a_daemon(root: Path) -> AsyncGenerator[OnDemand]:
    home = RoostHome(root / "home")
    environ = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
    environ |= {"ROOST_HOME": str(home.path), "ROOST_BINDING__PORT": "0"}
    daemon = OnDemand(home, environ)
    await daemon.ensure()
    try:
        yield daemon
    finally:
        record = json.loads(home.daemon_json.read_text())
        os.kill(record["pid"], signal.SIGTERM)
        while home.daemon_json.exists():
            await anyio.sleep(0.05)


def connection(daemon: OnDemand, last_messages: int | None = None) -> DaemonConnection:
    return DaemonConnection(daemon.dial, None, Wishes(last_messages=last_messages))


async def hello(daemon: OnDemand) -> None:
    took: list[float] = []
    for _ in range(TIMES):
        began = time.perf_counter()
        async with await daemon.dial() as stream, anyio.create_task_group() as tasks:
            transport = Transport(stream, lambda t, r: None, lambda t: None)
            tasks.start_soon(transport.serve, tasks)
            await transport.hello()
            took.append((time.perf_counter() - began) * 1000)
            tasks.cancel_scope.cancel()
    figure("connect to hello", took, "ms")


async def attach(daemon: OnDemand, root: Path) -> None:
    key = ThreadKey(str(root), ConversationId("bench"))
    first = connection(daemon)
    async with first.attached(key):
        await first.prompt_and_wait("hello")
        figure("attach to an idle worker", await attaches(daemon, key), "ms", "aim: at most 5")
        await first.prompt("slow 600")
        figure("attach in mid-run", await attaches(daemon, key), "ms", "aim: at most 5")
        await first.abort()


async def attaches(daemon: OnDemand, key: ThreadKey, last: int | None = None) -> list[float]:
    """From nothing to a snapshot: connect, hello, attach, the session's state."""
    took: list[float] = []
    for _ in range(TIMES):
        # The end of the one before is not what is measured.
        await anyio.sleep(0.02)
        began = time.perf_counter()
        one = connection(daemon, last)
        async with one.attached(key):
            await one.get_initial_snapshot()
            took.append((time.perf_counter() - began) * 1000)
    return took


async def commands(daemon: OnDemand, root: Path) -> None:
    key = ThreadKey(str(root), ConversationId("bench"))
    one = connection(daemon)
    async with one.attached(key):
        figure("a journaled command, there and back", await timed(one.abort), "ms")
        figure("a read that the worker answers", await timed(one.get_queue), "ms", "floor")


async def timed(call: Callable[[], object]) -> list[float]:
    took: list[float] = []
    for _ in range(TIMES * 3):
        began = time.perf_counter()
        await call()  # type: ignore[misc]
        took.append((time.perf_counter() - began) * 1000)
    return took


async def first_screen(daemon: OnDemand, root: Path) -> None:
    folder = RoostHome(root / "home").conversations(str(root))
    write_history(folder / "long.jsonl", root)
    key = ThreadKey(str(root), ConversationId("long"))
    began = time.perf_counter()
    holder = connection(daemon, 50)
    async with holder.attached(key):
        cold = (time.perf_counter() - began) * 1000
        figure("first screen of 100 MB, worker not running", [cold], "ms")
        took = await attaches(daemon, key, 50)
        figure("first screen of 100 MB, worker running", took, "ms", "aim: at most 200")


def write_history(file: Path, project: Path) -> None:
    """A conversation of so many messages, as a worker would have written it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    at, parent = "2026-01-01T00:00:00.000Z", "e0"
    with file.open("w") as out:
        begun = {"kind": "conversation", "id": parent, "at": at}
        begun |= {"conversation_id": "long", "project_dir": str(project)}
        out.write(json.dumps(begun) + "\n")
        for number in range(HISTORY_BYTES // len(ONE_MESSAGE)):
            role = "assistant" if number % 2 else "user"
            message = {"id": f"m{number}", "role": role, "content": ONE_MESSAGE}
            entry = {"kind": "message", "id": f"e{number + 1}", "parent": parent, "at": at}
            parent = f"e{number + 1}"
            out.write(json.dumps({**entry, "message": message}) + "\n")


async def latency(folder: Path, clients: int) -> None:
    """The delay at the last of so many clients, which is written to after all the others."""
    folder.mkdir()
    async with a_local_server(folder) as scene, AsyncExitStack() as stack:
        others = await stack.enter_async_context(followers("drain", scene.path, clients - 1))
        last = await stack.enter_async_context(followers("watch", scene.path, EVENTS))
        scene.worker.say("TEXT_MESSAGE_START", messageId="m", role="assistant")
        for _ in range(EVENTS):
            await anyio.sleep(0.005)
            scene.worker.says(
                b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"%f"}'
                % time.perf_counter()
            )
        assert last.stdout is not None
        told = b"".join([chunk async for chunk in last.stdout])
        others.kill()
    took: list[float] = json.loads(told)
    figure(f"an event to the last of {clients} clients", took, "ms", "aim: at most 0.5")


@asynccontextmanager
async def followers(role: str, path: Path, count: int) -> AsyncGenerator[Process]:
    """Clients in a process of their own, once they are attached."""
    program = [sys.executable, "-m", "benchmarks.connection_parts.followers"]
    async with await anyio.open_process(
        [*program, role, str(path), str(count)], stderr=None
    ) as process:
        assert process.stdout is not None
        said = b""
        while said != b"ready\n":
            said += await process.stdout.receive()
        yield process


async def memory(folder: Path) -> None:
    folder.mkdir()
    async with a_local_server(folder) as scene, scene.client(), AsyncExitStack() as stack:
        gc.collect()
        before = resident()
        for _ in range(100):
            await stack.enter_async_context(scene.client())
        gc.collect()
        grown = (resident() - before) / 100
    figure("memory of an attached client, both ends of it", [grown], "KiB")


def resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


if __name__ == "__main__":
    anyio.run(main)
