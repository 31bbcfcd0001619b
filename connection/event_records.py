"""Words a session's events for its clients, once for all who get them one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from connection.records import SessionEventRecord, SessionStatusRecord, encode
from connection.shapes import SessionState
from sessions.domain.keys import Cursor
from sessions.domain.ports import ThreadView

Events = Sequence[tuple[bytes, Cursor | None]]


@dataclass(slots=True)
class EventRecords:
    """Shared by the clients of a server.

    An event has one cursor, whoever gets it, and the id of a session is the same for everyone, so
    its record is, too. What was last worded is kept, so that its identity can't be a newer one's.
    """

    _cursor: Cursor | None = None
    _record: bytes = b""
    _row: Events = ()
    _lines: bytes = b""
    _view: ThreadView | None = None
    _status: bytes = b""

    def one(self, active_id: str, event: bytes, cursor: Cursor | None) -> bytes:
        """A `session_event` around the very bytes of the event."""
        if cursor is None or cursor is not self._cursor:
            record = SessionEventRecord(
                active_session_id=active_id, cursor=cursor, event=msgspec.Raw(event)
            )
            self._record, self._cursor = encode(record), cursor
        return self._record

    def row(self, active_id: str, events: Events) -> bytes:
        """The records of events in a row, as lines; empty when one is for a single client alone."""
        if events is not self._row:
            is_live = all(cursor is not None for _, cursor in events)
            records = [self.one(active_id, *event) for event in events] if is_live else []
            self._lines, self._row = b"\n".join(records), events
        return self._lines

    def status(self, view: ThreadView | None, state: SessionState) -> bytes:
        """The `session_status` of a view, which all watchers are given one after the other."""
        if view is None or view is not self._view:
            record = SessionStatusRecord(active_session_id=state.active_session_id, state=state)
            self._status, self._view = encode(record), view
        return self._status
