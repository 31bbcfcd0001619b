"""A connection as the chat sees it: the test says what it tells, and reads what it was asked."""

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
from textual.pilot import Pilot

from connection.events import ConnectionEvent, Listener, SessionEvent
from connection.port import AgentConnection
from connection.shapes import (
    Admission,
    Answer,
    Forked,
    ForkPoint,
    MessagesPage,
    ModelCatalog,
    QueuedMessage,
    QueueMutation,
    SessionState,
    SessionSummary,
    SlashCommand,
    Snapshot,
    Window,
    WorkerState,
)
from roost.chat.app import ChatApp
from sessions.domain.keys import Cursor, Generation

GENERATION = Generation("g1")


def event(kind: str, **fields: Any) -> bytes:
    return json.dumps({"type": kind, **fields}).encode()


def state(**fields: Any) -> SessionState:
    known: dict[str, Any] = {"status": "idle", "worker": WorkerState(model="m:1", mode="standard")}
    return SessionState(active_session_id="a", session_id="c", project_dir="/p", **(known | fields))


def snapshot(
    *messages: dict[str, Any],
    events: Sequence[bytes] = (),
    sequence: int = 0,
    window: Window | None = None,
    worker_state: dict[str, Any] | None = None,
) -> Snapshot:
    worker = WorkerState(model="m:1", mode="standard", state=worker_state or {})
    return Snapshot(
        state=state(worker=worker),
        messages=tuple(msgspec.Raw(json.dumps(message).encode()) for message in messages),
        events=tuple(events),
        cursor=Cursor(GENERATION, sequence),
        window=window,
    )


class FakeConnection:
    """Implements what the chat uses of AgentConnection."""

    def __init__(self, first: Snapshot | None = None) -> None:
        self.first = first or snapshot()
        self.asked: list[tuple[Any, ...]] = []
        self.fails: dict[str, Exception] = {}
        self.queue: list[QueuedMessage] = []
        self.saved: list[SessionSummary] = []
        self.earlier = MessagesPage(messages=(), first=0, total=0)
        self.mode = "standard"
        self.model: str | None = "m:1"
        self._listeners: list[Listener] = []
        self._sequence = self.first.cursor.sequence if self.first.cursor else 0

    def tell(self, told: ConnectionEvent) -> None:
        for listener in list(self._listeners):
            listener(told)

    def says(self, *events: bytes) -> None:
        """Events of the session, one place after the other."""
        for said in events:
            self._sequence += 1
            self.tell(SessionEvent(said, Cursor(GENERATION, self._sequence)))

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def get_initial_snapshot(self) -> Snapshot:
        return self.first

    async def get_state(self) -> SessionState:
        return state(worker=WorkerState(model=self.model, mode=self.mode))

    async def prompt(self, text: str) -> Admission:
        self._note("prompt", text)
        return Admission(admission="started", message_id="u")

    async def answer(self, answers: Sequence[Answer]) -> None:
        self._note("answer", list(answers))

    async def abort(self) -> bool:
        self._note("abort")
        return True

    async def set_model(self, model: str) -> str:
        self._note("set_model", model)
        return model

    async def set_mode(self, mode: str) -> str:
        self._note("set_mode", mode)
        self.mode = mode
        return mode

    async def get_model_catalog(self) -> ModelCatalog:
        self.model = self.model or "m:2"
        return ModelCatalog(models=("m:1", "m:2"), current="m:1")

    async def get_commands(self) -> list[SlashCommand]:
        return [SlashCommand(name="review", description="Looks hard.", source="skill")]

    async def new_session(self) -> str:
        self._note("new_session")
        return "new"

    async def switch_session(self, selector: str) -> str:
        self._note("switch_session", selector)
        return selector

    async def list_saved_sessions(self) -> list[SessionSummary]:
        return self.saved

    async def get_user_messages_for_forking(self) -> list[ForkPoint]:
        return [ForkPoint(id="u1", text="one"), ForkPoint(id="u2", text="two")]

    async def fork(self, message_id: str | None) -> Forked:
        self._note("fork", message_id)
        return Forked(conversation_id="f", selected_text="two")

    async def get_queue(self) -> list[QueuedMessage]:
        return self.queue

    async def mutate_queued_message(
        self, lane: str, index: int, expected_text: str, mutation: QueueMutation
    ) -> str:
        self._note("mutate", lane, index, expected_text, mutation)
        return "applied"

    async def get_earlier_messages(self, before: int, limit: int = 100) -> MessagesPage:
        self._note("earlier", before)
        return self.earlier

    def _note(self, name: str, *arguments: Any) -> None:
        self.asked.append((name, *arguments))
        if name in self.fails:
            raise self.fails[name]


class Screen:
    """The chat on a screen of a test."""

    def __init__(self, app: ChatApp, pilot: Pilot[int], connection: FakeConnection) -> None:
        self.app = app
        self.pilot = pilot
        self.connection = connection

    async def types(self, text: str) -> None:
        """The person types this and presses Enter."""
        await self.pilot.press(*_keys_of(text), "enter")
        await self.drawn()

    async def presses(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.drawn()

    async def says(self, *events: bytes) -> None:
        self.connection.says(*events)
        await self.drawn()

    async def tells(self, told: ConnectionEvent) -> None:
        self.connection.tell(told)
        await self.drawn()

    async def drawn(self) -> None:
        """Return once the screen shows all that has come. Virtual time would stop the terminal."""
        await self.pilot.pause(0.06)
        while any(worker.is_running for worker in self.app.workers):
            await self.pilot.pause(0.01)
        await self.pilot.pause(0.06)

    def shown(self) -> str:
        """Every character on the screen."""
        # The library has no public way to the characters; its own screenshots go through this.
        compositor = self.app.screen._compositor  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        strips = compositor.render_strips()
        return "\n".join("".join(segment.text for segment in line).rstrip() for line in strips)


@asynccontextmanager
async def a_chat(
    connection: FakeConnection | None = None, size: tuple[int, int] = (90, 40)
) -> AsyncGenerator[Screen]:
    """The chat, over a fake connection."""
    connection = connection or FakeConnection()
    app = ChatApp(cast(AgentConnection, connection))
    async with app.run_test(size=size) as pilot:
        screen = Screen(app, pilot, connection)
        await screen.drawn()
        yield screen


def _keys_of(text: str) -> list[str]:
    names = {" ": "space", "/": "slash", ":": "colon", "!": "exclamation_mark"}
    return [names.get(letter, letter) for letter in text]
