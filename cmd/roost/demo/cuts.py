"""A step of the tour: a program's connection is cut, again and again, in the middle of a run.

What it has shown in the end is counted against the conversation, word by word.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from connection.daemon import DaemonConnection
from connection.events import (
    ConnectionEvent,
    ConnectionStatus,
    SessionEvent,
    SessionReplaced,
    SessionResynced,
)
from connection.local_stream import LocalStream, dial
from connection.shapes import Snapshot
from roost.demo.client import STEP_TIMEOUT, NotAsPromised
from sessions.domain.keys import ConversationId, ThreadKey

_CUTS = 6
_CUT_EVERY = 4


@dataclass(slots=True)
class _Screen:
    """The words of the answer as a program shows them, and what happened to its connection."""

    cut: Callable[[], None]
    words: list[str] = field(default_factory=list[str])
    events: int = 0
    cuts: int = 0
    returns: int = 0
    is_back: anyio.Event = field(default_factory=anyio.Event)
    """It was cut as often as it was to be, came back each time, and was told more."""

    def __call__(self, event: ConnectionEvent) -> None:
        match event:
            case SessionEvent(event=line):
                told = json.loads(line)
                if told["type"] == "TEXT_MESSAGE_CONTENT":
                    self.words += told["delta"].split()
                    self._count()
            case (
                SessionResynced(snapshot=Snapshot() as snapshot)
                | SessionReplaced(snapshot=snapshot)
            ):
                self.words = _answer(snapshot)
            case ConnectionStatus(status="connected"):
                self.returns += 1
            case _:
                pass

    def _count(self) -> None:
        self.events += 1
        if self.returns < self.cuts or self.events < _CUT_EVERY * (self.cuts + 1):
            return
        if self.cuts == _CUTS:
            self.is_back.set()
        else:
            self.cuts += 1
            self.cut()


@dataclass(frozen=True, slots=True, kw_only=True)
class CutResult:
    """What the step counted."""

    cuts: int
    returns: int
    words: int
    lost: int
    doubled: int


async def lose_and_return(socket: str, project_dir: Path, conversation_id: str) -> CutResult:
    """Run the step against the daemon at a socket. Raises NotAsPromised when it takes too long."""
    open_streams: list[LocalStream] = []

    async def dialled() -> LocalStream:
        stream = await dial(socket)
        open_streams.append(stream)
        return stream

    connection = DaemonConnection(dialled)
    screen = _Screen(lambda: open_streams[-1].close())
    connection.subscribe(screen)
    key = ThreadKey(str(project_dir), ConversationId(conversation_id))
    with anyio.move_on_after(STEP_TIMEOUT):
        async with connection.attached(key):
            # Longer than anybody waits: it is stopped when all has been seen.
            await connection.prompt("slow 600")
            await screen.is_back.wait()
            await connection.abort()
            await connection.wait_for_idle()
            said = _answer(await connection.get_initial_snapshot())
        return _counted(screen, said)
    raise NotAsPromised(f"after {screen.cuts} cuts the run did not come to its end in time")


def _counted(screen: _Screen, said: list[str]) -> CutResult:
    shown, told = Counter(screen.words), Counter(said)
    return CutResult(
        cuts=screen.cuts,
        returns=screen.returns,
        words=len(said),
        lost=(told - shown).total(),
        doubled=(shown - told).total(),
    )


def _answer(snapshot: Snapshot) -> list[str]:
    """The words of the last answer."""
    messages = [json.loads(bytes(message)) for message in snapshot.messages]
    if not messages or messages[-1]["role"] != "assistant":
        return []
    return str(messages[-1].get("content") or "").split()
