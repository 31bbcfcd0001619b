"""The adapter for a session in the daemon: one client, its connection, and what it follows.

Rules for editing: what a record changes is done in `_take`, a plain function, in the order in which
records come; one task, `_keep`, owns the connection and is the only one that dials. Listeners are
told in the order of the events' module.
"""

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

import anyio
import msgspec

from connection.commands import COMMANDS
from connection.cursor import EventCursor
from connection.events import (
    Closed,
    CloseReason,
    ConnectionEvent,
    ConnectionStatus,
    Listener,
    SessionReplaced,
    SessionResynced,
)
from connection.failures import (
    BrokenProtocol,
    CommandRefused,
    ConnectionFailure,
    Disconnected,
    HandshakeRefused,
)
from connection.following import Following, Lost, Output, Shown
from connection.negotiation import CLIENT_CAPABILITIES, REVISION, Offer, proved
from connection.operations import SessionOperations, given
from connection.reconnecting import BUDGET, CatchUps, Reconnecting
from connection.records import (
    Attached,
    DaemonClosing,
    FromDaemon,
    InlineSnapshot,
    ListItem,
    ListProgress,
    Response,
)
from connection.requests import Listed, Request, Requests
from connection.shapes import SessionSummary, Snapshot
from connection.transport import Dial, Transport
from sessions.domain.keys import Cursor, ThreadKey, ThreadOptions

T = TypeVar("T")

Restart = Callable[[], Awaitable[None]]
"""Brings a daemon that is gone back. Returns when one serves. Raises ConnectionFailure."""

_CLOSE_TIMEOUT = 2.0
_NOT_SHOWN = (
    "the session can't be shown, again and again: {}. The conversation is safe; `roost logs` may"
    " say more"
)
_ON_PURPOSE = "the daemon was shut down; the conversation is safe. `roost daemon` starts it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What every attach of a connection asks for."""

    last_messages: int | None = None
    reconnect_budget: float = BUDGET
    transfer_timeout: float = 30.0
    """How long a snapshot in chunks may take to be whole."""
    revision: int = REVISION
    """The newest schema revision that this client pretends to know."""
    name: str | None = None
    """What it is for people, in words that follow "answered in"."""


class DaemonConnection(SessionOperations):
    """Implements `connection.port.AgentConnection`, while `attached` is entered."""

    def __init__(
        self, dial: Dial, restart: Restart | None = None, wishes: Wishes | None = None
    ) -> None:
        super().__init__()
        self._dial = dial
        self._restart = restart
        self._wishes = wishes or Wishes()
        self._requests = Requests(f"daemon-agent-connection:{uuid.uuid4()}")
        self._transport: Transport | None = None
        """The one that commands may be sent on now."""
        self._target: ThreadKey | str | None = None
        self._thread: ThreadKey | None = None
        self._options = ThreadOptions()
        self._following: Following | None = None
        self._proof: frozenset[str] = frozenset()
        self._fresh: Snapshot | None = None
        self._shown = anyio.Event()
        self._show: Callable[[Shown], None] = self._show_first
        self._ended: Closed | None = None
        self._is_established = False
        self._is_disposed = False
        self._closing: str | None = None
        self._catch_ups = CatchUps()
        self._scope = anyio.CancelScope()

    # Its life

    @asynccontextmanager
    async def attached(
        self, target: ThreadKey | str | None, options: ThreadOptions | None = None
    ) -> AsyncGenerator[None]:
        """Be attached to a session while the block runs. Raises ConnectionFailure.

        The session is named by its thread or by a selector. None is for the operations that are
        about no session; such a connection is not looked for again when it is lost.
        """
        self._target, self._options = target, options or ThreadOptions()
        failures: list[Exception] = []
        async with anyio.create_task_group() as tasks:
            try:
                await tasks.start(self._keep, failures)
                if not failures:
                    yield
            except Exception as exc:
                failures.append(exc)
            finally:
                self._dispose()
                tasks.cancel_scope.cancel()
        if failures:
            raise failures[0]

    async def aclose(self) -> None:
        self._dispose()

    def _dispose(self) -> None:
        if not self._is_disposed:
            self._is_disposed = True
            self._proof = frozenset()
            self._listeners.end()
            self._transport = None
            self._requests.fail_all("the connection is closed; nothing more is sent")
            self._scope.cancel()

    def supports_negotiated_capability(self, capability: str) -> bool:
        return capability in self._proof

    async def get_initial_snapshot(self) -> Snapshot:
        if self._fresh is not None:
            return self._fresh
        return await self._ask("get_snapshot", Snapshot, lastMessages=self._wishes.last_messages)

    @asynccontextmanager
    async def watch_session(self, selector: str, listener: Listener) -> AsyncGenerator[Snapshot]:
        found = await self._ask("resolve", SessionSummary, selector=selector)
        watcher = DaemonConnection(self._dial, self._restart, self._wishes)
        watcher.subscribe(listener)
        async with watcher.attached(ThreadKey.parse(found.project_dir, found.session_id)):
            yield await watcher.get_initial_snapshot()

    # What the operations need

    @property
    def _key(self) -> ThreadKey:
        if self._thread is None:
            raise Disconnected("the connection is closed; nothing was sent")
        return self._thread

    async def _ask(self, command: str, answer: type[T], /, **fields: object) -> T:
        request = self._send(command, given(fields))
        try:
            response = await request.wait()
        finally:
            self._requests.forget(request)
            if COMMANDS[command].kind == "mutating":
                self._fresh = None
                if request.response is not None:
                    self._acknowledge(request)
        return _decoded(request, response, answer)

    def _acknowledge(self, request: Request) -> None:
        """Its result, or its refusal, is here: the daemon need not keep it."""
        if self._transport is not None:
            self._transport.put(self._requests.acknowledgement(request))

    def _send(self, command: str, fields: dict[str, object]) -> Request:
        """Put a command on its way, or keep it for when the connection is back."""
        self._check_open()
        if COMMANDS[command].in_session:
            if self._following is None:
                raise CommandRefused("no_session", "this connection is attached to no session")
            fields = {"activeSessionId": self._following.active_id, **fields}
        now = anyio.current_time()
        transport = self._transport
        offer = self._offer
        fields = offer.without_unknown(command, fields) if command == "get_snapshot" else fields
        offer.check(command, fields)
        request = self._requests.make(command, fields, now)
        if transport is None:
            request.pause(now)
        else:
            transport.put(request.line)
        return request

    async def _list_saved(
        self,
        project_dir: str | None,
        on_progress: Callable[[int, int], None],
        on_session: Callable[[SessionSummary], None],
    ) -> Sequence[SessionSummary]:
        rows: dict[tuple[str, str], SessionSummary] = {}

        def take(record: Listed) -> None:
            if isinstance(record, ListProgress):
                on_progress(record.loaded, record.total)
                return
            row = record.session
            # After an outage the list begins anew.
            if (key := (row.project_dir, row.session_id)) not in rows:
                rows[key] = row
                on_session(row)

        request = self._send("list_saved_sessions", given({"projectDir": project_dir}))
        try:
            await request.wait(take)
        finally:
            self._requests.forget(request)
        return tuple(rows.values())

    async def _move_to(self, key: ThreadKey) -> None:
        self._check_open()
        transport = self._transport
        if transport is None:
            raise Disconnected("the daemon is being looked for; nothing was moved")
        self._leave_session()
        before = self._following
        self._show = self._show_replaced
        await self._attach(transport, key, EventCursor(), None)
        if before is not None and self._following is not before:
            detach = self._requests.make(
                "detach", {"activeSessionId": before.active_id}, anyio.current_time()
            )
            transport.put(detach.line)
            self._requests.forget(detach)

    def _check_open(self) -> None:
        if self._is_disposed:
            raise Disconnected("the connection is closed; nothing was sent")
        if self._ended is not None:
            raise Disconnected(self._ended.message)

    # The connection

    async def _keep(
        self,
        failures: list[Exception],
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Own the connection: the first, and every one after an outage, until it ends for good."""
        with self._scope:
            outage: Reconnecting | None = None
            while True:
                try:
                    async with self._connected() as transport:
                        await self._establish(transport, is_back=outage is not None)
                        if outage is None:
                            task_status.started()
                        outage = None
                        await transport.ended.wait()
                        reason = transport.reason
                except (ConnectionFailure, OSError) as exc:
                    if outage is None and not self._is_established:
                        failures.append(_as_failure(exc))
                        task_status.started()
                        return
                    reason = str(exc)
                self._proof = frozenset()
                if self._closing is not None:
                    self._end("shutdown", _ON_PURPOSE)
                if self._following is None:
                    self._end("lost", reason)
                if self._ended is not None:
                    return
                now = anyio.current_time()
                if outage is None:
                    outage = Reconnecting(now, self._wishes.reconnect_budget)
                    self._tell(ConnectionStatus("reconnecting", reason))
                delay = outage.delay(now)
                if delay is None:
                    self._end(
                        "lost",
                        f"the daemon did not come back in {outage.budget:g} s ({reason}). The"
                        " conversation is safe; `roost status` and `roost logs` may say more",
                    )
                    return
                await anyio.sleep(delay)

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[Transport]:
        """A connection whose hello is here, while the block runs. Raises OSError, too."""
        try:
            stream = await self._dial()
        except OSError:
            if self._restart is None:
                raise
            await self._restart()
            stream = await self._dial()
        transport = Transport(stream, self._take, self._gone, self._wishes.revision)
        failure: Exception | None = None
        async with stream, anyio.create_task_group() as tasks:
            tasks.start_soon(transport.serve, tasks)
            try:
                await transport.hello()
                yield transport
            except (ConnectionFailure, OSError) as exc:
                failure = exc
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _establish(self, transport: Transport, *, is_back: bool) -> None:
        """Follow the session on a new connection, and send again what waits."""
        if not is_back:
            self._show = self._show_first
            if (key := await self._first(transport)) is not None:
                await self._attach(transport, key, EventCursor(), None)
        else:
            key, following = self._key, self._following
            cursor = following.cursor if following else EventCursor()
            self._show = self._show_resynced
            await self._attach(transport, key, cursor, cursor.current)
        self._transport = transport
        self._is_established = True
        if is_back:
            self._requests.send_again(transport.offer, transport.put, anyio.current_time())
            self._tell(ConnectionStatus("connected"))

    async def _first(self, transport: Transport) -> ThreadKey | None:
        """The thread that was meant. Raises UnknownSession, AmbiguousSession."""
        if not isinstance(self._target, str):
            return self._target
        fields: dict[str, object] = {"selector": self._target}
        request = self._requests.make("resolve", fields, anyio.current_time(), _nothing)
        try:
            transport.put(request.line)
            found = _decoded(request, await request.wait(), SessionSummary)
        finally:
            self._requests.forget(request)
        return ThreadKey.parse(found.project_dir, found.session_id)

    async def _attach(
        self, transport: Transport, key: ThreadKey, cursor: EventCursor, resume: Cursor | None
    ) -> None:
        """Ask for a session, and return when it is shown. Raises ConnectionFailure."""
        asked = CLIENT_CAPABILITIES[self._wishes.revision]
        fields: dict[str, object] = {
            "projectDir": key.project_dir,
            "sessionId": key.conversation_id,
            "capabilities": sorted(asked),
            "resumeCursor": None if resume is None else msgspec.to_builtins(resume),
            "lastMessages": self._wishes.last_messages,
            "model": self._options.model,
            "mode": self._options.mode,
            "clientName": self._wishes.name,
        }
        fields = transport.offer.without_unknown("attach", given(fields))
        self._proof = frozenset()
        shown = self._shown = anyio.Event()

        def answered(response: Response) -> None:
            if response.success:
                attached = msgspec.json.decode(response.data, type=Attached)
                if attached.client.id != self._requests.client_id:
                    raise HandshakeRefused("invalid attached client capability proof")
                self._proof = proved(asked, attached.client.capabilities, transport.offer)
                self._thread = key
                self._following = Following(attached, cursor)
                self._handle(self._following.begin())

        request = self._requests.make("attach", fields, anyio.current_time(), answered)
        try:
            transport.put(request.line)
            await request.wait()
            with anyio.move_on_after(self._wishes.transfer_timeout):
                await shown.wait()
        finally:
            self._requests.forget(request)
        if transport.ended.is_set():
            raise Disconnected(transport.reason)
        if not shown.is_set():
            raise Disconnected("the session's snapshot did not come in time")

    @property
    def _offer(self) -> Offer:
        if self._transport is not None:
            self._last_offer = self._transport.offer
        return self._last_offer

    _last_offer = Offer(0, frozenset())

    # Records

    def _take(self, transport: Transport, record: FromDaemon) -> None:
        """One record, in its turn. Raises BrokenProtocol."""
        match record:
            case Response():
                self._requests.answered(record)
            case ListItem() | ListProgress():
                self._requests.listed(record)
            case DaemonClosing(reason=reason):
                self._closing = reason
            case _ if self._following is not None:
                self._handle(self._following.feed(record))
            case _:
                pass

    def _gone(self, transport: Transport) -> None:
        """A connection has ended: what belongs to it fails now, the rest waits for the next one."""
        if self._transport is transport:
            self._transport = None
        self._proof = frozenset()
        self._requests.lost(anyio.current_time())
        self._shown.set()

    def _handle(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Shown():
                    self._show_now(output)
                case Lost(reason=reason):
                    if self._catch_ups.failed(anyio.current_time()):
                        self._end("failed", _NOT_SHOWN.format(reason))
                        return
                    raise BrokenProtocol(f"the session's snapshot failed: {reason}")
                case Closed(reason=reason, message=message):
                    self._end(reason, message)
                case _:
                    # The state in a snapshot is that of its moment, as its messages are.
                    self._fresh = None
                    self._tell(output)

    def _show_now(self, shown: Shown) -> None:
        self._fresh = shown.snapshot
        if shown.purpose == "attach":
            self._show(shown)
            self._shown.set()
        elif shown.purpose == "replacement":
            self._show_replaced(shown)
        else:
            self._show_resynced(shown)

    def _show_first(self, shown: Shown) -> None:
        """The caller takes the snapshot itself."""

    def _show_replaced(self, shown: Shown) -> None:
        if shown.snapshot is not None:
            self._tell(SessionReplaced(shown.snapshot))

    def _show_resynced(self, shown: Shown) -> None:
        self._tell(SessionResynced(shown.snapshot, shown.replay))

    def _end(self, reason: CloseReason, message: str) -> None:
        """Nothing follows, whatever comes."""
        if self._ended is None:
            self._ended = Closed(reason, message)
            self._proof = frozenset()
            self._requests.fail_all(message)
            self._tell(self._ended)
            self._transport = None
            self._scope.cancel()

    def _tell(self, event: ConnectionEvent) -> None:
        if not self._is_disposed:
            self._listeners.tell(event)


def _decoded(request: Request, response: Response, answer: type[T]) -> T:
    """The data of a response. Raises BrokenProtocol when it is something else."""
    try:
        if answer is Snapshot:
            inline = msgspec.json.decode(response.data, type=InlineSnapshot)
            return cast("T", inline.head.with_messages(inline.messages))
        return msgspec.json.decode(response.data, type=answer)
    except msgspec.MsgspecError as exc:
        raise BrokenProtocol(f"{request.name} was answered with something else: {exc}") from exc


def _nothing(response: Response) -> None:
    """The request belongs to its connection, and there is nothing to do but to wake who waits."""


def _as_failure(exc: Exception) -> Exception:
    if isinstance(exc, OSError):
        return Disconnected(f"the daemon can't be reached: {exc.strerror or exc}")
    return exc
