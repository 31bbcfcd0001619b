"""One attach, on the client's side: from its answer to its end. Pure: records in, events out.

A frame that belongs to an older attach is nothing: only records of this one's session count, and
only in an order in which they can have been sent. The cursor outlives the attach, so that a
connection that comes back drops what it has seen.
"""

from dataclasses import dataclass, field

from connection.cursor import EventCursor
from connection.events import Closed, CloseReason, ConnectionEvent, SessionEvent, SessionStatus
from connection.failures import BrokenProtocol
from connection.records import (
    Attached,
    FromDaemon,
    Purpose,
    SessionClosed,
    SessionEventRecord,
    SessionStatusRecord,
    SnapshotBegin,
    SnapshotChunk,
    SnapshotEnd,
    SnapshotFailed,
)
from connection.shapes import Replay, Snapshot
from connection.transfer import Assembly

_REASONS: dict[str, CloseReason] = {"killed": "killed", "shutdown": "shutdown"}


@dataclass(frozen=True, slots=True)
class Shown:
    """A snapshot is whole, and is what the session is now. None: nothing was missed for good."""

    snapshot: Snapshot | None
    purpose: Purpose
    replay: Replay


@dataclass(frozen=True, slots=True)
class Lost:
    """The daemon could not make the snapshot that was due: attach again."""

    reason: str


Output = Shown | Lost | ConnectionEvent


@dataclass(slots=True)
class Following:
    """The session that a client follows, once its attach was answered."""

    attached: Attached
    cursor: EventCursor
    _assembly: Assembly | None = None
    _is_live: bool = False
    _outputs: list[Output] = field(default_factory=list[Output])

    @property
    def active_id(self) -> str:
        return self.attached.active_session_id

    def begin(self) -> list[Output]:
        """What the answer itself holds: a snapshot, or nothing yet."""
        attached = self.attached
        if attached.snapshot is not None:
            snapshot = attached.snapshot.head.with_messages(attached.snapshot.messages)
            return [self._shown(snapshot, "attach")]
        if attached.snapshot_stream is None:
            self._is_live = True
            return [Shown(None, "attach", attached.replay)]
        return []

    def feed(self, record: FromDaemon) -> list[Output]:
        """What a record says of this session. Raises BrokenProtocol."""
        match record:
            case SessionEventRecord() if self._concerns(record.active_session_id):
                return self._event(record)
            case SessionStatusRecord() if self._concerns(record.active_session_id):
                return [SessionStatus(record.state)]
            case SnapshotBegin() if record.active_session_id == self.active_id:
                self._begin_assembly(record)
            case SnapshotChunk() if self._assembly and record.active_session_id == self.active_id:
                self._assembly.add(record)
            case SnapshotEnd() if self._assembly and record.active_session_id == self.active_id:
                assembly, self._assembly = self._assembly, None
                return [self._shown(assembly.finish(record), assembly.begin.purpose)]
            case SnapshotFailed() if record.active_session_id == self.active_id:
                self._assembly = None
                return [Lost(record.error)]
            case SessionClosed() if record.active_session_id == self.active_id:
                self._is_live = False
                return [Closed(_REASONS.get(record.reason, "failed"), record.message)]
            case _:
                pass
        return []

    def _concerns(self, active_id: str) -> bool:
        """An event before the snapshot, or in the middle of one, was sent to an older attach."""
        return active_id == self.active_id and self._is_live and self._assembly is None

    def _event(self, record: SessionEventRecord) -> list[Output]:
        if record.cursor is not None and not self.cursor.admits(record.cursor):
            return []
        return [SessionEvent(bytes(record.event), record.cursor)]

    def _begin_assembly(self, begin: SnapshotBegin) -> None:
        expected = self.attached.snapshot_stream
        if not self._is_live:
            if expected is None or begin.snapshot_id != expected.id or begin.purpose != "attach":
                return  # of an older attach
            if begin.message_count != expected.message_count:
                raise BrokenProtocol("a snapshot is not the one that was announced")
        elif begin.purpose == "attach":
            return
        self._assembly = Assembly(begin)

    def _shown(self, snapshot: Snapshot, purpose: Purpose) -> Shown:
        if purpose != "attach" and self.cursor.is_past(snapshot.cursor):
            raise BrokenProtocol("a snapshot is older than what was told before it")
        if snapshot.cursor is not None:
            self.cursor.moved_to(snapshot.cursor)
        self._is_live = True
        return Shown(snapshot, purpose, snapshot.replay or self.attached.replay)
