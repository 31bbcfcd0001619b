"""A daemon of a registry and keepers only, which tells on stdout what its clients get.

`<python> tiny_daemon.py <folder> <worker word> <threads> <JSON: cursors by thread>`. Without a
cursor a thread is opened and told to count; with one it is attached. Prints one JSON list per
event: thread, generation, sequence, the line; at the end of each run the thread's view.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import anyio
import structlog

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "cmd")]

from sessions.domain.keys import ConversationId, Cursor, Generation, ThreadKey  # noqa: E402
from sessions.domain.settings import RegistrySettings  # noqa: E402
from sessions.infrastructure.marks import home_mark  # noqa: E402
from sessions.infrastructure.survivors import KeeperSurvivors  # noqa: E402
from sessions.registry import Registry  # noqa: E402
from tests.support.keepers import a_launcher  # noqa: E402

WORKER = str(Path(__file__).with_name("scripted.py"))


class Telling:
    """A client whose frames go to stdout."""

    inside = None

    def __init__(self, thread: str) -> None:
        self.thread = thread

    def deliver(self, frame: bytes, cursor: Cursor | None) -> None:
        place = (cursor.generation, cursor.sequence) if cursor else (None, None)
        say(self.thread, *place, json.loads(frame))

    def deliver_row(self, events: Sequence[tuple[bytes, Cursor]]) -> None:
        for frame, cursor in events:
            self.deliver(frame, cursor)


def say(*what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def main(folder: Path, word: str, threads: int, cursors: dict[str, tuple[str, int]]) -> None:
    settings = RegistrySettings(stop_grace=5.0)
    argv = (sys.executable, WORKER, word)
    launcher = a_launcher(folder / "keepers", argv, settings=settings)
    survivors = KeeperSurvivors(launcher, folder / "keepers", home_mark(folder / "keepers"))
    began = time.monotonic()
    registry = Registry(launcher, settings, survivors=survivors)
    async with registry.serving():
        say("views", None, None, [asdict(view) for view in registry.views()])
        say("adopted", None, None, time.monotonic() - began)
        for number in range(threads):
            name = f"t{number}"
            key = ThreadKey(str(folder), ConversationId(name))
            client = Telling(name)
            if name in cursors:
                generation, sequence = cursors[name]
                attachment = registry.attach(client, key, Cursor(Generation(generation), sequence))
                say("attached", None, None, attachment.coverage.value)
            else:
                opening = {"type": "resume_conversation", "project_dir": str(folder), "id": name}
                registry.handle(client, json.dumps(opening).encode())
                message = {"id": "m", "role": "user", "content": str(700 + number)}
                run = {"type": "run_agent_input", "input": {"messages": [message]}}
                registry.handle(client, json.dumps(run).encode())
        while True:
            await anyio.sleep(0.2)
            say("views", None, None, [asdict(view) for view in registry.views()])


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    _, given, word, threads, cursors = sys.argv
    anyio.run(main, Path(given), word, int(threads), json.loads(cursors))
