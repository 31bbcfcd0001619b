"""The adapter for a session in this very process: for programs that embed roost, and for tests.

It talks to the `Threads` of this process and keeps the promises of the daemon adapter, but for what
a process can't promise for itself: nothing outlives it, so there is no journal and no reconnecting.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from connection.commands import COMMANDS
from connection.events import (
    Closed,
    Listener,
    SessionEvent,
    SessionReplaced,
    SessionStatus,
)
from connection.execution import KILLED, Directory, Household, SavedSessions, Session, thread_of
from connection.failures import BrokenProtocol, Disconnected
from connection.follower import Events, Follower, Joined
from connection.operations import SessionOperations, given
from connection.shapes import SessionSummary, Snapshot
from sessions.domain.keys import ThreadKey, ThreadOptions
from sessions.domain.ports import Threads, ThreadView

T = TypeVar("T")

CAPABILITIES = frozenset({"history_window", "prompt_admission_cancellation"})


class InProcessConnection(SessionOperations):
    """Implements `connection.port.AgentConnection`. Made by `attached`."""

    def __init__(
        self,
        threads: Threads,
        saved: SavedSessions,
        last_messages: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._threads = threads
        self._directory = Directory(threads, saved)
        self._household = Household(threads, self._directory)
        self._last_messages = last_messages
        self._name = name or ""
        self._session: Session | None = None
        self._fresh: Snapshot | None = None
        """What was attached with, until something happened since."""
        self._unwatch = threads.watch(self._changed)
        self._is_closed = False
        self._ended: Closed | None = None

    async def attach(self, target: ThreadKey | str, options: ThreadOptions | None = None) -> None:
        """Follow a session, named by its thread or by a selector. Events are told from here on."""
        key = target
        if isinstance(key, str):
            key = _key_of(await self._directory.resolve(key))
        follower = await self._follow(key, options)
        follower.release()

    async def aclose(self) -> None:
        self._listeners.end()
        self._is_closed = True
        self._unwatch()
        if self._session is not None:
            self._session.follower.close()

    def end(self) -> None:
        """The sessions of this process end now."""
        self._end(Closed("shutdown", "the program that the session was in has ended"))

    def _end(self, closed: Closed) -> None:
        """Nothing follows, whatever comes."""
        if self._ended is None:
            self._ended = closed
            self._listeners.tell(closed)

    def supports_negotiated_capability(self, capability: str) -> bool:
        return self._session is not None and not self._is_closed and capability in CAPABILITIES

    async def get_initial_snapshot(self) -> Snapshot:
        if self._fresh is not None:
            return self._fresh
        return await self._ask("get_snapshot", Snapshot, lastMessages=self._last_messages)

    @asynccontextmanager
    async def watch_session(self, selector: str, listener: Listener) -> AsyncGenerator[Snapshot]:
        found = await self._directory.resolve(selector)

        def take(events: Events) -> None:
            for event, cursor in events:
                listener(SessionEvent(event, cursor))

        follower = Follower(self._threads, _key_of(found), take)
        try:
            joined: Joined = await follower.open(last_messages=self._last_messages)
            snapshot = await self._session_of(follower).snapshot(joined, joined.messages or ())
            follower.release()
            yield snapshot
        finally:
            follower.close()

    # What the operations need

    @property
    def _key(self) -> ThreadKey:
        return self._here().follower.key

    async def _ask(self, command: str, answer: type[T], /, **fields: object) -> T:
        session = self._here()
        sent = given(fields)
        if COMMANDS[command].kind == "mutating":
            self._fresh = None
        if COMMANDS[command].in_session:
            session.begin(command, sent)
            try:
                told = await session.execute(command, sent)
            finally:
                session.ended(command, sent)
        else:
            told = await self._household.execute(command, sent)
            if command == "kill" and thread_of(sent) == session.follower.key:
                self._end(Closed("killed", KILLED))
        try:
            if isinstance(told, msgspec.Raw):
                return msgspec.json.decode(told, type=answer)
            return told if isinstance(told, answer) else msgspec.convert(told, type=answer)
        except msgspec.ValidationError as exc:
            raise BrokenProtocol(f"{command} was answered with something else: {exc}") from exc

    async def _list_saved(
        self,
        project_dir: str | None,
        on_progress: Callable[[int, int], None],
        on_session: Callable[[SessionSummary], None],
    ) -> Sequence[SessionSummary]:
        self._here()
        rows = await self._directory.saved(project_dir, on_progress)
        for row in rows:
            on_session(row)
        return rows

    async def _move_to(self, key: ThreadKey) -> None:
        self._leave_session()
        follower = await self._follow(key, None)
        assert self._fresh is not None, "following leaves a snapshot"
        self._listeners.tell(SessionReplaced(self._fresh))
        follower.release()

    async def _follow(self, key: ThreadKey, options: ThreadOptions | None) -> Follower:
        """Follow a session; the one followed before is left once this one is here."""
        follower = Follower(self._threads, key, self._take, self._name)
        joined = await follower.open(options=options, last_messages=self._last_messages)
        session = self._session_of(follower)
        try:
            self._fresh = await session.snapshot(joined, joined.messages or ())
        except BaseException:
            follower.close()
            raise
        before, self._session = self._session, session
        if before is not None:
            before.follower.close()
        return follower

    def _session_of(self, follower: Follower) -> Session:
        return Session(self._threads, follower, self._directory.ids)

    # What it is told

    def _take(self, events: Events) -> None:
        self._fresh = None
        for event, cursor in events:
            self._listeners.tell(SessionEvent(event, cursor))

    def _changed(self, key: ThreadKey, view: ThreadView | None) -> None:
        session = self._session
        if session is not None and session.follower.key == key:
            self._fresh = None
            self._listeners.tell(SessionStatus(session.seen(view)))

    def _here(self) -> Session:
        if self._session is None or self._is_closed:
            raise Disconnected("the connection is closed; nothing was sent")
        if self._ended is not None:
            raise Disconnected(self._ended.message)
        return self._session


def _key_of(found: SessionSummary) -> ThreadKey:
    return ThreadKey.parse(found.project_dir, found.session_id)
