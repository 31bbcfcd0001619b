"""A snapshot in chunks, and back again. Pure.

Split only between messages, so that a message larger than a chunk makes a larger chunk. Nothing of
a transfer is seen before its end was checked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from connection.failures import BrokenProtocol
from connection.records import (
    Purpose,
    SnapshotBegin,
    SnapshotChunk,
    SnapshotEnd,
    SnapshotHead,
)
from connection.shapes import Snapshot

CHUNK_BYTES = 512 * 1024

Transfer = Iterator[SnapshotBegin | SnapshotChunk | SnapshotEnd]


def size_of(messages: Sequence[msgspec.Raw]) -> int:
    """How large they are as one JSON array."""
    return sum(len(memoryview(message)) + 1 for message in messages) + 1


def chunked(messages: Sequence[msgspec.Raw], target: int) -> Iterator[tuple[msgspec.Raw, ...]]:
    """Runs of messages of about so many bytes, in order."""
    chunk: list[msgspec.Raw] = []
    size = 0
    for message in messages:
        length = len(memoryview(message)) + 1
        if chunk and size + length > target:
            yield tuple(chunk)
            chunk, size = [], 0
        chunk.append(message)
        size += length
    if chunk:
        yield tuple(chunk)


def transfer(
    snapshot: Snapshot, snapshot_id: str, purpose: Purpose, target: int = CHUNK_BYTES
) -> Transfer:
    """The records of a snapshot. Each chunk is made when it is asked for."""
    active = snapshot.state.active_session_id
    yield SnapshotBegin(
        active_session_id=active,
        snapshot_id=snapshot_id,
        purpose=purpose,
        head=SnapshotHead.of(snapshot),
        message_count=len(snapshot.messages),
    )
    count = 0
    for count, messages in enumerate(chunked(snapshot.messages, target), 1):
        yield SnapshotChunk(
            active_session_id=active, snapshot_id=snapshot_id, index=count - 1, messages=messages
        )
    yield SnapshotEnd(
        active_session_id=active,
        snapshot_id=snapshot_id,
        chunk_count=count,
        cursor=snapshot.cursor,
    )


@dataclass(slots=True)
class Assembly:
    """One transfer on its way in. Raises BrokenProtocol for what does not fit; start anew then."""

    begin: SnapshotBegin
    _messages: list[msgspec.Raw] = field(default_factory=list[msgspec.Raw])
    _chunks: int = 0

    def add(self, chunk: SnapshotChunk) -> None:
        self._check(chunk.active_session_id, chunk.snapshot_id)
        if chunk.index != self._chunks:
            raise BrokenProtocol(f"snapshot chunk {chunk.index} came where {self._chunks} was due")
        self._chunks += 1
        self._messages += chunk.messages
        if len(self._messages) > self.begin.message_count:
            raise BrokenProtocol("a snapshot has more messages than it began with")

    def finish(self, end: SnapshotEnd) -> Snapshot:
        """The whole snapshot."""
        self._check(end.active_session_id, end.snapshot_id)
        if end.chunk_count != self._chunks:
            raise BrokenProtocol(f"{self._chunks} of {end.chunk_count} snapshot chunks came")
        if len(self._messages) != self.begin.message_count:
            raise BrokenProtocol("a snapshot has fewer messages than it began with")
        if end.cursor != self.begin.head.cursor:
            raise BrokenProtocol("a snapshot ends at another place than it began at")
        return self.begin.head.with_messages(tuple(self._messages))

    def _check(self, active_session_id: str, snapshot_id: str) -> None:
        begin = self.begin
        if (active_session_id, snapshot_id) != (begin.active_session_id, begin.snapshot_id):
            raise BrokenProtocol("a part of another snapshot came in the middle of this one")
