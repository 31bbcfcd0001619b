"""What a keeper decides: numbers a worker's lines, keeps what outlives a daemon, ends the worker.

Pure: bytes and times in, bytes and signals out; `sessions.infrastructure.keeper` does them. Nothing
of it knows what the registry's note says.

Rules for editing: lines are passed on in the batches they came in, and taken in later, many at a
time: that is what makes a keeper cheap. So whatever reads or changes what lines leave open calls
`catch_up` first. What looks at a single line belongs behind `PLAIN`.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from sessions.domain import frames, lines
from sessions.domain.backlog import Backlog, Piece, drop_front
from sessions.domain.frames import BadFrame
from sessions.domain.joining import OpenRun
from sessions.domain.keeper_frames import Gone, Kind, Launch, Noted, header, told
from sessions.domain.kept import Kept
from sessions.domain.lines import BadLine, Line
from sessions.domain.splitter import LineTooLong
from sessions.domain.standing import Standing
from sessions.domain.waiting import Waiting

# Between SIGTERM and SIGKILL (design, section 13, item 8).
TERM_GRACE = 2.0
MIB = 1024 * 1024
# What may wait for a worker that does not read, before its daemon is read no further.
INBOX_BYTES = 32 * MIB
# How much is passed on before it is taken in.
_FRESH_BYTES = 48 * 1024
INTERRUPT = b'{"type":"interrupt"}'

PLAIN: Final = tuple(
    b'{"type":"%s"' % kind
    for kind in (
        b"TEXT_MESSAGE_CONTENT",
        b"TOOL_CALL_ARGS",
        b"TOOL_CALL_RESULT",
        b"REASONING_MESSAGE_CONTENT",
        b"REASONING_ENCRYPTED_VALUE",
        b"RAW",
    )
)
"""How lines begin that leave nothing open and go to the whole thread. Others are looked at."""
_NEXT_PLAIN: Final = tuple(b"\n" + beginning for beginning in PLAIN)


class Signal(IntEnum):
    """What is to be sent to the worker's process group, by the numbers of POSIX."""

    KILL = 9
    TERM = 15


@dataclass(slots=True, kw_only=True)
class _Batch:
    """Whole lines as they were read, and the number of the first."""

    first: int
    count: int
    data: bytes


@dataclass(slots=True)
class Keeping:
    """One worker's lines, both ways, from its start to its end."""

    launch: Launch
    backlog: Backlog
    now: float
    note: bytes = b""
    is_attached: bool = True
    """There is a daemon to tell."""
    inbox: deque[Piece] = field(default_factory=lambda: deque())
    """What is to be written to the worker, with newlines."""
    ended_because: str | None = None
    """Why the keeper ended its worker, where that was not its daemon's wish."""
    sequence: int = 0
    """The number of the last line that was taken in."""
    _standing: Standing = field(init=False)
    _waiting: Waiting = field(default_factory=Waiting)
    _approvals: dict[str, None] = field(default_factory=dict[str, None])
    _browsing: dict[str, None] = field(default_factory=dict[str, None])
    _has_announced: bool = False
    _parts: list[bytes] = field(default_factory=list[bytes])
    _held: int = 0
    _fresh: list[tuple[bytes, float]] = field(default_factory=list[tuple[bytes, float]])
    """Whole lines that were passed on and not taken in yet, and when they came."""
    _fresh_bytes: int = 0
    _ring: deque[_Batch] = field(default_factory=deque[_Batch])
    _ring_lines: int = 0
    _ring_bytes: int = 0
    _retouched: dict[int, bytes | None] = field(default_factory=dict[int, bytes | None])
    """Lines in the ring that were somebody's answer and not the thread's (None), or that the
    thread is told with its run's id, by number."""
    _dropped_to: int = 0
    _quiet_since: float = 0.0
    """When the last run or background job ended."""
    _alone_since: float = 0.0
    """When the last daemon went away."""
    _unneeded_since: float | None = None
    """Since when nobody needs the worker, as its daemon last said."""
    _inbox_bytes: int = 0
    _is_deaf: bool = False
    _stuck_since: float | None = None
    _stop_by: float | None = None
    _signals_sent: int = 0

    def __post_init__(self) -> None:
        self._standing = Standing(
            max_lines=self.launch.join_lines,
            max_bytes=self.launch.join_bytes,
            durable_interrupts=self.launch.durable_interrupts,
            names_failed_runs=self.launch.announces_ready,
        )
        self._has_announced = not self.launch.announces_ready
        self._quiet_since = self.now

    # The worker's side

    @property
    def reads_worker(self) -> bool:
        """There is room for what it writes."""
        return not self.backlog.is_full

    def worker_wrote(self, chunk: bytes, now: float) -> None:
        """Pass on the whole lines in what its stdout gave. Raises LineTooLong."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._hold(chunk)
            return
        if self._parts:
            data = b"".join((*self._parts, memoryview(chunk)[:end]))
            self._parts.clear()
            self._held = 0
        else:
            data = chunk[:end]
        if self.is_attached:
            self.backlog.put(header(Kind.LINES, len(data)), data)
        self._fresh.append((data, now))
        self._fresh_bytes += len(data)
        if not self.is_attached:
            # Nobody waits for the line, and it may end a run: then the idle clock begins.
            self.catch_up()
        if end < len(chunk):
            self._hold(chunk[end:])

    @property
    def is_behind(self) -> bool:
        """There is enough to catch up with."""
        return self._fresh_bytes > _FRESH_BYTES

    def catch_up(self) -> None:
        """Number the lines that were passed on, keep them, and follow what they leave open."""
        if not self._fresh:
            return
        fresh, self._fresh, self._fresh_bytes = self._fresh, [], 0
        data = fresh[0][0] if len(fresh) == 1 else b"".join(data for data, _ in fresh)
        count = _count_lines(data)
        if _is_plain(data, count):
            self._keep(data, count)
            return
        for data, now in fresh:
            self._take_in(data, now)

    def worker_said_aside(self, chunk: bytes) -> None:
        """Its stderr. Without a daemon there is no log that could have it."""
        if self.is_attached:
            self.backlog.put(header(Kind.STDERR, len(chunk)), chunk)

    def worker_took(self, count: int, now: float) -> None:
        """So many bytes of the inbox were written to its stdin."""
        self._stuck_since = now
        self._inbox_bytes -= count
        drop_front(self.inbox, count)
        if not self.inbox:
            self._stuck_since = None

    def worker_is_deaf(self) -> None:
        """It has closed its stdin."""
        self._is_deaf = True
        self.inbox.clear()
        self._inbox_bytes = 0
        self._stuck_since = None
        if self.is_attached:
            self.backlog.put(header(Kind.DEAF, 0))

    @property
    def closes_stdin(self) -> bool:
        """The worker is being stopped and has been written all there is."""
        return self._stop_by is not None and not self.inbox

    def worker_ended(self, reason: str, *, has_leftovers: bool) -> Gone:
        """It is gone, and so is all that it started: the last thing a daemon is told."""
        self.catch_up()
        gone = Gone(self.ended_because or reason, self._held, has_leftovers)
        if self.is_attached:
            self.backlog.put(told(Kind.GONE, gone))
        return gone

    # The daemon's side

    @property
    def reads_daemon(self) -> bool:
        """There is room for what it sends."""
        return self._inbox_bytes < INBOX_BYTES

    def attached(self, worker_pid: int) -> Kept:
        """A daemon has taken over: what it has to know. It is told of all that comes after."""
        self.catch_up()
        self.is_attached = True
        self.backlog.clear()
        return Kept(
            worker_pid=worker_pid,
            note=self.note,
            sequence=self.sequence,
            has_announced=self._has_announced,
            retold=self._standing.retold(),
            lost=self._standing.log.lost,
            running_jobs=self._standing.running_jobs,
            is_answering=self._standing.interrupts.is_answering,
            ring=self._events(),
            ring_begins_after=self._dropped_to,
            openings=self._waiting.openings,
            replies=self._waiting.reply_keys(),
            approvals=list(self._approvals),
            browsing=list(self._browsing),
            idle_since=self._idle_since,
            is_stopping=self._stop_by is not None,
        )

    def detached(self, now: float) -> None:
        """The daemon's end broke. The worker goes on."""
        self.catch_up()
        self.is_attached = False
        self.backlog.clear()
        self._alone_since = now

    def noted(self, noted: Noted) -> None:
        """The daemon leaves word for the one after it. The last counts."""
        self.note, self._unneeded_since = noted.note, noted.idle_since

    def line_for_worker(self, line: bytes, now: float) -> None:
        """Pass a line on, and remember what it asks for."""
        if self._is_deaf or self._stop_by is not None:
            return
        self.catch_up()
        self._expect(line, now)
        self._put(line, now)

    def stop(self, grace: float, now: float) -> None:
        """Ask the worker to end, and see to it after the grace. A shorter one hurries."""
        deadline = now + grace
        if self._stop_by is None:
            if not self._is_deaf:
                self._put(INTERRUPT, now)
        elif deadline >= self._stop_by:
            return
        self._stop_by = deadline

    # Time

    @property
    def next_deadline(self) -> float | None:
        """When `due` has something to say, at the earliest."""
        due: list[float] = []
        if self._stop_by is not None and self._signals_sent < len(_INSISTING):
            due.append(self._stop_by + _INSISTING[self._signals_sent][0])
        if self._stuck_since is not None:
            due.append(self._stuck_since + self.launch.write_timeout)
        if (idle_end := self._idle_end) is not None:
            due.append(idle_end)
        return min(due, default=None)

    def due(self, now: float) -> Signal | None:
        """The signal that its process group is to be sent now, if any."""
        stuck = self._stuck_since
        if stuck is not None and stuck + self.launch.write_timeout <= now:
            self._stuck_since = None
            return self.fail(f"did not read its input for {self.launch.write_timeout:g} s")
        if (idle_end := self._idle_end) is not None and idle_end <= now:
            self.ended_because = "was stopped, because nobody needed it and no daemon ran"
            self.stop(self.launch.stop_grace, now)
        if self._stop_by is not None and self._signals_sent < len(_INSISTING):
            after, signal = _INSISTING[self._signals_sent]
            if self._stop_by + after <= now:
                self._signals_sent += 1
                return signal
        return None

    def fail(self, reason: str) -> Signal:
        """The worker breaks the protocol: there is nothing left to ask it."""
        self.ended_because = f"was ended, because it {reason}"
        return Signal.KILL

    # Smaller steps

    def _hold(self, part: bytes) -> None:
        self._parts.append(part)
        self._held += len(part)
        if self._held > self.launch.max_line_bytes:
            self._parts.clear()
            self._held = 0
            raise LineTooLong(f"a line of more than {self.launch.max_line_bytes:,} bytes")

    def _put(self, line: bytes, now: float) -> None:
        if not self.inbox:
            self._stuck_since = now
        self.inbox.append(line + b"\n")
        self._inbox_bytes += len(line) + 1

    def _take_in(self, data: bytes, now: float) -> None:
        count = _count_lines(data)
        first = self.sequence + 1
        self._keep(data, count)
        if not _is_plain(data, count):
            for number, line in enumerate(data.split(b"\n")[:-1], first):
                if not line.startswith(PLAIN):
                    self._look_at(number, line, now)

    def _keep(self, data: bytes, count: int) -> None:
        """Number the lines and put them into the ring.

        What the ring has too much goes, a whole batch at a time.
        """
        ring = self._ring
        batch = _Batch(first=self.sequence + 1, count=count, data=data)
        self.sequence += count
        ring.append(batch)
        self._ring_lines += batch.count
        self._ring_bytes += len(batch.data)
        while (
            self._ring_lines - ring[0].count >= self.launch.ring_events
            or self._ring_bytes > self.launch.ring_bytes
        ):
            gone = ring.popleft()
            self._ring_lines -= gone.count
            self._ring_bytes -= len(gone.data)
            self._dropped_to = gone.first + gone.count - 1
            while (oldest := next(iter(self._retouched), None)) is not None:
                if oldest > self._dropped_to:
                    break
                del self._retouched[oldest]
            if not ring:
                break

    def _events(self) -> list[tuple[int, bytes]]:
        """What of the ring went to the whole thread, with its numbers."""
        return [
            (number, said)
            for batch in self._ring
            for number, line in enumerate(batch.data.split(b"\n")[:-1], batch.first)
            if (said := self._retouched.get(number, line)) is not None
        ]

    def _look_at(self, number: int, line: bytes, now: float) -> None:
        try:
            peeked = lines.peek(line)
        except BadLine:
            # The daemon drops it and counts it; it has its number all the same.
            self._retouched[number] = None
            return
        was_busy, run = self._is_busy, self._standing.log.run
        ends_run = peeked.type == "RUN_ERROR" and self._standing.ends_run(peeked)
        try:
            self._standing.take(peeked, line)
            if not self._is_for_all(peeked, line):
                self._retouched[number] = None
        except BadLine:
            self._retouched[number] = None
        if peeked.type == "RUN_ERROR":
            self._look_at_error(number, peeked, line, run, ends_run=ends_run)
        if was_busy and not self._is_busy:
            self._quiet_since = now

    def _look_at_error(
        self, number: int, peeked: Line, line: bytes, run: OpenRun | None, *, ends_run: bool
    ) -> None:
        if run is not None:
            if ends_run and not peeked.runId:
                self._retouched[number] = frames.with_run_id(line, run.run_id)
        elif not (self._has_announced and self.launch.announces_ready):
            # It could not begin: that answered everyone who waited for a snapshot.
            self._waiting.take_openings()

    @property
    def _idle_since(self) -> float:
        left = self._alone_since if self._unneeded_since is None else self._unneeded_since
        return max(self._quiet_since, left)

    @property
    def _idle_end(self) -> float | None:
        """Until when the worker goes on without a daemon; with one, that is the daemon's to say."""
        if self.is_attached or self._stop_by is not None or self._is_busy:
            return None
        launch = self.launch
        return self._idle_since + self._standing.keeps_for(
            launch.idle_timeout, launch.approval_timeout
        )

    @property
    def _is_busy(self) -> bool:
        return self._standing.log.run is not None or self._standing.running_jobs > 0

    def _is_for_all(self, peeked: Line, line: bytes) -> bool:
        """Whether the line goes to the whole thread; answers go to who asked. Raises BadLine."""
        if peeked.type == "ready":
            was_announced, self._has_announced = self._has_announced, True
            return was_announced
        if peeked.type == "browser_command":
            self._browsing[lines.id_of(line)] = None
            return False
        if peeked.type == "MESSAGES_SNAPSHOT":
            return self._waiting.next_opening() is None
        if peeked.type in lines.REPLIES:
            key = lines.reply_key(peeked, line)
            self._approvals.pop(key.partition(":")[2], None)
            return self._waiting.next_for(key) is None and key == peeked.type
        if peeked.type == "CUSTOM" and (asked := lines.approval_asked(line)) is not None:
            self._approvals[asked] = None
            return not self._waiting.is_expected(f"tool_result:{asked}")
        return True

    def _expect(self, line: bytes, now: float) -> None:
        kind = frames.kind(line)
        if kind is None:
            return
        try:
            if kind in ("new_session", "resume_conversation"):
                self._waiting.expect_snapshot(None, now)
            elif kind == "run_agent_input":
                answered = frames.decode(frames.run_input_frame, line).answered
                self._standing.interrupts.judge(None, answered)
            elif kind == "approval_response":
                decided = frames.decode(frames.approval_frame, line)
                self._approvals.pop(decided.tool_call_id, None)
            elif kind == "browser_result":
                self._browsing.pop(lines.id_of(line), None)
            else:
                for key in frames.asks_for(kind, line):
                    self._waiting.expect_reply(key, None, now)
        except (BadFrame, BadLine):
            # A daemon lets nothing through that it can't read; there is nothing to wait for.
            return


def _count_lines(data: bytes) -> int:
    # Not `count`, which looks at each byte by itself: this goes from newline to newline as `memchr`
    # does, four times as fast.
    return len(data) - len(data.replace(b"\n", b""))


def _is_plain(data: bytes, count: int) -> bool:
    """Whether all of so many lines begin as plain ones do; makes no object of any of them."""
    for first, next_ in zip(PLAIN, _NEXT_PLAIN, strict=True):
        count -= data.startswith(first) + data.count(next_)
        if count == 0:
            return True
    return False


_INSISTING: Final = ((0.0, Signal.TERM), (TERM_GRACE, Signal.KILL))
"""What follows the grace, and how long after it."""
