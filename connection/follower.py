"""One client of one thread, on the side where the registry is: opens, asks, and is told.

It is a `Client` of the sessions port. What comes for the whole thread goes to `take`; what answers
this client (a join, the results of its commands, errors) is sorted out here and returned by the
method that asked. Knows nothing of sockets: the in-process adapter and the local server use it.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio
import msgspec

from connection.failures import CommandRefused, RequestTimedOut
from connection.shapes import Replay, Window
from sessions.domain.keys import Cursor, ThreadKey, ThreadOptions
from sessions.domain.ports import Threads
from sessions.domain.ring import Coverage

# The registry gives an open up after 90 s, and says so; this only guards against a fault of ours.
_OPEN_TIMEOUT = 100.0

Events = Sequence[tuple[bytes, Cursor | None]]
Take = Callable[[Events], None]
"""Takes events that came in a row. Never waits and never raises."""


class _Frame(msgspec.Struct):
    type: str
    id: str | None = None
    code: str | None = None
    message: str | None = None


class _Result(msgspec.Struct):
    success: bool
    data: msgspec.Raw = msgspec.Raw(b"null")
    code: str = "failed"
    error: str = ""


class _Messages(msgspec.Struct):
    messages: tuple[msgspec.Raw, ...] = ()
    window: Window | None = msgspec.field(name="roost.window", default=None)


_frame = msgspec.json.Decoder(_Frame)
_result = msgspec.json.Decoder(_Result)
_messages = msgspec.json.Decoder(_Messages)


@dataclass(slots=True)
class Pending:
    """A command on its way to the worker."""

    id: str
    name: str
    done: anyio.Event = field(default_factory=anyio.Event)
    result: _Result | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What a follower begins with. Without messages all that was missed follows as events."""

    messages: tuple[msgspec.Raw, ...] | None
    events: tuple[bytes, ...]
    cursor: Cursor | None
    replay: Replay
    window: Window | None = None
    state: Pending | None = None
    """The worker's state was asked for with the messages, so that it is that of their place."""


class Follower:
    """Implements `sessions.domain.ports.Client`, and `Named`, for a person's client."""

    inside = None

    def __init__(self, threads: Threads, key: ThreadKey, take: Take, name: str = "") -> None:
        self.key = key
        self.name = name or "a program"
        """What it is for people, in words that follow "answered in"."""
        self._threads = threads
        self._take = take
        self._opened = anyio.Event()
        self._is_opening = False
        self._join: list[bytes] = []
        self._joined_at: Cursor | None = None
        self._failure: CommandRefused | None = None
        self._held: list[tuple[bytes, Cursor | None]] = []
        self._holds = False
        self._pending: dict[str, Pending] = {}
        self._said_in_turn: list[_Frame] | None = None

    # Client

    def deliver(self, frame: bytes, cursor: Cursor | None) -> None:
        if cursor is not None:
            self.deliver_row([(frame, cursor)])
            return
        peeked = _frame.decode(frame)
        if peeked.type == "command_result":
            self._answered(peeked.id or "", frame)
        elif self._is_opening and self._belongs_to_join(peeked.type):
            self._take_join(peeked, frame)
        elif peeked.type == "RUN_ERROR" and self._said_in_turn is not None:
            self._said_in_turn.append(peeked)
        else:
            self._pass_on([(frame, None)])

    def deliver_row(self, events: Sequence[tuple[bytes, Cursor]]) -> None:
        if self._is_opening:
            if not self._join:
                # The open was answered for everybody at once: the worker could not begin.
                peeked = _frame.decode(events[0][0])
                text = peeked.message or "the conversation could not be opened"
                self._failure = CommandRefused(peeked.code or "open_failed", text)
            self._seal()
        self._pass_on(events)

    # What its owner does

    async def open(
        self,
        cursor: Cursor | None = None,
        *,
        options: ThreadOptions | None = None,
        last_messages: int | None = None,
    ) -> Joined:
        """Follow the thread, from the cursor on if possible. Call `release` for the events.

        Raises CommandRefused when the conversation can't be opened; the follower is detached then.
        """
        self._is_opening = self._holds = True
        self._opened, self._failure, self._joined_at = anyio.Event(), None, None
        self._join.clear()
        attachment = self._threads.attach(
            self, self.key, cursor, options=options, last_messages=last_messages
        )
        replay = Replay(status=attachment.coverage.value, reason=attachment.reason)
        if cursor is not None and attachment.coverage is Coverage.COMPLETE:
            self._is_opening = False
            return Joined(messages=None, events=(), cursor=cursor, replay=replay)
        state = None if self._opened.is_set() else self.ask("get_state", {})
        try:
            with anyio.fail_after(_OPEN_TIMEOUT):
                await self._opened.wait()
        except BaseException as exc:
            self.close()
            if isinstance(exc, TimeoutError):
                raise RequestTimedOut("the conversation was not opened in time") from exc
            raise
        self._seal()
        if self._failure is not None:
            self.close()
            raise self._failure
        first = _messages.decode(self._join[0])
        events, self._join = tuple(self._join[1:]), []
        return Joined(
            messages=first.messages,
            events=events,
            cursor=self._joined_at,
            replay=replay,
            window=first.window,
            state=state,
        )

    def release(self) -> None:
        """Pass on what came since the join, and all that comes from here on."""
        self._holds = False
        held, self._held = self._held, []
        if held:
            self._take(held)

    async def request(self, name: str, args: object, patience: float) -> msgspec.Raw:
        """Have the worker carry out a command. Raises CommandRefused, RequestTimedOut."""
        return await self.answer(self.ask(name, args), patience)

    def ask(self, name: str, args: object) -> Pending:
        """Put a command on its way. Wait for its `answer`."""
        pending = Pending(uuid.uuid4().hex, name)
        self._pending[pending.id] = pending
        frame = {"type": "command", "id": pending.id, "name": name, "args": args}
        self._threads.handle(self, msgspec.json.encode(frame))
        return pending

    async def answer(self, pending: Pending, patience: float) -> msgspec.Raw:
        """What the worker says to a command. Raises CommandRefused, RequestTimedOut."""
        try:
            with anyio.fail_after(patience):
                await pending.done.wait()
        except TimeoutError as exc:
            text = f"{pending.name}: the worker did not answer in {patience:g} s"
            raise RequestTimedOut(text) from exc
        finally:
            self._pending.pop(pending.id, None)
        result = pending.result
        assert result is not None, "done is set with a result"
        if not result.success:
            raise CommandRefused(result.code, result.error)
        return result.data

    def send(self, frame: object) -> None:
        """Hand over a frame that nothing answers. Raises CommandRefused when it is refused now."""
        said: list[_Frame] = []
        self._said_in_turn = said
        try:
            self._threads.handle(self, msgspec.json.encode(frame))
        finally:
            self._said_in_turn = None
        for error in said:
            raise CommandRefused(error.code or "refused", error.message or "refused")

    def close(self) -> None:
        """Leave the thread, at once. Safe to repeat."""
        self._threads.detach(self)
        self._held.clear()
        self._holds = False
        self._take = _nobody

    # Smaller steps

    def _belongs_to_join(self, kind: str) -> bool:
        """A join begins with the snapshot, or is refused by an error; it holds no other error."""
        return kind != "RUN_ERROR" if self._join else kind in ("MESSAGES_SNAPSHOT", "RUN_ERROR")

    def _take_join(self, peeked: _Frame, frame: bytes) -> None:
        """All frames of a join come in one step, so the place of the first is that of all."""
        if not self._join and peeked.type == "RUN_ERROR":
            text = peeked.message or "the conversation could not be opened"
            self._failure = CommandRefused(peeked.code or "open_failed", text)
            self._seal()
            return
        if not self._join:
            view = self._threads.view(self.key)
            self._joined_at = None if view is None else view.cursor
            self._opened.set()
        self._join.append(frame)

    def _seal(self) -> None:
        self._is_opening = False
        self._opened.set()

    def _answered(self, command_id: str, frame: bytes) -> None:
        pending = self._pending.get(command_id)
        if pending is not None:
            pending.result = _result.decode(frame)
            pending.done.set()

    def _pass_on(self, events: Events) -> None:
        if self._holds:
            self._held += events
        else:
            self._take(events)


def _nobody(events: Events) -> None:
    """Whoever left is told nothing."""
