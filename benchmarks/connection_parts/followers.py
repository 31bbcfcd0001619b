"""Clients of a session, in a process of their own, as clients are.

    python -m benchmarks.connection_parts.followers watch SOCKET EVENTS
    python -m benchmarks.connection_parts.followers drain SOCKET COUNT

`watch` is one whole client: it prints the delay of each event in milliseconds, as a JSON list.
`drain` is so many that attach and read, and do nothing with it. Both say `ready` once attached.
"""

import json
import sys
import time

import anyio
import structlog

from connection.daemon import DaemonConnection
from connection.events import ConnectionEvent, SessionEvent
from connection.local_stream import LocalStream, dial
from tests.support.local_scene import KEY

_READ = 1 << 20


async def watch(path: str, events: int) -> None:
    """Say how long each event took from the worker's line to the listener."""
    took: list[float] = []
    done = anyio.Event()

    def seen(event: ConnectionEvent) -> None:
        if isinstance(event, SessionEvent) and b'"TEXT_MESSAGE_CONTENT"' in event.event:
            # One clock for all processes of a machine.
            took.append((time.perf_counter() - float(json.loads(event.event)["delta"])) * 1000)
            if len(took) == events:
                done.set()

    async def dialled() -> LocalStream:
        return await dial(path)

    connection = DaemonConnection(dialled)
    connection.subscribe(seen)
    async with connection.attached(KEY):
        print("ready", flush=True)
        await done.wait()
    print(json.dumps(took))


async def drain(path: str, count: int) -> None:
    """Attach so many clients, and read until this process is ended."""
    command = {
        "type": "attach",
        "projectDir": KEY.project_dir,
        "sessionId": KEY.conversation_id,
    }
    envelope = {
        "type": "command",
        "id": "1",
        "protocol": {"name": "roost.daemon", "version": 1},
        "clientId": "drain",
        "command": command,
    }
    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            stream = await dial(path)
            await stream.send(json.dumps(envelope).encode() + b"\n")
            read = b""
            while b'"command":"attach"' not in read:
                read += await stream.receive()
            tasks.start_soon(_read_on, stream)
        print("ready", flush=True)


async def _read_on(stream: LocalStream) -> None:
    while True:
        await stream.receive(_READ)


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    role = {"watch": watch, "drain": drain}[sys.argv[1]]
    anyio.run(role, sys.argv[2], int(sys.argv[3]))
