"""A snapshot in chunks is the same snapshot, or nothing."""

import json
from contextlib import nullcontext

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connection.cursor import EventCursor
from connection.failures import BrokenProtocol
from connection.following import Following
from connection.records import (
    Attached,
    AttachedClient,
    SnapshotBegin,
    SnapshotChunk,
    SnapshotEnd,
    encode,
    from_daemon,
)
from connection.shapes import Replay, SessionState, Snapshot
from connection.transfer import CHUNK_BYTES, Assembly, transfer
from sessions.domain.keys import Cursor, Generation

STATE = SessionState(active_session_id="a", session_id="c", project_dir="/p", status="idle")


def snapshot(*contents: str) -> Snapshot:
    messages = tuple(
        msgspec.Raw(json.dumps({"id": f"m{n}", "role": "user", "content": text}).encode())
        for n, text in enumerate(contents)
    )
    return Snapshot(
        state=STATE,
        messages=messages,
        events=(b'{"type":"RUN_STARTED"}',),
        cursor=Cursor(Generation("g"), 7),
    )


def records(whole: Snapshot, target: int = CHUNK_BYTES) -> list[msgspec.Struct]:
    """Over the wire and back."""
    sent = [encode(record) for record in transfer(whole, "s", "attach", target)]
    received = [from_daemon(line) for line in sent]
    return [record for record in received if record is not None]


def assembled(parts: list[msgspec.Struct]) -> Snapshot:
    begin, *chunks, end = parts
    assert isinstance(begin, SnapshotBegin)
    assembly = Assembly(begin)
    for chunk in chunks:
        assert isinstance(chunk, SnapshotChunk)
        assembly.add(chunk)
    assert isinstance(end, SnapshotEnd)
    return assembly.finish(end)


@settings(max_examples=40)
@given(st.lists(st.text(max_size=30), max_size=30), st.integers(1, 400))
def test_whatever_is_cut_where_it_comes_back_whole(contents: list[str], target: int) -> None:
    whole = snapshot(*contents)
    back = assembled(records(whole, target))
    assert [bytes(m) for m in back.messages] == [bytes(m) for m in whole.messages]
    assert (back.state, back.events, back.cursor) == (whole.state, whole.events, whole.cursor)


def test_a_message_larger_than_a_chunk_is_one_chunk() -> None:
    begin, *chunks, _ = records(snapshot("a" * 1000, "b", "c"), target=100)
    assert isinstance(begin, SnapshotBegin)
    assert [len(c.messages) for c in chunks if isinstance(c, SnapshotChunk)] == [1, 2]


@given(st.data())
def test_what_was_lost_doubled_or_moved_is_never_taken_for_a_snapshot(
    data: st.DataObject,
) -> None:
    """A client that shows half a conversation as the whole one lies to its user."""
    parts = records(snapshot(*"abcdefgh"), target=60)
    chunks = parts[1:-1]
    assert len(chunks) > 2
    place = data.draw(st.integers(0, len(chunks) - 1))
    match data.draw(st.sampled_from(["lose", "double", "swap"])):
        case "lose":
            del chunks[place]
        case "double":
            chunks.insert(place, chunks[place])
        case _:
            chunks[place], chunks[place - 1] = chunks[place - 1], chunks[place]
    with pytest.raises(BrokenProtocol):
        assembled([parts[0], *chunks, parts[-1]])


def test_an_end_at_another_place_is_refused() -> None:
    parts = records(snapshot("a"))
    end = parts[-1]
    assert isinstance(end, SnapshotEnd)
    moved = msgspec.structs.replace(end, cursor=Cursor(Generation("g"), 8))
    with pytest.raises(BrokenProtocol, match="another place"):
        assembled([*parts[:-1], moved])


def test_a_part_of_another_transfer_is_refused() -> None:
    parts = records(snapshot("a"))
    chunk = parts[1]
    assert isinstance(chunk, SnapshotChunk)
    foreign = msgspec.structs.replace(chunk, snapshot_id="another")
    with pytest.raises(BrokenProtocol, match="another snapshot"):
        assembled([parts[0], foreign, parts[-1]])


def test_a_catch_up_that_is_older_than_what_was_told_is_refused() -> None:
    """It would take back what the person has read."""
    attached = Attached(
        active_session_id="a", client=AttachedClient(id="me"), replay=Replay(status="complete"),
        state=STATE,
    )  # fmt: skip
    for sequence, is_refused in ((8, True), (7, False)):
        following = Following(attached, EventCursor(Cursor(Generation("g"), sequence)))
        following.begin()
        *parts, end = transfer(snapshot("a"), "s", "resync")
        for part in parts:
            following.feed(part)
        with pytest.raises(BrokenProtocol, match="older") if is_refused else nullcontext():
            following.feed(end)
