"""AG-UI over HTTP beside the WebSocket: latency, processor time, the start of a run, many streams.

Both transports carry the same lines of the same worker to clients in one process, in one run. Over
HTTP every event is read, checked by the guard and written anew; the WebSocket hands bytes on.
"""

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import SocketStream, TaskStatus
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.relay import processor_seconds
from benchmarks.report import figure, machine
from roost.demo.daemon import TourDaemon, a_daemon
from roost.home import RoostHome

_STAMP = re.compile(rb"@(\d{19})")
ROUNDS = 5
STREAMS = 500


@asynccontextmanager
async def post(daemon: TourDaemon, what: str, text: str, run: str) -> AsyncGenerator[SocketStream]:
    """A request to the default agent, on a connection of its own; the answer is to be read."""
    async with await anyio.connect_tcp("127.0.0.1", daemon.port) as stream:
        await ask(stream, daemon, what, text, run)
        yield stream


async def ask(stream: SocketStream, daemon: TourDaemon, what: str, text: str, run: str) -> None:
    given = {
        "threadId": "bench",
        "runId": run,
        "messages": [{"id": f"q-{run}", "role": "user", "content": text}],
        "forwardedProps": {"project_dir": "/tmp"},
        "protocolVersion": "1.0",
    }
    body = json.dumps(given).encode()
    head = (
        f"POST /agui/agent/default/{what} HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n"
        f"Authorization: Bearer {daemon.token}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    await stream.send(head.encode() + body)


async def read_to_end(stream: SocketStream, latencies: list[float]) -> None:
    seen = b""
    while b"RUN_FINISHED" not in seen:
        chunk = await stream.receive(65536)
        now = time.monotonic_ns()
        latencies += [(now - int(stamp)) / 1000 for stamp in _STAMP.findall(chunk)]
        seen = seen[-64:] + chunk


@asynccontextmanager
async def follower(daemon: TourDaemon) -> AsyncGenerator[ClientConnection]:
    """A client on the WebSocket that has its snapshot."""
    url = f"ws://127.0.0.1:{daemon.port}/ws"
    async with connect(url, max_size=None, proxy=None, compression=None) as socket:
        hello = {"type": "browser_hello", "client": "desktop", "protocol_version": 2}
        await socket.send(json.dumps({**hello, "token": daemon.token}))
        opened = {"type": "resume_conversation", "project_dir": "/tmp", "id": "bench"}
        await socket.send(json.dumps(opened))
        while b"MESSAGES_SNAPSHOT" not in await socket.recv(decode=False):
            pass
        yield socket


async def follow_to_end(socket: ClientConnection, latencies: list[float]) -> None:
    while True:
        frame = await socket.recv(decode=False)
        now = time.monotonic_ns()
        latencies += [(now - int(stamp)) / 1000 for stamp in _STAMP.findall(frame)]
        if b"RUN_FINISHED" in frame:
            return


async def paced(daemon: TourDaemon) -> None:
    """One client on each transport, following the same run."""
    http: list[float] = []
    ws: list[float] = []
    for number in range(ROUNDS):
        of_http: list[float] = []
        of_ws: list[float] = []
        async with follower(daemon) as socket, anyio.create_task_group() as tasks:
            tasks.start_soon(follow_to_end, socket, of_ws)
            async with post(daemon, "run", "2000 1000", f"p{number}") as stream:
                await read_to_end(stream, of_http)
        http.append(sorted(of_http)[len(of_http) // 2])
        ws.append(sorted(of_ws)[len(of_ws) // 2])
    middle = sorted(ws)[len(ws) // 2]
    ratio = f"{sorted(http)[len(http) // 2] / middle:.2f} x the WebSocket ({middle:.0f})"
    figure("line to client over HTTP, 1,000 lines/s, p50", http, "us", ratio)


async def flooded(daemon: TourDaemon) -> None:
    """What a line costs the daemon: on each transport with nobody else there, and on both."""
    lines = 50_000
    pid = daemon.process.pid
    http: list[float] = []
    ws: list[float] = []
    both: list[float] = []
    for number in range(ROUNDS):
        async with follower(daemon) as socket:
            before = processor_seconds(pid)
            message = {"id": f"q-w{number}", "role": "user", "content": f"{lines} 0"}
            given = {"threadId": "bench", "runId": f"w{number}", "messages": [message]}
            await socket.send(json.dumps({"type": "run_agent_input", "input": given}))
            await follow_to_end(socket, [])
            ws.append(lines / (processor_seconds(pid) - before))
        before = processor_seconds(pid)
        async with post(daemon, "run", f"{lines} 0", f"f{number}") as stream:
            await read_to_end(stream, [])
        http.append(lines / (processor_seconds(pid) - before))
        before = processor_seconds(pid)
        async with follower(daemon) as socket, anyio.create_task_group() as tasks:
            unused: list[float] = []
            tasks.start_soon(follow_to_end, socket, unused)
            async with post(daemon, "run", f"{lines} 0", f"b{number}") as stream:
                await read_to_end(stream, [])
        both.append(lines / (processor_seconds(pid) - before))
    middle = sorted(ws)[len(ws) // 2]
    ratio = f"{sorted(http)[len(http) // 2] / middle:.2f} x the WebSocket ({middle:,.0f})"
    figure("lines to one HTTP client, per core", http, "/s", ratio)
    figure("lines to one HTTP and one WebSocket client, per core", both, "/s")


async def started(daemon: TourDaemon) -> None:
    """From a POST to the event that begins the run, with a worker that lives: ours."""
    times: list[float] = []
    async with await anyio.connect_tcp("127.0.0.1", daemon.port) as stream:
        for number in range(60):
            begun = time.monotonic()
            await ask(stream, daemon, "run", "think", f"s{number}")
            seen = b""
            while b"RUN_STARTED" not in seen:
                seen += await stream.receive(65536)
            times.append((time.monotonic() - begun) * 1000)
            while not seen.endswith(b"0\r\n\r\n"):
                seen = seen[-64:] + await stream.receive(65536)
    # The first request of a connection is looked up among the processes; front ends keep theirs.
    figure("POST to RUN_STARTED, first of a connection, the worker starts", times[:1], "ms")
    figure("POST to RUN_STARTED, own worker that lives", times[10:], "ms")


async def many(daemon: TourDaemon) -> None:
    """What an open stream costs in memory, and how long all of them take to be there."""
    pid = daemon.process.pid

    async def look(number: int, *, task_status: TaskStatus[None]) -> None:
        async with post(daemon, "connect", "", f"c{number}") as stream:
            told = b""
            while b"MESSAGES_SNAPSHOT" not in told:
                told += await stream.receive(65536)
            task_status.started()
            await anyio.sleep_forever()

    async with post(daemon, "run", "6000 5", "long") as run, anyio.create_task_group() as tasks:
        await run.receive(65536)
        before, begun = resident(pid), time.monotonic()
        async with anyio.create_task_group() as opening:
            for number in range(STREAMS):
                opening.start_soon(tasks.start, partial(look, number))
        there = f"all there after {time.monotonic() - begun:.1f} s"
        cost = (resident(pid) - before) / STREAMS
        figure(f"memory a stream, {STREAMS} open", [cost], "KiB", there)
        tasks.cancel_scope.cancel()


def resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return float(next(line for line in status.splitlines() if "VmRSS" in line).split()[1])


async def measure(root: Path) -> None:
    settings = {
        "ROOST_WORKER__COMMAND": json.dumps([sys.executable, "-m", "benchmarks.http_worker"]),
        "PYTHONPATH": str(Path.cwd()),
        # Nobody is to be cut for being slow here: what is measured is the daemon.
        "ROOST_BINDING__OUTBOX_FRAMES": "100000000",
        "ROOST_BINDING__OUTBOX_BYTES": "4000MiB",
    }
    for name, parts in (("strange", (paced, flooded)), ("fresh", (many,))):
        home = RoostHome(root / name)
        home.path.mkdir()
        # Memory is measured where nothing was freed that could be used again.
        async with a_daemon(home, **settings) as daemon:
            for part in parts:
                await part(daemon)
    home = RoostHome(root / "own")
    home.path.mkdir()
    async with a_daemon(home) as daemon:
        await started(daemon)


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, Path(folder).resolve())


if __name__ == "__main__":
    main()
