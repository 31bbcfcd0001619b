"""Subagents: from the tool call to the child's first event at the parent, and memory per child.

Its peer is a client that opens a thread of its own: what the way over the parent adds is the rest.
"""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

from benchmarks.report import figure, machine
from roost.demo.client import TourClient, connected
from roost.demo.daemon import a_daemon
from roost.home import RoostHome

ROUNDS = 15
CHILDREN = 20


def memory(home: Path) -> float:
    """The proportional set size of everything that belongs to this home, in MiB."""
    mark, total = f"ROOST_HOME={home}".encode(), 0
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and mark in (folder / "environ").read_bytes():
                rows = (folder / "smaps_rollup").read_text().splitlines()
                total += next(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
        except (OSError, StopIteration):
            continue
    return total / 1024


def has_a_sign_of_life(event: Any) -> bool:
    """A child's row says that its turn has said something."""
    rows = [step["value"] for step in event["delta"] if "/subagents/" in step["path"]]
    return any(row["activity"] or row["turns"] for row in rows)


async def one_round(client: TourClient, number: int) -> tuple[float, float]:
    """Until the call's result, and until the child's first sign of life, in ms."""
    mark = await client.say("delegate think", f"m{number}")
    call = await client.until("TOOL_CALL_END", since=mark)
    began = time.perf_counter()
    mark = client.events.index(call, mark)
    await client.until("TOOL_CALL_RESULT", since=mark)
    opened = time.perf_counter()
    await client.until("STATE_DELTA", since=mark, where=has_a_sign_of_life)
    heard = time.perf_counter()
    await client.send(type="command", id=f"c{number}", name="close_subagent", args={"id": "think"})
    await client.until("command_result", since=mark)
    return (opened - began) * 1000, (heard - began) * 1000


async def opened_directly(client: TourClient, project: Path, number: int) -> tuple[float, float]:
    """The peer: until a thread that a client opens is there, and until its first text, in ms."""
    began = time.perf_counter()
    await client.open(str(project), f"direct-{number}")
    opened = time.perf_counter()
    mark = await client.say("think", f"d{number}")
    await client.until("TEXT_MESSAGE_START", since=mark)
    heard = time.perf_counter()
    return (opened - began) * 1000, (heard - began) * 1000


async def measure(root: Path) -> tuple[list[tuple[float, ...]], float]:
    home = RoostHome(root / "home")
    home.path.mkdir()
    (root / "project").mkdir()
    home.config.write_text(f"subagents: {{max_parallel: {CHILDREN}}}\n")
    rounds: list[tuple[float, ...]] = []
    async with a_daemon(home) as daemon:
        for number in range(ROUNDS + 1):
            async with connected("one", daemon.port, daemon.token) as client:
                direct = await opened_directly(client, root / "project", number)
                await client.open(str(root / "project"), f"parent-{number}")
                rounds.append((*direct, *await one_round(client, number)))
        async with connected("one", daemon.port, daemon.token) as client:
            await client.open(str(root / "project"), "many")
            mark = await client.say("think", "warm")
            await client.until("RUN_FINISHED", since=mark)
            before = memory(home.path)
            tasks = " | ".join(f"think {n}" for n in range(CHILDREN))
            mark = await client.say(f"delegate and wait: {tasks}", "many")
            told = await client.until("TOOL_CALL_RESULT", since=mark)
            assert told["content"].count("[Subagent Completed") == CHILDREN, told
            each = (memory(home.path) - before) / CHILDREN
    return rounds[1:], each


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        rounds, each = anyio.run(measure, Path(folder).resolve())
    direct, direct_text, opened, heard = (list(column) for column in zip(*rounds, strict=True))
    figure("peer: a thread that a client opens itself, to its snapshot", direct, "ms", "")
    figure("peer: the same, to the first text of a run in it", direct_text, "ms", "")
    figure("subagent, Agent call to its result (opened)", opened, "ms", "")
    figure("subagent, Agent call to its first event in the parent's state", heard, "ms", "")
    figure(f"memory per idle child, of {CHILDREN}", [each], "MiB", "proportional set size")


if __name__ == "__main__":
    main()
