"""The floor: a relay of the same shape without any decisions. Arguments: clients, message.

Reads the worker's pipe, frames each line once, and writes once to each client for all that
one read brought.
"""

import asyncio  # noqa: TID251 - the floor is what asyncio itself costs
import os
import subprocess
import sys


async def main() -> None:
    count, words = int(sys.argv[1]), sys.argv[2].split()
    everyone, go = asyncio.Event(), asyncio.Event()
    writers: list[asyncio.StreamWriter] = []

    async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if len(writers) == count:
            everyone.set()
        if len(writers) == 1 and await reader.read(2) == b"go":
            go.set()

    server = await asyncio.start_server(joined, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    worker = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.relay_parts.worker", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    await everyone.wait()
    await go.wait()
    assert worker.stdin
    assert worker.stdout
    fd, done = worker.stdout.fileno(), asyncio.Event()
    rest = b""

    def relay() -> None:
        nonlocal rest
        chunk = os.read(fd, 65536)
        if not chunk:
            asyncio.get_running_loop().remove_reader(fd)
            done.set()
            return
        *lines, rest = (rest + chunk).split(b"\n")
        blob = b"".join([b"\x81\x7e" + len(line).to_bytes(2, "big") + line for line in lines])
        for writer in writers:
            writer.write(blob)

    asyncio.get_running_loop().add_reader(fd, relay)
    worker.stdin.write(b"go\n")
    worker.stdin.close()
    await done.wait()
    for writer in writers:
        await writer.drain()
        writer.close()
    worker.wait()


if __name__ == "__main__":
    asyncio.run(main())
