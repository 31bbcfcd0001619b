"""The records of the local protocol `roost.daemon`: what a line may be, both ways.

One JSON object a line, LF only. From the client: envelopes around commands. From the daemon: its
hello, responses, and what happens in the sessions that the client follows. Unknown record types are
ignored by whoever gets them.
"""

from typing import Literal

import msgspec

from connection.failures import BrokenProtocol
from connection.shapes import Replay, SessionState, SessionSummary, Snapshot, Window
from sessions.domain.keys import Cursor

PROTOCOL = "roost.daemon"
VERSION = 1

Purpose = Literal["attach", "resync", "replacement"]


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One line."""


class ProtocolName(Record, frozen=True, kw_only=True):
    name: str = ""
    version: int = 0


class Envelope(Record, frozen=True, kw_only=True):
    """A command on its way. `id` stays the same when it is sent again."""

    type: str
    id: str
    protocol: ProtocolName
    client_id: str
    command: dict[str, object]


class ErrorInfo(Record, frozen=True, kw_only=True):
    code: str
    capability: str | None = None


class Response(Record, frozen=True, kw_only=True, tag="response"):
    """The one answer to a command."""

    id: str
    command: str
    success: bool
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None
    error_info: ErrorInfo | None = None


class DaemonHello(Record, frozen=True, kw_only=True, tag="daemon_hello"):
    """The first record, from the daemon, once it is ready."""

    protocol: ProtocolName
    schema_revision: int
    schema_id: str
    app_version: str
    generation: str
    """This run of the daemon."""
    pid: int
    process_start: str | None = None
    client_id: str
    """One that the client may take; it keeps its own over reconnects."""
    server_capabilities: tuple[str, ...] = ()


class DaemonClosing(Record, frozen=True, kw_only=True, tag="daemon_closing"):
    """The daemon ends on purpose: it is not to be chased."""

    reason: str


class ListItem(Record, frozen=True, kw_only=True, tag="session_list_item"):
    """One saved session, before the response that ends the list."""

    id: str
    session: SessionSummary


class ListProgress(Record, frozen=True, kw_only=True, tag="session_list_progress"):
    id: str
    loaded: int
    total: int


class SessionEventRecord(Record, frozen=True, kw_only=True, tag="session_event"):
    """One AG-UI event of a session. Without a cursor it is for this client alone."""

    active_session_id: str
    cursor: Cursor | None = None
    event: msgspec.Raw


class SessionStatusRecord(Record, frozen=True, kw_only=True, tag="session_status"):
    active_session_id: str
    state: SessionState


class SnapshotHead(Record, frozen=True, kw_only=True):
    """A snapshot without its messages."""

    state: SessionState
    events: tuple[msgspec.Raw, ...] = ()
    cursor: Cursor | None = None
    replay: Replay | None = None
    window: Window | None = None

    @classmethod
    def of(cls, snapshot: Snapshot) -> "SnapshotHead":
        return cls(
            state=snapshot.state,
            events=tuple(msgspec.Raw(event) for event in snapshot.events),
            cursor=snapshot.cursor,
            replay=snapshot.replay,
            window=snapshot.window,
        )

    def with_messages(self, messages: tuple[msgspec.Raw, ...]) -> Snapshot:
        return Snapshot(
            state=self.state,
            messages=messages,
            events=tuple(bytes(event) for event in self.events),
            cursor=self.cursor,
            replay=self.replay,
            window=self.window,
        )


class InlineSnapshot(Record, frozen=True, kw_only=True):
    """A whole snapshot in a response."""

    head: SnapshotHead
    messages: tuple[msgspec.Raw, ...] = ()


class SnapshotStream(Record, frozen=True, kw_only=True):
    """Says that the snapshot of a response follows in chunks."""

    id: str
    message_count: int


class AttachedClient(Record, frozen=True, kw_only=True):
    id: str
    capabilities: tuple[str, ...] = ()


class Attached(Record, frozen=True, kw_only=True):
    """What an attach is answered with. Without a snapshot the missed events follow."""

    active_session_id: str
    client: AttachedClient
    replay: Replay
    state: SessionState
    snapshot: InlineSnapshot | None = None
    snapshot_stream: SnapshotStream | None = None


class SnapshotBegin(Record, frozen=True, kw_only=True, tag="session_snapshot_begin"):
    active_session_id: str
    snapshot_id: str
    purpose: Purpose
    head: SnapshotHead
    message_count: int


class SnapshotChunk(Record, frozen=True, kw_only=True, tag="session_snapshot_chunk"):
    active_session_id: str
    snapshot_id: str
    index: int
    messages: tuple[msgspec.Raw, ...]


class SnapshotEnd(Record, frozen=True, kw_only=True, tag="session_snapshot_end"):
    active_session_id: str
    snapshot_id: str
    chunk_count: int
    cursor: Cursor | None = None


class SnapshotFailed(Record, frozen=True, kw_only=True, tag="session_snapshot_failed"):
    active_session_id: str
    snapshot_id: str
    purpose: Purpose
    error: str


class SessionClosed(Record, frozen=True, kw_only=True, tag="session_closed"):
    active_session_id: str
    reason: str
    message: str


FromDaemon = (
    DaemonHello
    | DaemonClosing
    | Response
    | ListItem
    | ListProgress
    | SessionEventRecord
    | SessionStatusRecord
    | SnapshotBegin
    | SnapshotChunk
    | SnapshotEnd
    | SnapshotFailed
    | SessionClosed
)


class _Typed(msgspec.Struct):
    type: str = ""
    id: msgspec.Raw = msgspec.Raw(b"null")


_typed = msgspec.json.Decoder(_Typed)
_envelope = msgspec.json.Decoder(Envelope)
_from_daemon: msgspec.json.Decoder[FromDaemon] = msgspec.json.Decoder(FromDaemon)
RECORDS: tuple[type[Record], ...] = (
    DaemonHello,
    DaemonClosing,
    Response,
    ListItem,
    ListProgress,
    SessionEventRecord,
    SessionStatusRecord,
    SnapshotBegin,
    SnapshotChunk,
    SnapshotEnd,
    SnapshotFailed,
    SessionClosed,
)
_KNOWN = frozenset(str(kind.__struct_config__.tag) for kind in RECORDS)

_encoder = msgspec.json.Encoder()
encode = _encoder.encode
"""One line, without its newline."""


def from_daemon(line: bytes) -> FromDaemon | None:
    """A record of the daemon; None for one of a type that is unknown. Raises BrokenProtocol."""
    try:
        return _from_daemon.decode(line)
    except msgspec.ValidationError as exc:
        if type_of(line) not in _KNOWN:
            return None
        raise BrokenProtocol(f"a record of the daemon is not one: {exc}") from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise BrokenProtocol("the daemon sent a line that is not JSON") from exc


def type_of(line: bytes) -> str | None:
    """The type of a line, or None when it is not a JSON object."""
    try:
        return _typed.decode(line).type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class BadEnvelope(Exception):
    """A client's line is no envelope. `id` is what could be salvaged of it."""

    def __init__(self, line_id: str | None, message: str) -> None:
        super().__init__(message)
        self.id = line_id


def envelope(line: bytes) -> Envelope:
    """Raises BadEnvelope."""
    try:
        found = _envelope.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise BadEnvelope(_salvaged_id(line), _what_is_wrong(line, exc)) from exc
    if found.type != "command" or found.protocol.name != PROTOCOL:
        raise BadEnvelope(found.id, f"commands travel in envelopes of {PROTOCOL} version {VERSION}")
    if found.protocol.version != VERSION:
        raise BadEnvelope(
            found.id,
            f"this daemon speaks {PROTOCOL} version {VERSION}, not {found.protocol.version}",
        )
    return found


def _what_is_wrong(line: bytes, exc: Exception) -> str:
    kind = type_of(line)
    if kind is None:
        return "this line is not a JSON object"
    if kind != "command":
        return (
            f"commands travel in envelopes of {PROTOCOL} version {VERSION}; this is a bare {kind!r}"
        )
    return f"this envelope is not one: {exc}"


def _salvaged_id(line: bytes) -> str | None:
    try:
        return msgspec.json.decode(_typed.decode(line).id, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
