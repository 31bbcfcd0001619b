"""Records that the clients of a server share: worded once, and only what all of them get."""

from connection.event_records import EventRecords
from connection.records import SessionEventRecord, from_daemon
from sessions.domain.keys import Cursor, Generation

EVENT = b'{"type":"CUSTOM","name":"n","value":1}'


def at(sequence: int) -> Cursor:
    return Cursor(Generation("g"), sequence)


def test_a_row_is_worded_once_for_everyone_who_gets_it() -> None:
    records, row = EventRecords(), [(EVENT, at(1)), (EVENT, at(2))]
    lines = records.row("a", row)
    assert records.row("a", row) is lines
    told = [from_daemon(line) for line in lines.split(b"\n")]
    assert [each.cursor for each in told if isinstance(each, SessionEventRecord)] == [at(1), at(2)]


def test_an_event_behind_another_is_never_taken_for_it() -> None:
    records = EventRecords()
    first = records.row("a", [(EVENT, at(1))])
    assert records.row("a", [(EVENT, at(2))]) != first


def test_what_is_for_one_client_alone_makes_no_row() -> None:
    """It is an answer: a client that is behind loses its live events, and never this."""
    records = EventRecords()
    assert records.row("a", [(EVENT, None)]) == b""
    assert records.row("a", [(EVENT, at(1)), (EVENT, None)]) == b""
