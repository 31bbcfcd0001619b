"""A keeper's core beside a thread's, as a state machine: whoever takes over knows what was known.

A worker's lines come in random pieces; a daemon comes, goes, and comes again. At every adoption a
fresh thread made of what was kept has the run, the documents, the interrupts, the ring and the
numbers of one that was there all the time. What a daemon was told, put together, is what the worker
wrote: nothing lost, nothing twice, nothing torn.
"""

# pyright: reportPrivateUsage=false

import json
from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sessions.domain.backlog import Backlog
from sessions.domain.keeper_frames import FrameSplitter, Kind, Launch
from sessions.domain.keeping import Keeping, Signal
from sessions.domain.kept import Kept, Note, decode_note, encode_note
from sessions.domain.keys import ConversationId, Cursor, Generation, ThreadKey, ThreadOptions
from sessions.domain.ring import Coverage, Ring
from sessions.domain.settings import RegistrySettings
from sessions.domain.thread import Orders, Thread
from tests.sessions.test_thread_machine import PureWorker

SETTINGS = RegistrySettings(announces_ready=False, ring_events=20, ring_bytes=2000)
NOTE = Note(generation="g", token="t")


def a_launch(*, announces_ready: bool = False) -> Launch:
    return Launch(
        keeper="k", home="h", folder="/", token="t", project_dir="/p", conversation_id="c",
        command=["x"], arguments=[], is_ours=False, environ={}, open_files=None,
        write_timeout=10.0, stop_grace=5.0, max_line_bytes=10_000,
        ring_events=SETTINGS.ring_events, ring_bytes=SETTINGS.ring_bytes,
        join_lines=SETTINGS.join_lines, join_bytes=SETTINGS.join_bytes,
        idle_timeout=SETTINGS.idle_timeout, approval_timeout=SETTINGS.approval_timeout,
        durable_interrupts=True, announces_ready=announces_ready,
    )  # fmt: skip


class FakeSpool:
    """A file that may be full."""

    def __init__(self) -> None:
        self.data = b""
        self.is_full = False

    def append(self, data: bytes) -> None:
        if self.is_full:
            raise OSError("no space left on device")
        self.data += data

    def take(self) -> bytes:
        taken, self.data = self.data[:50], self.data[50:]
        return taken

    def __len__(self) -> int:
        return len(self.data)

    def clear(self) -> None:
        self.data = b""


def a_thread(settings: RegistrySettings = SETTINGS) -> Thread:
    return Thread(
        ThreadKey("/p", ConversationId("c")),
        ThreadOptions(),
        settings,
        Orders(launch=lambda thread, delay: None),
        0.0,
    )


def _text(length: int) -> dict[str, Any]:
    return {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x" * length}


_DECIDING: list[dict[str, Any]] = [
    {"type": "RUN_STARTED", "runId": "r", "threadId": "t"},
    {"type": "RUN_FINISHED", "runId": "r", "threadId": "t"},
    {"type": "RUN_FINISHED", "outcome": {"type": "interrupt", "interrupts": [{"id": "i"}]}},
    {"type": "RUN_ERROR", "message": "no"},
    {"type": "STATE_SNAPSHOT", "snapshot": {"backgroundTasks": {"running": 1}}},
    {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a", "value": 1}]},
    {
        "type": "STATE_DELTA",
        "delta": [{"op": "replace", "path": "/backgroundTasks/running", "value": 0}],
    },
    {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "content": {}},
    {"type": "ACTIVITY_DELTA", "messageId": "a", "patch": []},
    {"type": "TEXT_MESSAGE_START", "messageId": "m"},
    {"type": "TEXT_MESSAGE_END", "messageId": "m"},
    {"type": "MESSAGES_SNAPSHOT", "messages": []},
    {"type": "models", "models": []},
    {"type": "command_result", "id": "1", "success": True},
]
EVENTS = st.one_of(st.builds(_text, st.integers(0, 80)), st.sampled_from(_DECIDING))
ASKED = st.sampled_from(
    [
        {"type": "resume_conversation", "project_dir": "/p", "id": "c"},
        {"type": "list_models"},
        {"type": "command", "id": "1", "name": "x"},
    ]
)


class KeepingMachine(RuleBasedStateMachine):
    """One keeper, one thread that lives as long as it, and daemons that come and go."""

    @initialize()
    def begins(self) -> None:
        self.spool = FakeSpool()
        self.core = Keeping(
            a_launch(), Backlog(self.spool, memory_limit=200), now=0.0, note=encode_note(NOTE)
        )
        # It forgets no event, so that it can tell what a cursor has missed.
        self.there = a_thread(replace(SETTINGS, ring_events=10**6, ring_bytes=10**9))
        self.there.launched(PureWorker(), Generation("g"), 0.0)
        self.written = b""
        self.unsent = b""
        self.lines = 0
        self.told = b""
        self.told_from = 0
        self.frames = FrameSplitter()

    @rule(events=st.lists(EVENTS, min_size=1, max_size=6), rest=st.integers(0, 30))
    def worker_writes(self, events: list[dict[str, Any]], rest: int) -> None:
        if not self.core.reads_worker:
            return
        data = self.unsent + b"".join(json.dumps(e, separators=(",", ":")).encode() + b"\n"
                                      for e in events)  # fmt: skip
        # Pieces end anywhere; what is not sent yet comes with the next.
        cut = len(data) - rest
        piece, self.unsent = (data[:cut], data[cut:]) if cut > 0 else (b"", data)
        if not piece:
            return
        before = len(self.written.split(b"\n")) - 1
        self.core.worker_wrote(piece, 1.0)
        if self.core.is_behind:
            self.core.catch_up()
        self.written += piece
        whole = self.written.split(b"\n")[:-1]
        self.there.take_lines(whole[before:], 1.0)

    @precondition(lambda self: self.core.is_attached)
    @rule(frame=ASKED)
    def daemon_asks(self, frame: dict[str, Any]) -> None:
        line = json.dumps(frame).encode()
        self.core.line_for_worker(line, 1.0)
        if frame["type"] == "resume_conversation":
            self.there._waiting.expect_snapshot(None, 1.0)  # noqa: SLF001
        else:
            key = "models" if frame["type"] == "list_models" else "command_result:1"
            self.there._waiting.expect_reply(key, None, 1.0)  # noqa: SLF001

    @rule(is_full=st.booleans())
    def disk_fills_or_empties(self, is_full: bool) -> None:
        self.spool.is_full = is_full

    @precondition(lambda self: self.core.is_attached)
    @rule(count=st.integers(1, 300))
    def daemon_reads(self, count: int) -> None:
        while count > 0 and len(self.core.backlog):
            piece = self.core.backlog.pieces()[0][:count]
            self.core.backlog.written(len(piece))
            count -= len(piece)
            for kind, payload in self.frames.feed(bytes(piece)):
                if kind is Kind.LINES:
                    self.told += payload

    @precondition(lambda self: self.core.is_attached)
    @rule()
    def daemon_dies(self) -> None:
        self.core.detached(1.0)
        assert len(self.core.backlog) == 0

    @precondition(lambda self: not self.core.is_attached)
    @rule()
    def daemon_takes_over(self) -> None:
        kept = self.core.attached(1)
        kept = msgspec.msgpack.decode(msgspec.msgpack.encode(kept), type=Kept)
        self.frames, self.told = FrameSplitter(), b""
        self.told_from = kept.sequence
        fresh = a_thread()
        fresh.adopted(PureWorker(), kept, decode_note(kept.note), 1.0)
        assert _known(fresh) == _known(self.there)
        ring, whole = fresh._ring, self.there._ring  # noqa: SLF001
        assert ring is not None
        assert whole is not None
        for sequence in range(whole.last + 1):
            cursor = Cursor(Generation("g"), sequence)
            if ring.attach(cursor).coverage is Coverage.COMPLETE:
                assert ring.after(sequence) == whole.after(sequence)

    @invariant()
    def what_is_told_is_what_was_written(self) -> None:
        lines = self.written.split(b"\n")[self.told_from : -1]
        assert b"".join(line + b"\n" for line in lines).startswith(self.told)

    @precondition(lambda self: self.core.is_attached)
    @rule()
    def daemon_catches_up(self) -> None:
        self.daemon_reads(10**9)
        lines = self.written.split(b"\n")[self.told_from : -1]
        assert self.told == b"".join(line + b"\n" for line in lines)


def _known(thread: Thread) -> tuple[object, ...]:
    """All that a client could notice of a thread, later ones too."""
    standing, ring, waiting = thread._standing, thread._ring, thread._waiting  # noqa: SLF001
    assert ring is not None
    view = thread.view()
    return (
        (view.run_id, view.interrupts, view.is_answering, view.generation),
        standing.retold(),
        standing.log.lost,
        standing.running_jobs,
        thread._sequence,  # noqa: SLF001
        _tail(ring),
        waiting.openings,
        sorted(waiting.reply_keys()),
    )


def _tail(ring: Ring) -> list[tuple[int, bytes]]:
    """The newest events: a keeper's ring drops by the batch, so that the oldest may differ."""
    return [(cursor.sequence, line) for cursor, line in ring.after(0)][-5:]


TestKeeping = KeepingMachine.TestCase
TestKeeping.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_our_own_workers_bare_error_leaves_its_run_open_for_the_next_daemon() -> None:
    launch = a_launch(announces_ready=True)
    core = Keeping(launch, Backlog(FakeSpool()), now=0.0, note=encode_note(NOTE))
    error = b'{"type":"RUN_ERROR","message":"no"}'
    lines = [b'{"type":"ready","protocol":1}', json.dumps(_DECIDING[0]).encode(), error]
    core.worker_wrote(b"".join(line + b"\n" for line in lines), 0.0)
    kept = core.attached(1)
    assert kept.ring[-1] == (3, error), "the very bytes"
    next_one = a_thread(replace(SETTINGS, announces_ready=True))
    next_one.adopted(PureWorker(), kept, decode_note(kept.note), 1.0)
    assert next_one.view().run_id == "r"


def test_a_stop_asks_then_insists_then_kills() -> None:
    core = Keeping(a_launch(), Backlog(FakeSpool()), now=0.0)
    core.stop(5.0, 0.0)
    assert list(core.inbox) == [b'{"type":"interrupt"}\n']
    assert not core.closes_stdin
    core.worker_took(len(core.inbox[0]), 0.0)
    assert core.closes_stdin
    core.line_for_worker(b"late", 0.0)
    assert not core.inbox
    assert core.due(4.9) is None
    assert core.next_deadline == 5.0
    assert core.due(5.0) is Signal.TERM
    assert core.due(6.9) is None
    assert core.due(7.0) is Signal.KILL
    assert core.next_deadline is None


def test_a_second_stop_hurries_and_never_slows() -> None:
    core = Keeping(a_launch(), Backlog(FakeSpool()), now=0.0)
    core.stop(5.0, 0.0)
    core.stop(60.0, 0.0)
    core.stop(0.0, 1.0)
    assert core.due(1.0) is Signal.TERM
    assert len(core.inbox) == 1


def test_a_worker_that_does_not_read_is_ended_and_progress_renews_its_time() -> None:
    core = Keeping(a_launch(), Backlog(FakeSpool()), now=0.0)
    core.line_for_worker(b"x" * 100, 0.0)
    core.worker_took(50, 9.0)
    assert core.due(10.0) is None
    assert core.due(19.0) is Signal.KILL
    assert core.worker_ended("was killed by SIGKILL", has_leftovers=False).reason == (
        "was ended, because it did not read its input for 10 s"
    )
