"""A client over every kind of loss: once things settle, it shows all that was said, once.

A model of a session says numbered events in generations; the daemon's side is the real ring, with a
small memory, and the real transfer; the client's side is the real `Following` and cursor. Rules cut
the connection anywhere, delay what is on its way, let a late record of an older connection in,
restart the worker, and drop events into a catch-up.
"""

import json
from collections import deque

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from connection.cursor import EventCursor
from connection.events import SessionEvent
from connection.following import Following, Shown
from connection.records import (
    Attached,
    AttachedClient,
    FromDaemon,
    InlineSnapshot,
    Purpose,
    SessionEventRecord,
    SnapshotHead,
    SnapshotStream,
)
from connection.shapes import Replay, SessionState, Snapshot
from connection.transfer import transfer
from sessions.domain.keys import Cursor, Generation
from sessions.domain.ring import Coverage, Ring

STATE = SessionState(active_session_id="a", session_id="c", project_dir="/p", status="idle")
RING = 4


class OneClient(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[int] = []
        self.generation = 0
        self.sequence = 0
        self.snapshots = 0
        self.ring = Ring(Generation("g0"), RING, 10_000)
        # The daemon's side of the connection, and what is on its way to the client.
        self.is_attached = False
        self.misses = False
        self.wire: deque[FromDaemon | Attached] = deque()
        # The client.
        self.cursor = EventCursor()
        self.following: Following | None = None
        self.shown: list[int] = []
        self.stale: list[FromDaemon] = []

    # The session

    @rule()
    def says(self) -> None:
        self.sequence += 1
        number = len(self.said)
        self.said.append(number)
        self.ring.append(self.sequence, json.dumps(number).encode())
        if self.is_attached and not self.misses:
            self.wire.append(self._event(self.ring.cursor, number))

    @rule()
    def worker_restarts(self) -> None:
        self.generation += 1
        self.sequence = 0
        self.ring = Ring(Generation(f"g{self.generation}"), RING, 10_000)

    @precondition(lambda self: self.is_attached)
    @rule()
    def daemon_drops_events(self) -> None:
        """The client does not keep up: nothing more of the session is sent until a catch-up."""
        self.misses = True

    @precondition(lambda self: self.misses)
    @rule()
    def daemon_catches_up(self) -> None:
        self.misses = False
        self.wire += self._transfer("resync")

    # The connection

    @rule(chunked=st.booleans())
    def comes_back(self, chunked: bool) -> None:
        """A new connection: what was on its way on the old one is lost, or comes far too late."""
        self.stale += [r for r in self.wire if not isinstance(r, Attached)]
        self.wire.clear()
        self.is_attached, self.misses = True, False
        resume = self.cursor.current
        attachment = self.ring.attach(resume)
        replay = Replay(status=attachment.coverage.value)
        if resume is not None and attachment.coverage is Coverage.COMPLETE:
            self.wire.append(self._attached(replay))
            for cursor, line in self.ring.after(resume.sequence):
                self.wire.append(self._event(cursor, int(line)))
        elif chunked:
            begin, *rest = self._transfer("attach")
            assert not isinstance(begin, Attached | SessionEventRecord)
            stream = SnapshotStream(id=f"s{self.snapshots}", message_count=len(self.said))
            self.wire += [self._attached(replay, stream=stream), begin, *rest]
        else:
            head = SnapshotHead.of(self._snapshot())
            inline = InlineSnapshot(head=head, messages=self._snapshot().messages)
            self.wire.append(self._attached(replay, inline=inline))

    @precondition(lambda self: self.wire)
    @rule(count=st.integers(1, 5))
    def arrives(self, count: int) -> None:
        for _ in range(min(count, len(self.wire))):
            self._take(self.wire.popleft())

    @precondition(lambda self: self.stale and not self.wire)
    @rule(place=st.integers(0, 100))
    def a_record_of_an_older_connection_arrives(self, place: int) -> None:
        """What the client has seen, or what belongs to a generation that was left, is nothing."""
        record = self.stale[place % len(self.stale)]
        seen = self.cursor.current
        if isinstance(record, SessionEventRecord) and record.cursor and seen:
            is_old = record.cursor.sequence <= seen.sequence
            if is_old and record.cursor.generation == seen.generation:
                self._take(record)

    @rule()
    def settles(self) -> None:
        """Nothing is cut any more, and all that is on its way arrives."""
        if not self.is_attached:
            self.comes_back(False)
        if self.misses:
            self.daemon_catches_up()
        while self.wire:
            self._take(self.wire.popleft())
        assert self.shown == self.said

    @invariant()
    def what_is_shown_was_said_in_this_order_and_once(self) -> None:
        assert self.shown == sorted(set(self.shown))
        assert set(self.shown) <= set(self.said)

    # Smaller steps

    def _take(self, record: FromDaemon | Attached) -> None:
        if isinstance(record, Attached):
            self.following = Following(record, self.cursor)
            outputs = self.following.begin()
        elif self.following is not None:
            outputs = self.following.feed(record)
        else:
            outputs = []
        for output in outputs:
            match output:
                case Shown(snapshot=Snapshot() as whole):
                    self.shown = [int(bytes(m)) for m in whole.messages]
                case SessionEvent(event=line):
                    self.shown.append(int(line))
                case _:
                    pass

    def _snapshot(self) -> Snapshot:
        messages = tuple(msgspec.Raw(json.dumps(n).encode()) for n in self.said)
        return Snapshot(state=STATE, messages=messages, cursor=self.ring.cursor)

    def _transfer(self, purpose: Purpose) -> list[FromDaemon]:
        self.snapshots += 1
        name = f"s{self.snapshots}"
        return list(transfer(self._snapshot(), name, purpose, 4))

    def _attached(
        self,
        replay: Replay,
        *,
        inline: InlineSnapshot | None = None,
        stream: SnapshotStream | None = None,
    ) -> Attached:
        return Attached(
            active_session_id="a",
            client=AttachedClient(id="me"),
            replay=replay,
            state=STATE,
            snapshot=inline,
            snapshot_stream=stream,
        )

    def _event(self, cursor: Cursor, number: int) -> SessionEventRecord:
        event = msgspec.Raw(json.dumps(number).encode())
        return SessionEventRecord(active_session_id="a", cursor=cursor, event=event)


OneClient.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestOneClient = OneClient.TestCase
