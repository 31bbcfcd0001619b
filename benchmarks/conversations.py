"""Long and many conversations: opening and showing one of 10 MB, and listing ten thousand.

Processor time: none of it waits for anything but a file that the kernel has at hand.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent.domain.conversation import fold
from agent.domain.entries import (
    Accepted,
    Begun,
    Entry,
    Resulted,
    RunEnded,
    RunOpened,
    Said,
    encode_entry,
)
from agent.domain.events import MessagesSnapshot
from agent.domain.messages import Message
from agent.infrastructure.conversation_list import ConversationList
from agent.infrastructure.jsonl_history import JsonlHistory
from agent.infrastructure.project_files import recent_file
from benchmarks.report import figure, machine

SIZE = 10 * 1024 * 1024
MANY = 10_000
ROUNDS = 15
_ANSWER = "The quick brown fox jumps over the lazy dog, and says so at some length. " * 20
_OUTPUT = "line of output that a command printed\n" * 150


def long_history() -> list[bytes]:
    """Runs of a question, an answer and a large result, up to the size."""
    lines: list[bytes] = []
    size = 0
    for number, entry in enumerate(_entries()):
        parent = f"e{number - 1}" if number else None
        stamped = msgspec.structs.replace(entry, id=f"e{number}", parent=parent, at="t")
        lines.append(encode_entry(stamped))
        size += len(lines[-1])
        if size >= SIZE:
            return lines
    raise AssertionError("there is no end of entries")


def _entries() -> Iterator[Entry]:
    yield Begun(conversation_id="c", project_dir="/p")
    turn = 0
    while True:
        turn += 1
        yield Accepted(messages=[Message(id=f"u{turn}", role="user", content="go on")])
        yield RunOpened(run_id=f"r{turn}", messages=[f"u{turn}"])
        yield Said(message=Message(id=f"a{turn}", role="assistant", content=_ANSWER))
        result = Message(id=f"t{turn}", role="tool", tool_call_id=f"c{turn}", content=_OUTPUT)
        yield Resulted(message=result)
        yield RunEnded(run_id=f"r{turn}", outcome="success")


def _no_log(level: str, event: str, /, **fields: object) -> None:
    """Nothing is said."""


def one(folder: Path) -> None:
    path = folder / "c.jsonl"
    lines = long_history()
    path.write_bytes(b"".join(lines))
    floor: list[float] = []
    opened: list[float] = []
    shown: list[float] = []
    data = b""
    for _ in range(ROUNDS):
        began = time.process_time()
        for line in path.read_bytes().splitlines():
            msgspec.json.decode(line)
        floor.append((time.process_time() - began) * 1000)
        began = time.process_time()
        history = JsonlHistory(path, _no_log)
        conversation = fold("c", history.load().entries)
        history.close()
        opened.append((time.process_time() - began) * 1000)
        began = time.process_time()
        data = msgspec.json.encode(MessagesSnapshot(messages=conversation.transcript.visible()))
        shown.append((time.process_time() - began) * 1000)
    figure("10 MB read and decoded without a type (floor)", floor, "ms")
    figure(f"10 MB opened, {len(lines)} entries", opened, "ms")
    figure(f"its snapshot, {len(data) / 1e6:.1f} MB", shown, "ms")


def many(folder: Path) -> None:
    for number in range(MANY):
        entries: list[Entry] = [
            Begun(conversation_id=f"c{number}", project_dir="/p"),
            Accepted(messages=[Message(id="m", role="user", content=f"task {number}")]),
            Said(message=Message(id="a", role="assistant", content=_ANSWER)),
        ]
        (folder / f"c{number}.jsonl").write_bytes(b"".join(map(encode_entry, entries)))
    first: list[float] = []
    again: list[float] = []
    for _ in range(ROUNDS):
        listing = ConversationList(folder, recent_file(folder))
        listing.list()  # a file of hints is made by the first list of all
        listing = ConversationList(folder, recent_file(folder))
        began = time.process_time()
        listing.list()
        first.append((time.process_time() - began) * 1000)
        began = time.process_time()
        listing.list()
        again.append((time.process_time() - began) * 1000)
    figure("10,000 conversations, the first list of a process", first, "ms", "aim: 50")
    figure("10,000 conversations, each list after it", again, "ms", "aim: 50")


def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "one").mkdir()
        (folder / "many" / "conversations").mkdir(parents=True)
        one(folder / "one")
        many(folder / "many" / "conversations")


if __name__ == "__main__":
    main()
