"""One client of the local server: its commands in, its records out.

Rules for editing: what a line means is decided in `_take`, a plain function, before anything waits;
a command is a task of its own, so that a slow one holds nobody up; everything to the client goes
through one queue, in order, so a snapshot always comes before the events behind it.
"""

import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup

from connection.at_most_once import at_most_once
from connection.commands import COMMANDS, REQUEST_TIMEOUT
from connection.event_records import EventRecords
from connection.execution import KILLED, Directory, Household, Session, thread_of
from connection.failures import CapabilityUnavailable, CommandRefused, ConnectionFailure
from connection.follower import Events, Follower, Joined
from connection.journal import CommandJournal, IdTaken, JournalFailed, Key, State, fingerprint
from connection.local_stream import LocalStream
from connection.negotiation import SCHEMA_ID, SERVER_CAPABILITIES, Offer
from connection.outgoing import Outgoing
from connection.records import (
    PROTOCOL,
    VERSION,
    Attached,
    AttachedClient,
    BadEnvelope,
    DaemonClosing,
    DaemonHello,
    Envelope,
    ErrorInfo,
    InlineSnapshot,
    ListItem,
    ListProgress,
    ProtocolName,
    Purpose,
    Response,
    SessionClosed,
    SnapshotFailed,
    SnapshotHead,
    SnapshotStream,
    encode,
    envelope,
)
from connection.shapes import Snapshot
from connection.transfer import CHUNK_BYTES, size_of, transfer
from sessions.domain.keys import Cursor, ThreadKey, ThreadOptions
from sessions.domain.ports import Threads, ThreadView
from sessions.domain.splitter import LineSplitter, LineTooLong

log = structlog.stdlib.get_logger()

_UNCERTAIN = (
    "this was received before and has no result: it may have happened; look before you repeat it"
)
_ID_TAKEN = "this id was another command's; nothing was done. Each command needs an id of its own"
# A history that is another one now, for everyone who follows. Our workers write the type first.
_REPLACES = b'{"type":"MESSAGES_SNAPSHOT"'
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """Limits of one connection."""

    max_events: int = 1024
    max_bytes: int = 8 * 2**20
    max_line_bytes: int = 20 * 2**20
    max_commands: int = 256
    """Commands of one client that may be on their way at once; it is not read from above that."""
    write_timeout: float = 10.0
    state_patience: float = REQUEST_TIMEOUT
    """How long a worker may take to tell its state, which an attach waits for."""
    chunk_bytes: int = CHUNK_BYTES


@dataclass(slots=True, eq=False)
class Attachment:
    """A session that the client follows."""

    session: Session
    active_id: str
    last_messages: int | None
    is_chunked: bool
    misses: Purpose | None = None
    """Its events are dropped until a catch-up of this purpose."""
    running: int = 0
    """Commands that change something and go on, whatever becomes of the connection."""
    has_left: bool = False

    def has_missed(self, events: Events) -> None:
        """These were dropped. One that replaced the history makes the catch-up a replacement."""
        if any(event.startswith(_REPLACES) for event, _ in events):
            self.misses = "replacement"

    def leave(self) -> None:
        """The client follows no longer. The follower stays until the last command has ended."""
        self.has_left = True
        self.session.admissions.cancel_all()
        if not self.running:
            self.session.follower.close()

    def ended(self) -> None:
        """A command that changes something has ended."""
        self.running -= 1
        if self.has_left and not self.running:
            self.session.follower.close()

    @property
    def key(self) -> ThreadKey:
        return self.session.follower.key


class Peer:
    """Implements nothing: the server's side of one connection."""

    def __init__(
        self,
        stream: LocalStream,
        threads: Threads,
        directory: Directory,
        household: Household,
        journal: CommandJournal,
        settings: PeerSettings,
        records: EventRecords,
        closed: Callable[[ThreadKey, str, str], None],
        work: TaskGroup,
    ) -> None:
        self._stream = stream
        self._threads = threads
        self._directory = directory
        self._household = household
        self._journal = journal
        self._settings = settings
        self._records = records
        self._closed = closed
        self._work = work
        self._out = Outgoing(settings.max_events, settings.max_bytes)
        self._tasks: TaskGroup | None = None
        """While it serves."""
        self._is_writing = False
        """A task writes what the socket did not take at once, or catches up. Else whoever has
        something to say writes it, without waiting."""
        self._unsent = b""
        self._written = anyio.Event()
        self._attached: dict[str, Attachment] = {}
        self._closed_meanwhile: list[ThreadKey] = []
        """Sessions that were closed, for the attaches that are on their way."""
        self._attaching = 0
        self._slots = anyio.Semaphore(settings.max_commands)
        self._scope = anyio.CancelScope()
        self._is_ending = False
        self._offer = Offer(0, frozenset())
        self._unwatch = threads.watch(self._changed)

    # Its life

    async def serve(self, revision: int, hello: Mapping[str, Any]) -> None:
        """Speak first, then serve the connection until it ends."""
        capabilities = SERVER_CAPABILITIES[revision]
        self._offer = Offer(revision, capabilities)
        greeting = DaemonHello(
            protocol=ProtocolName(name=PROTOCOL, version=VERSION),
            schema_revision=revision,
            schema_id=SCHEMA_ID,
            server_capabilities=tuple(sorted(capabilities)),
            **hello,
        )
        log.debug("client_connected")
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    self._tasks = tasks
                    try:
                        self._put(greeting)
                        await self._read(tasks)
                    finally:
                        # Nothing is written any more, whoever has something to say.
                        self._tasks = None
                    tasks.cancel_scope.cancel()
        finally:
            self._unwatch()
            for attachment in self._attached.values():
                attachment.leave()
            self._attached.clear()
            log.info("client_disconnected")

    def end(self, reason: str) -> None:
        """Tell the client that the daemon closes on purpose, and end once that is written."""
        if not self._is_ending:
            self._is_ending = True
            for attachment in tuple(self._attached.values()):
                text = "the daemon was shut down; the conversation is safe"
                self.session_closed(attachment.key, reason, text)
            self._put(DaemonClosing(reason=reason))
            self._wake()

    def cut(self) -> None:
        """Hang up."""
        self._scope.cancel()

    def session_closed(self, key: ThreadKey, reason: str, message: str) -> None:
        """Always delivered, whatever else is dropped."""
        if self._attaching:
            self._closed_meanwhile.append(key)
        for active_id, attachment in tuple(self._attached.items()):
            if attachment.key == key:
                del self._attached[active_id]
                attachment.leave()
                self._put(
                    SessionClosed(active_session_id=active_id, reason=reason, message=message)
                )

    # In

    async def _read(self, tasks: TaskGroup) -> None:
        splitter = LineSplitter(self._settings.max_line_bytes)
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                try:
                    lines = splitter.feed(await self._stream.receive())
                except LineTooLong as exc:
                    log.warning("client_line_too_long", reason=str(exc))
                    return
                for line in lines:
                    if line.strip():
                        await self._slots.acquire()
                        self._take(line, tasks)
                while self._out.is_clogged:
                    self._written = anyio.Event()
                    await self._written.wait()

    def _take(self, line: bytes, tasks: TaskGroup) -> None:
        try:
            found = envelope(line)
        except BadEnvelope as exc:
            self._refuse(exc.id or "", "parse", "bad_envelope", str(exc))
            self._slots.release()
            return
        name = str(found.command.get("type"))
        try:
            fields = _fields(found)
            self._offer.check(name, fields)
            attachment = self._begin(found, name, fields)
        except CapabilityUnavailable as exc:
            self._refuse(found.id, name, "capability_unavailable", str(exc), exc.capability)
            self._slots.release()
        except CommandRefused as exc:
            self._refuse(found.id, name, exc.code, str(exc))
            self._slots.release()
        else:
            if COMMANDS[name].kind == "mutating":
                # It goes on without the connection, so that a repeat finds its one result.
                self._work.start_soon(self._change, found, name, fields, attachment)
            else:
                tasks.start_soon(self._read_for, found, name, fields, attachment)

    def _begin(self, found: Envelope, name: str, fields: Mapping[str, object]) -> Attachment | None:
        """What a command promises before anything waits. Raises CommandRefused."""
        if not COMMANDS[name].in_session:
            return None
        attachment = self._attached.get(str(fields.get("activeSessionId")))
        if attachment is None:
            raise CommandRefused("not_attached", "this connection does not follow that session")
        is_repeat = self._journal.state((found.client_id, found.id)) is not State.UNKNOWN
        attachment.session.begin(name, fields, is_repeat=is_repeat)
        if COMMANDS[name].kind == "mutating":
            attachment.running += 1
        return attachment

    async def _change(
        self, found: Envelope, name: str, fields: dict[str, object], attachment: Attachment | None
    ) -> None:
        try:
            await self._once(found, name, fields, attachment)
        finally:
            self._slots.release()
            if attachment is not None:
                attachment.session.ended(name, fields)
                attachment.ended()

    async def _read_for(
        self, found: Envelope, name: str, fields: dict[str, object], attachment: Attachment | None
    ) -> None:
        try:
            if (response := await self._answer(found, name, fields, attachment)) is not None:
                self._put_line(response)
        finally:
            self._slots.release()

    async def _once(
        self, found: Envelope, name: str, fields: dict[str, object], attachment: Attachment | None
    ) -> None:
        """Answer a command that changes something, and tell those whom it concerns."""
        key: Key = (found.client_id, found.id)
        has_acted = False

        async def act() -> bytes:
            nonlocal has_acted
            has_acted = True
            return await self._respond(key[1], name, fields, attachment)

        try:
            asked = fingerprint(found.command)
            result = await at_most_once(self._journal, key, name, asked, act)
        except IdTaken:
            result = _failed(key[1], name, "command_id_taken", _ID_TAKEN)
        except JournalFailed as exc:
            result = _failed(key[1], name, "journal", str(exc))
        self._put_line(result or _failed(key[1], name, "command_result_uncertain", _UNCERTAIN))
        if name == "kill" and has_acted:
            with suppress(CommandRefused):
                self._closed(thread_of(fields), "killed", KILLED)

    async def _answer(
        self,
        found: Envelope,
        name: str,
        fields: dict[str, object],
        attachment: Attachment | None,
    ) -> bytes | None:
        if name == "ack_result":
            self._journal.acknowledged((found.client_id, str(fields.get("commandId"))))
            return None
        if name == "attach":
            await self._attach(found, fields)
            return None
        if name == "detach" and attachment is not None:
            self._attached.pop(attachment.active_id, None)
            attachment.leave()
            return _done(found.id, name, {})
        if name == "list_saved_sessions":
            await self._list_saved(found, fields)
            return None
        return await self._respond(found.id, name, fields, attachment)

    async def _respond(
        self, command_id: str, name: str, fields: dict[str, object], attachment: Attachment | None
    ) -> bytes:
        """Carry a command out and word its answer."""
        try:
            given = {k: v for k, v in fields.items() if k != "activeSessionId"}
            if attachment is not None:
                data = await attachment.session.execute(name, given)
            else:
                data = await self._household.execute(name, given)
        except CapabilityUnavailable as exc:
            return _failed(command_id, name, "capability_unavailable", str(exc), exc.capability)
        except CommandRefused as exc:
            return _failed(command_id, name, exc.code, str(exc))
        except ConnectionFailure as exc:
            return _failed(command_id, name, "failed", str(exc))
        except msgspec.ValidationError as exc:
            return _failed(command_id, name, "bad_arguments", f"{name}: {exc}")
        except Exception:
            # The last stop of one command's troubles: other commands and clients go on.
            log.exception("command_failed", command=name)
            return _failed(command_id, name, "internal", "a fault of roost; `roost logs` says more")
        if isinstance(data, Snapshot):
            data = InlineSnapshot(head=SnapshotHead.of(data), messages=data.messages)
        return _done(command_id, name, data)

    async def _list_saved(self, found: Envelope, fields: Mapping[str, object]) -> None:
        """How far it has come, then row by row."""

        def progress(loaded: int, total: int) -> None:
            self._put(ListProgress(id=found.id, loaded=loaded, total=total))

        rows = await self._household.list_saved(fields, progress)
        for row in rows:
            self._put(ListItem(id=found.id, session=row))
        self._put_line(_done(found.id, "list_saved_sessions", {"count": len(rows)}))

    # Attach

    async def _attach(self, found: Envelope, fields: Mapping[str, object]) -> None:
        try:
            asked = msgspec.convert(fields, type=_Attach)
            key = thread_of(fields)
        except msgspec.ValidationError as exc:
            self._put_line(_failed(found.id, "attach", "bad_arguments", f"attach: {exc}"))
            return
        except CommandRefused as exc:
            self._put_line(_failed(found.id, "attach", exc.code, str(exc)))
            return
        proved = self._offer.capabilities & set(asked.capabilities)
        attachment: Attachment | None = None

        def take(events: Events) -> None:
            if attachment is not None:
                self._tell(attachment, events)

        follower = Follower(self._threads, key, take, asked.client_name[:_LONGEST_NAME])
        is_here = False
        self._attaching += 1
        try:
            joined = await follower.open(
                asked.resume_cursor,
                options=ThreadOptions(model=asked.model, mode=asked.mode),
                last_messages=asked.last_messages,
            )
            ids, patience = self._directory.ids, self._settings.state_patience
            session = Session(self._threads, follower, ids, patience)
            snapshot = await session.snapshot(joined, joined.messages or ())
            if key in self._closed_meanwhile:
                raise CommandRefused("session_closed", KILLED)
            is_here = True
        except CommandRefused as exc:
            self._put_line(_failed(found.id, "attach", exc.code, str(exc)))
            return
        except ConnectionFailure as exc:
            self._put_line(_failed(found.id, "attach", "failed", str(exc)))
            return
        finally:
            if not is_here:
                # Also when the client has hung up meanwhile: a worker that is followed is kept.
                follower.close()
            self._attaching -= 1
            if not self._attaching:
                self._closed_meanwhile.clear()
        active_id = snapshot.state.active_session_id
        if (before := self._attached.pop(active_id, None)) is not None:
            before.leave()
        attachment = Attachment(
            session, active_id, asked.last_messages, "chunked_snapshot" in proved
        )
        self._attached[active_id] = attachment
        client = AttachedClient(id=found.client_id, capabilities=tuple(sorted(proved)))
        self._begin_stream(found.id, attachment, client, joined, snapshot)
        follower.release()

    def _begin_stream(
        self,
        command_id: str,
        attachment: Attachment,
        client: AttachedClient,
        joined: Joined,
        snapshot: Snapshot,
    ) -> None:
        """The response, and the snapshot with it or behind it."""
        inline: InlineSnapshot | None = None
        stream: SnapshotStream | None = None
        if joined.messages is not None:
            if attachment.is_chunked and size_of(snapshot.messages) > self._settings.chunk_bytes:
                stream = SnapshotStream(id=uuid.uuid4().hex, message_count=len(snapshot.messages))
            else:
                inline = InlineSnapshot(head=SnapshotHead.of(snapshot), messages=snapshot.messages)
        attached = Attached(
            active_session_id=attachment.active_id,
            client=client,
            replay=joined.replay,
            state=snapshot.state,
            snapshot=inline,
            snapshot_stream=stream,
        )
        self._put_line(_done(command_id, "attach", attached))
        if stream is not None:
            self._out.put_transfer(
                transfer(snapshot, stream.id, "attach", self._settings.chunk_bytes)
            )
            self._wake()

    # Out

    def _tell(self, attachment: Attachment, events: Events) -> None:
        """Live events of a session, or none of them until it was caught up."""
        if attachment.misses is not None:
            attachment.has_missed(events)
            return
        active_id = attachment.active_id
        row = self._records.row(active_id, events)
        if not row or not self._out.put_live(row, len(events)):
            for event, cursor in events:
                record = self._records.one(active_id, event, cursor)
                if cursor is None:
                    self._out.put(record)
                elif not self._out.put_live(record):
                    self._miss(attachment)
                    attachment.has_missed(events)
                    break
        self._write_now()

    def _changed(self, key: ThreadKey, view: ThreadView | None) -> None:
        for attachment in self._attached.values():
            if attachment.key == key and attachment.misses is None:
                state = attachment.session.seen(view)
                if not self._out.put_live(self._records.status(view, state)):
                    self._miss(attachment)
                self._write_now()

    def _miss(self, attachment: Attachment) -> None:
        attachment.misses = "resync"
        self._wake()

    def _write_now(self) -> None:
        """Write what waits, if the client takes it at once: no task has to wake for that."""
        if not self._is_writing and self._tasks is not None:
            self._unsent = self._stream.send_now(self._out.take())
            if self._unsent or self._out:
                self._wake()

    def _wake(self) -> None:
        if not self._is_writing and self._tasks is not None:
            self._is_writing = True
            self._tasks.start_soon(self._write_out)

    async def _write_out(self) -> None:
        """Write what waits; when all is written, catch up with what was dropped, and end."""
        while True:
            if blob := self._unsent or self._out.take():
                self._unsent = b""
                try:
                    with anyio.fail_after(self._settings.write_timeout):
                        await self._stream.send(blob)
                except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    self._scope.cancel()
                    return
                self._written.set()
            elif (late := self._late()) is not None:
                await self._catch_up(late)
            elif self._is_ending:
                self._scope.cancel()
                return
            else:
                self._is_writing = False
                return

    def _late(self) -> Attachment | None:
        return next((a for a in self._attached.values() if a.misses is not None), None)

    async def _catch_up(self, attachment: Attachment) -> None:
        """One snapshot in the place of all that was dropped."""
        follower, purpose = attachment.session.follower, attachment.misses or "resync"
        snapshot_id = uuid.uuid4().hex
        try:
            joined = await follower.open(last_messages=attachment.last_messages)
            snapshot = await attachment.session.snapshot(joined, joined.messages or ())
        except ConnectionFailure as exc:
            log.warning("catch_up_failed", reason=str(exc))
            self._attached.pop(attachment.active_id, None)
            attachment.leave()
            self._put(
                SnapshotFailed(
                    active_session_id=attachment.active_id,
                    snapshot_id=snapshot_id,
                    purpose=purpose,
                    error=str(exc),
                )
            )
            return
        attachment.misses = None
        self._out.put_transfer(transfer(snapshot, snapshot_id, purpose, self._settings.chunk_bytes))
        follower.release()

    def _refuse(
        self, command_id: str, name: str, code: str, error: str, capability: str | None = None
    ) -> None:
        self._put_line(_failed(command_id, name, code, error, capability))

    def _put(self, record: msgspec.Struct) -> None:
        self._put_line(encode(record))

    def _put_line(self, line: bytes) -> None:
        self._out.put(line)
        self._write_now()


class _Attach(msgspec.Struct, rename="camel"):
    capabilities: tuple[str, ...] = ()
    resume_cursor: Cursor | None = None
    last_messages: int | None = None
    model: str | None = None
    mode: str | None = None
    client_name: str = ""


def _fields(found: Envelope) -> dict[str, object]:
    """The fields of a known command. Raises CommandRefused."""
    fields = dict(found.command)
    name = fields.pop("type", None)
    if not isinstance(name, str) or name not in COMMANDS:
        shown = name if isinstance(name, str) else "(no type)"
        raise CommandRefused("unknown_command", f"Unknown daemon command: {shown[:80]}")
    return fields


def _done(command_id: str, name: str, data: object) -> bytes:
    raw = data if isinstance(data, msgspec.Raw) else msgspec.Raw(encode(data))
    return encode(Response(id=command_id, command=name, success=True, data=raw))


def _failed(
    command_id: str, name: str, code: str, error: str, capability: str | None = None
) -> bytes:
    info = ErrorInfo(code=code, capability=capability)
    return encode(
        Response(id=command_id, command=name, success=False, error=error, error_info=info)
    )
