"""A fake OpenChild: children that answer at once, in memory, as the scripted model would.

`think` is answered, `run …` waits for a person, `slow` goes on until it is told otherwise, and
`break` ends it in the middle. What a test wants to say in a child's place, it `says`.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from agent.domain.lineage import ChildThread
from agent.domain.subagents import (
    Ask,
    Asked,
    Began,
    Broke,
    ChildLost,
    News,
    Settled,
    Turned,
    TurnReport,
)


class FakeChild:
    """One child that is open."""

    def __init__(self, thread: ChildThread) -> None:
        self.thread = thread
        self.sent: list[str] = []
        self.interrupts = 0
        self.stops = 0
        self.is_gone = False
        self._news: list[News] = []
        self._changed = anyio.Event()

    def says(self, *news: News) -> None:
        self._news += news
        self._changed.set()

    def dies(self) -> None:
        self.is_gone = True
        self._changed.set()

    async def send(self, message_id: str, text: str) -> None:
        if self.is_gone:
            raise ChildLost("Its process has ended.")
        self.sent.append(text)
        self.says(Began())
        if text.startswith("think"):
            self.says(Turned(TurnReport(text="I thought about it.")))
        elif text.startswith("run "):
            if "Bash" in self.thread.lineage.tools:
                self.says(Asked((Ask(id="i", reason="tool_call", message=text),)))
            else:
                self.says(Turned(TurnReport(text="Bash did not work: no tool of this subagent")))
        elif text.startswith("break"):
            self.says(Broke("It ended."))

    async def interrupt(self) -> None:
        self.interrupts += 1
        self.says(Turned(TurnReport(success=False, error="It was stopped.")))

    async def stop(self) -> None:
        self.stops += 1

    def __aiter__(self) -> AsyncIterator[News]:
        return self

    async def __anext__(self) -> News:
        while not self._news:
            if self.is_gone:
                raise StopAsyncIteration
            self._changed = anyio.Event()
            await self._changed.wait()
        return self._news.pop(0)


@dataclass(slots=True)
class FakeChildren:
    """Opens them, and keeps those that are open."""

    children_last: bool = True
    opened: list[FakeChild] = field(default_factory=list[FakeChild])
    open_now: int = 0
    refuses: str | None = None
    """Why nothing can be opened."""
    finds: News = field(default_factory=lambda: Settled("What it had said."))
    """What the first news of a child are that is opened again."""

    @asynccontextmanager
    async def __call__(self, thread: ChildThread, *, is_known: bool) -> AsyncGenerator[FakeChild]:
        await anyio.lowlevel.checkpoint()
        if self.refuses is not None or thread.project_dir.endswith("missing"):
            raise ChildLost(self.refuses or "It could not be started: the folder does not exist.")
        child = FakeChild(thread)
        self.opened.append(child)
        self.open_now += 1
        if is_known:
            child.says(self.finds)
        try:
            yield child
        finally:
            self.open_now -= 1

    def child(self, label: str) -> FakeChild:
        return next(c for c in reversed(self.opened) if c.thread.label == label)
