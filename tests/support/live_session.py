"""A session that lives without a process: it answers what a worker answers, and talks when told.

Its snapshots come from the same small reducer that its followers use, so both must end up equal.
"""

import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel

from agui.stream.reducer import Unplaceable
from connection.events import (
    Closed,
    ConnectionEvent,
    ConnectionStatus,
    SessionEvent,
    SessionReplaced,
    SessionResynced,
    SessionStatus,
)
from connection.shapes import SessionState, Snapshot
from roost import Reducer
from sessions.domain.keys import ThreadKey, ThreadOptions
from tests.support.agui_model import nothing_held
from tests.support.fakes import FakeLauncher, FakeWorker
from tests.support.scenes import READY
from tests.support.scenes import line as line_of

# Above what any kernel gives: the server looks whether a client descends from a worker.
_NO_PID = 5_000_000


class LiveWorker(FakeWorker):
    """Answers opens and commands at once; counts what each prompt did."""

    def __init__(self, pid: int) -> None:
        super().__init__(pid)
        self.model = nothing_held()
        self.effects: Counter[str] = Counter()
        self.answers_prompts = True
        self.refused: frozenset[str] = frozenset()
        """Commands that it refuses."""
        self.silent: frozenset[str] = frozenset()
        """Commands that it does not answer."""
        self.asked = anyio.Event()
        self._unanswered: list[str] = []
        self.says(READY)

    def send(self, line: bytes) -> None:
        super().send(line)
        frame = json.loads(line)
        match frame["type"]:
            case "resume_conversation":
                self.says(self._snapshot(frame.get("last_messages")))
            case "command":
                self._command(frame)
            case _:
                pass

    def say(self, type_: str, **fields: Any) -> None:
        """One event: to the model, and to whoever follows."""
        said = line_of(type_, **fields)
        self.model.take(said)
        self.says(said)

    def answer_prompts_now(self) -> None:
        """Tell what became of the prompts that were not answered."""
        for command_id in self._unanswered:
            data = {"admission": "started"}
            self.says(line_of("command_result", id=command_id, success=True, data=data))
        self._unanswered.clear()

    def _snapshot(self, last: int | None) -> bytes:
        messages = self.model.messages
        first = max(0, len(messages) - last) if last else 0
        window = {"roost.window": {"first": first, "total": len(messages)}} if first else {}
        return line_of("MESSAGES_SNAPSHOT", messages=messages[first:], **window)

    def _command(self, frame: dict[str, Any]) -> None:
        data: dict[str, Any] = {}
        if frame["name"] in self.silent:
            self.asked.set()
            return
        if frame["name"] in self.refused:
            no = {"success": False, "code": "refused", "error": "no"}
            self.says(line_of("command_result", id=frame["id"], **no))
            return
        if frame["name"] == "get_state":
            data = {"runId": None, "state": self.model.state or {}}
        elif frame["name"] == "prompt":
            self.effects[frame["args"]["text"]] += 1
            self.asked.set()
            if not self.answers_prompts:
                self._unanswered.append(frame["id"])
                return
            data = {"admission": "started", "messageId": frame["args"].get("messageId")}
        self.says(line_of("command_result", id=frame["id"], success=True, data=data))


class LiveLauncher(FakeLauncher):
    """Launches them. A worker's successor knows what it said."""

    silent: frozenset[str] = frozenset()
    """Commands that the next workers do not answer."""

    @asynccontextmanager
    async def __call__(
        self, thread: ThreadKey, options: ThreadOptions, token: str
    ) -> AsyncGenerator[FakeWorker]:
        self.launches.append((thread, options))
        self.tokens.append(token)
        await anyio.lowlevel.checkpoint()
        worker = LiveWorker(_NO_PID + len(self.workers))
        worker.silent = self.silent
        if self.workers:
            before = self.live
            worker.model, worker.effects = before.model, before.effects
        self.workers.append(worker)
        self.launched.set()
        try:
            yield worker
        finally:
            worker.exit("exited with code 0")

    @property
    def live(self) -> LiveWorker:
        worker = self.workers[-1]
        assert isinstance(worker, LiveWorker)
        return worker


@dataclass
class Screen:
    """What a user interface shows that follows the rules of the port."""

    model: Reducer = field(default_factory=nothing_held)
    told: list[ConnectionEvent] = field(default_factory=list[ConnectionEvent])
    closed: Closed | None = None
    last_status: SessionState | None = None
    is_connected: bool = True
    outages: int = 0
    snapshots: int = 0
    violations: list[Exception] = field(default_factory=list[Exception])
    """What it was told that can't follow what it shows."""
    _news: anyio.Event = field(default_factory=anyio.Event)

    def __call__(self, event: ConnectionEvent) -> None:
        self.told.append(event)
        match event:
            case SessionEvent(event=line_):
                self._feed(line_)
            case (
                SessionResynced(snapshot=Snapshot() as snapshot)
                | SessionReplaced(snapshot=snapshot)
            ):
                self.snapshots += 1
                self.show(snapshot)
            case ConnectionStatus(status=status):
                self.is_connected = status == "connected"
                self.outages += not self.is_connected
            case SessionStatus(state=state):
                self.last_status = state
            case Closed():
                self.closed = event
            case _:
                pass
        news, self._news = self._news, anyio.Event()
        news.set()

    def show(self, snapshot: Snapshot) -> None:
        # Between runs nobody says the state in an event.
        state = snapshot.state.worker.state if snapshot.state.worker else None
        self.model = Reducer.beginning_with(snapshot.messages, dict(state) if state else None)
        for event in snapshot.events:
            self._feed(event)

    def _feed(self, event: bytes) -> None:
        try:
            self.model.take(event)
        except Unplaceable as exc:
            self.violations.append(exc)

    async def until_back(self, outages: int) -> None:
        """Wait until so many outages are over."""
        while self.outages < outages or not self.is_connected:
            assert self.closed is None, self.closed
            await self._news.wait()

    async def until_equal(self, model: Reducer) -> None:
        """Wait until it shows the same, to the letter."""
        while canonical(self.model) != canonical(model):
            assert self.closed is None, self.closed
            await self._news.wait()

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await self._news.wait()


def canonical(model: Reducer) -> str:
    return json.dumps([model.messages, model.state], sort_keys=True)
