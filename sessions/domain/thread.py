"""One thread: its worker's state, who follows it, what is open. All of the decisions about it.

Rules for editing: every method is a plain `def`, so that nothing can come between a decision and
its effect; time is an argument; the only effects are `deliver`, `send`, `stop` (ports) and orders
to the registry. After a change of anything that the view or idleness depend on, call `_settle`.

A worker's life in a thread: absent -> launching -> running -> (stopping) -> absent. Frames that
come while there is none to take them are held, in order, and decided when there is one: what a run
input means depends on the interrupts that only a ready worker tells of.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar

from sessions.domain import frames, lines
from sessions.domain.interrupts import Interrupts, Verdict
from sessions.domain.joining import JoinLog
from sessions.domain.kept import Kept, Note, encode_note
from sessions.domain.keys import Cursor, Generation, ThreadKey, ThreadOptions
from sessions.domain.lines import BadLine, Line
from sessions.domain.ports import Client, ThreadView, Worker, WorkerLost
from sessions.domain.ring import Attachment, Coverage, Ring
from sessions.domain.settings import RegistrySettings
from sessions.domain.standing import Standing
from sessions.domain.untold import Untold
from sessions.domain.waiting import Held, Waiting

# The place of a follower that still waits for its snapshot; live ones are at 0 or above.
_JOINING = -1
_LEFT_UNANSWERED = (
    "it exited before it answered. The conversation is safe; open it again, or send a message, to"
    " start a new worker (`roost logs` may say why)"
)
_LEFT_UNHEARD = (
    "it exited before a run began with what it was sent last. The conversation is safe, and may"
    " hold that already. It is safe to send it again: a message counts once, by its id"
)


class Phase(StrEnum):
    """Where the worker's life is."""

    ABSENT = "absent"
    LAUNCHING = "launching"
    RUNNING = "running"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a thread asks of its registry."""

    launch: Callable[["Thread", float], None]
    """Start a worker after so many seconds; asked for once per launch."""
    browser: Callable[["Thread", bytes], None] | None = None
    """Relay a browser command; None when there is no relay."""
    changed: Callable[["Thread"], None] = lambda thread: None
    """The view is another one now."""
    deadline_moved: Callable[[float | None], None] = lambda deadline: None
    """`next_deadline` is another one now."""


@dataclass(slots=True, eq=False)
class Thread:
    """The state of one thread."""

    key: ThreadKey
    options: ThreadOptions
    settings: RegistrySettings
    orders: Orders
    now: float
    phase: Phase = Phase.ABSENT
    generation: Generation | None = None
    is_stop_wanted: bool = False
    """A stop came while there was no process to stop yet, and nobody asked for one since."""
    dropped_lines: int = 0
    overgrown_states: int = 0
    """How often the state outgrew what is kept of it for joiners."""
    _worker: Worker | None = None
    _token: str = ""
    _noted: tuple[Note, float | None] | None = None
    """What was last left with the worker."""
    _is_ready: bool = False
    _has_spoken: bool = False
    _sequence: int = 0
    _ring: Ring | None = None
    _silent_exits: int = 0
    _refused_until: float = 0.0
    _followers: dict[Client, int] = field(default_factory=dict[Client, int])
    """Every follower, with the sequence at which it went live, or _JOINING."""
    _live: tuple[Client, ...] = ()
    _lacking: dict[Client, set[str | None]] = field(default_factory=dict[Client, set[str | None]])
    """What a joiner was not told: the state (None), activities. Told before the next patch of it,
    or with its next snapshot when it could not be kept."""
    _untold: Untold = field(default_factory=Untold)
    """The same for those who may come back."""
    _waiting: Waiting = field(default_factory=Waiting)
    _approvals: dict[str, list[Client]] = field(default_factory=dict[str, list[Client]])
    """Tool requests that wait for a person, by tool call id, with those who saw the question."""
    _standing: Standing = field(init=False)
    _interrupts: Interrupts = field(init=False)
    _log: JoinLog = field(init=False)
    _is_unbegun: bool = False
    """The worker was given a run input while no run was open, and has begun none since."""
    _is_queued: bool = False
    """It was given one while a run was open: that run may have taken it, or the next one will."""
    _chunk_opened: int = 0
    _last_join: int = 0
    """Where somebody last joined with a snapshot."""
    _idle_since: float | None = None
    _status: str = "stopped"
    _status_since: float = 0.0
    _told: tuple[object, ...] = ()
    """What the registry was last told of the view."""
    _told_deadline: float | None = None

    def __post_init__(self) -> None:
        self._standing = Standing(
            max_lines=self.settings.join_lines,
            max_bytes=self.settings.join_bytes,
            durable_interrupts=self.settings.durable_interrupts,
            names_failed_runs=self.settings.announces_ready,
        )
        self._interrupts, self._log = self._standing.interrupts, self._standing.log
        self._status_since = self.now
        self._settle(self.now)

    # Clients

    def open(self, client: Client, frame: bytes, now: float) -> None:
        """Follow from a snapshot on. The frame goes to the worker, which answers it with one.

        Ask `refuses` first: a client that is refused stays where it was.
        """
        self.now = now
        self._followers[client] = _JOINING
        self._lacking.pop(client, None)
        self._rank_live()
        opening = self._waiting.expect_snapshot(client, now)
        self._hand_over(Held(client=client, frame=frame, relaunches=True, opening=opening))
        self._settle(now)

    def attach(self, client: Client, frame: bytes, cursor: Cursor | None, now: float) -> Attachment:
        """Follow from a cursor on when all that was missed is still here, else as `open` does."""
        ring = self._ring
        if ring is not None and self.phase is Phase.RUNNING:
            attachment = ring.attach(cursor)
        elif cursor is None:
            attachment = Attachment(coverage=Coverage.COMPLETE, current=None)
        else:
            attachment = Attachment(
                coverage=Coverage.UNAVAILABLE, current=None, reason="event_generation_changed"
            )
        if cursor is None or ring is None or attachment.coverage is not Coverage.COMPLETE:
            self.open(client, frame, now)
            return attachment
        place = cursor.sequence
        opened = self._chunk_opened
        if self._untold.hides(place) or 0 < opened <= self._last_join <= place:
            # It may be somebody who joined in the middle and can't place what follows.
            self.open(client, frame, now)
            return replace(attachment, coverage=Coverage.PARTIAL, reason="event_replay_not_enough")
        self._waiting.forget(client)
        self._followers[client] = min(place, opened - 1) if opened else place
        self._lacking.pop(client, None)
        if lacking := self._untold.lacked_at(place):
            self._lacking[client] = lacking
        self._rank_live()
        for at, line in ring.after(cursor.sequence):
            client.deliver(line, at)
        self._settle(now)
        return attachment

    def forward(self, held: Held, now: float) -> None:
        """Pass a frame of a client on. Without a worker, most frames mean nothing any more."""
        self.now = now
        if self.phase in (Phase.ABSENT, Phase.STOPPING) and not held.relaunches:
            return
        if not self.refuses(held.client):
            self._hand_over(held)
            self._settle(now)

    def detach(self, client: Client, now: float) -> None:
        """Forget a client. What it asked to be run is run."""
        self.now = now
        self._followers.pop(client, None)
        self._lacking.pop(client, None)
        self._rank_live()
        self._waiting.forget(client)
        self._interrupts.forget(client)
        for saw in self._approvals.values():
            saw[:] = [c for c in saw if c is not client]
        self._settle(now)

    def decide(
        self, client: Client, tool_call_id: str, *, approved: bool, frame: bytes, now: float
    ) -> bool:
        """Give the worker a decision about a tool request; false when none is open here."""
        self.now = now
        saw = self._approvals.pop(tool_call_id, None)
        if saw is None or self._worker is None:
            return False
        try:
            self._worker.send(frames.as_line(frame))
        except WorkerLost as exc:
            self._approvals[tool_call_id] = saw
            text = f"the worker did not take this: {exc}"
            client.deliver(frames.bare_error(text, "worker_unavailable"), None)
            return True
        resolved = frames.approval_resolved(tool_call_id, approved=approved)
        for other in saw:
            if other is not client:
                other.deliver(resolved, None)
        return True

    def tell(self, frame: bytes) -> None:
        """Deliver a frame that no worker said to everyone who follows."""
        for client in self._followers:
            client.deliver(frame, None)

    def stop(self, now: float, *, grace: float | None = None, reason: str = "was stopped") -> None:
        """End the worker; its exit does the bookkeeping. Who comes later gets a new one."""
        self.now = now
        if self.phase is Phase.LAUNCHING or (self.phase is Phase.RUNNING and not self._is_ready):
            self._answer_everyone(f"the thread {reason} before its worker answered", "stopped")
        if self._worker is not None:
            self._is_ready = False
            self.phase = Phase.STOPPING
            self._worker.stop(self.settings.stop_grace if grace is None else grace)
        elif self.phase is Phase.LAUNCHING:
            self.is_stop_wanted = True
        self._settle(now)

    # The worker's life

    def launched(self, worker: Worker, generation: Generation, now: float, token: str = "") -> None:
        """A worker process is there. Frames wait for its ready line, if it writes one."""
        self.now = now
        self._token = token
        self.phase = Phase.RUNNING
        self.generation = generation
        self._worker = worker
        self._has_spoken = False
        self._sequence = 0
        self._chunk_opened = self._last_join = 0
        self._untold = Untold()
        self._ring = Ring(generation, self.settings.ring_events, self.settings.ring_bytes)
        # Where a live follower joined was a place in the generation before.
        self._followers = {c: min(at, 0) for c, at in self._followers.items()}
        if self.is_stop_wanted:
            self.is_stop_wanted = False
            self.stop(now)
        elif not self.settings.announces_ready:
            self._become_ready()
        self._settle(now)

    def adopted(self, worker: Worker, kept: Kept, note: Note, now: float) -> None:
        """A worker of an earlier daemon goes on here, from where it was found.

        Who had asked it for something is gone: those answers go to nobody.
        """
        self.now = now
        self.phase = Phase.RUNNING
        self.generation = Generation(note.generation)
        self._worker = worker
        self._token = note.token
        self._has_spoken = kept.sequence > 0
        self._is_ready = kept.has_announced
        self._sequence = self._chunk_opened = kept.sequence
        self._ring = Ring(
            self.generation,
            self.settings.ring_events,
            self.settings.ring_bytes,
            dropped_to=kept.ring_begins_after,
        )
        for number, line in kept.ring:
            with suppress(BadLine):
                lines.peek(line)
                self._ring.append(number, line)
        self._standing.restore(
            kept.retold, kept.lost, kept.running_jobs, is_answering=kept.is_answering
        )
        self._untold = Untold()
        self._untold.joined(kept.lost, 0)
        for name in kept.lost:
            self._untold.patched(name, kept.sequence, is_lost=True)
        for _ in range(kept.openings):
            self._waiting.expect_snapshot(None, now)
        for key in kept.replies:
            self._waiting.expect_reply(key, None, now)
        self._approvals = {tool_call_id: [] for tool_call_id in kept.approvals}
        for command_id in kept.browsing:
            text = "the daemon was started again meanwhile; the outcome is unknown"
            with suppress(WorkerLost):
                worker.send(frames.browser_failed(command_id, text))
        self._idle_since = kept.idle_since
        self._settle(now)
        if kept.is_stopping:
            self.stop(now)

    def launch_failed(self, reason: str, now: float) -> None:
        """No worker came to be: everybody who waits for it is told."""
        self.now = now
        self.phase = Phase.ABSENT
        self.is_stop_wanted = False
        self._answer_everyone(reason, "launch_failed")
        self._settle(now)

    def exited(self, generation: Generation, reason: str, now: float) -> None:
        """The worker is gone and its lines are all in. A stale worker's exit changes nothing."""
        if generation != self.generation or self._worker is None:
            return
        self.now = now
        was_stopping = self.phase is Phase.STOPPING
        self._worker = None
        self._is_ready = False
        self.phase = Phase.ABSENT
        self._standing.running_jobs = 0
        self._approvals.clear()
        if self._has_spoken or was_stopping:
            self._silent_exits = 0
        else:
            self._silent_exits += 1
            self._refused_until = now + self.settings.backoff_refusal
        if not self.settings.durable_interrupts:
            self._interrupts.clear()
        self._tell_of_exit(reason, keep_held=was_stopping)
        for held in self._waiting.take_held():
            self._hand_over(held)
        self._settle(now)

    def take_lines(self, batch: Sequence[bytes], now: float) -> None:
        """Lines of the present worker, in order. Bad ones are dropped and counted."""
        self.now = now
        row: list[tuple[bytes, Cursor]] = []
        for line in batch:
            self._sequence += 1
            try:
                peeked = lines.peek(line)
            except BadLine:
                # An empty line is nobody's fault; anything else is the worker's.
                self.dropped_lines += bool(line.strip())
                continue
            decide = self._DECISIONS.get(peeked.type)
            if decide is None:
                # Most lines decide nothing: those in a row are delivered together.
                row.append((line, self._place(line)))
                continue
            if row:
                self._deliver_row(row)
                row = []
            decide(self, peeked, line)
        if row:
            self._deliver_row(row)

    def browser_answered(self, generation: Generation | None, result: bytes, now: float) -> None:
        """Hand the result of a browser command to the worker that asked, if it is still there."""
        self.now = now
        if generation != self.generation or self._worker is None:
            return
        # A worker that takes no more can do without: it is being stopped.
        with suppress(WorkerLost):
            self._worker.send(result)
        if self._idle_since is not None:
            self._idle_since = now
        self._settle(now)

    # What others ask

    @property
    def parent(self) -> str | None:
        """The conversation of the thread that this one is a subagent of, as it was recorded."""
        return self.options.subagent.parent if self.options.subagent else None

    @property
    def is_forgettable(self) -> bool:
        """Nothing is left to remember: no worker, no follower, nobody waiting."""
        return self.phase is Phase.ABSENT and not self._followers and not self._waiting.held

    @property
    def wants_worker(self) -> bool:
        """Something waits for a worker to take it."""
        return bool(self._waiting.held)

    @property
    def is_needed(self) -> bool:
        """Somebody follows or waits, a run is open, or a background job runs."""
        return bool(
            self._followers
            or self._log.run is not None
            or self._standing.running_jobs > 0
            or self._waiting.has_replies
        )

    @property
    def next_deadline(self) -> float | None:
        """When `check_deadlines` has something to do, at the earliest."""
        due: list[float] = []
        if (oldest := self._waiting.oldest_opening) is not None:
            due.append(oldest + self.settings.snapshot_timeout)
        if (oldest := self._waiting.oldest_reply) is not None:
            due.append(oldest + self.settings.snapshot_timeout)
        if (idle_end := self._idle_end) is not None:
            due.append(idle_end)
        return min(due, default=None)

    def check_deadlines(self, now: float) -> None:
        """Answer opens that waited too long; stop a worker that nobody needs."""
        self.now = now
        late = now - self.settings.snapshot_timeout
        for client in self._waiting.expire_replies(late):
            text = f"the worker did not answer in {self.settings.snapshot_timeout:g} s"
            client.deliver(frames.bare_error(text, "reply_timeout"), None)
        for client in self._waiting.expire_openings(late):
            client.deliver(
                frames.bare_error(
                    "the worker did not send the conversation in"
                    f" {self.settings.snapshot_timeout:g} s; live events follow from here",
                    "snapshot_timeout",
                ),
                None,
            )
            self._go_live(client)
        if (idle_end := self._idle_end) is not None and idle_end <= now:
            self.stop(now)
        self._settle(now)

    def view(self) -> ThreadView:
        """What anybody may know."""
        return ThreadView(
            project_dir=self.key.project_dir,
            conversation_id=self.key.conversation_id,
            status=self._status,
            run_id=self._log.run.run_id if self._log.run else None,
            interrupts=tuple(sorted(self._interrupts.open)),
            is_answering=self._interrupts.is_answering,
            followers=len(self._followers),
            worker_pid=self._worker.pid if self._worker else None,
            generation=self.generation if self._worker else None,
            since=self._status_since,
            answered_by=self._interrupts.answered_by,
            parent=self.parent,
            cursor=self._ring.cursor if self._worker and self._ring else None,
        )

    # Frames to the worker

    def _hand_over(self, held: Held) -> None:
        if self._is_ready:
            self._send(held)
            return
        self._waiting.held.append(held)
        self.is_stop_wanted = False
        if self.phase is Phase.ABSENT:
            self._launch()

    def _launch(self) -> None:
        waits = self.settings.backoff
        tries = self._silent_exits
        if tries > len(waits) and self.now < self._refused_until:
            self._answer_everyone(
                f"the worker of {self.key.project_dir} ended {tries} times before it said anything,"
                f" so it is not started again for {self._refused_until - self.now:.0f} s;"
                " `roost logs` may say why",
                "launch_refused",
            )
            return
        self.phase = Phase.LAUNCHING
        self.orders.launch(self, waits[min(tries, len(waits)) - 1] if tries else 0.0)

    def _become_ready(self) -> None:
        self._is_ready = True
        for held in self._waiting.take_held():
            self._send(held)

    def _send(self, held: Held) -> None:
        """Decide a frame at last, and put it into the worker's inbox."""
        verdict = self._interrupts.judge(held.client, held.answered)
        if verdict is Verdict.DROP:
            return
        if verdict is Verdict.INCOMPLETE:
            missing = ", ".join(sorted(self._interrupts.open - held.answered))
            text = f"nothing was run: the answer is missing interrupts that are open: {missing}"
            held.client.deliver(frames.bare_error(text, "incomplete_resume"), None)
            return
        assert self._worker is not None, "ready means that there is a worker"
        try:
            self._worker.send(frames.as_line(held.frame))
        except WorkerLost as exc:
            self._take_back(held, f"the worker did not take this: {exc}")
            return
        if held.begins_a_run:
            self._is_queued |= self._log.run is not None
            self._is_unbegun |= self._log.run is None
        for key in held.replies:
            self._waiting.expect_reply(key, held.client, self.now)

    def _take_back(self, held: Held, reason: str) -> None:
        """A frame that the worker can't take changes nothing, and its sender is told."""
        if held.replies:
            self._fail(((held.client, key) for key in held.replies), "no_worker", reason)
        else:
            held.client.deliver(frames.bare_error(reason, "worker_unavailable"), None)
        if held.opening is not None:
            self._waiting.withdraw(held.opening)
            self._go_live(held.client)
        if held.answered:
            self._interrupts.reopen()

    def refuses(self, client: Client) -> bool:
        """Too much waits here already; the client is told."""
        waiting = len(self._waiting)
        if waiting < self.settings.max_waiting:
            return False
        text = f"{waiting} requests wait for this thread's worker already; try again a little later"
        client.deliver(frames.bare_error(text, "too_many_waiting"), None)
        return True

    # Lines of the worker

    def _relay(self, line: bytes, clients: Iterable[Client]) -> None:
        """To the whole thread, the very same bytes, with their place in the events."""
        cursor = self._place(line)
        for client in clients:
            client.deliver(line, cursor)

    def _deliver_row(self, row: list[tuple[bytes, Cursor]]) -> None:
        for client in self._live:
            client.deliver_row(row)

    def _place(self, line: bytes) -> Cursor:
        """Keep the line for those who come back, and tell its place in the events."""
        ring = self._ring
        assert ring is not None, "lines come from a launched worker"
        self._has_spoken = True
        ring.append(self._sequence, line)
        return ring.cursor

    def _on_ready(self, peeked: Line, line: bytes) -> None:
        if self._has_spoken or not self.settings.announces_ready:
            return
        self._has_spoken = True
        self._standing.take(peeked, line)
        if self.phase is Phase.RUNNING:
            self._become_ready()
        self._settle(self.now)

    def _on_run_started(self, peeked: Line, line: bytes) -> None:
        self._is_unbegun = self._is_queued = False
        self._standing.take(peeked, line)
        self._relay(line, self._live)
        self._settle(self.now)

    def _on_run_finished(self, peeked: Line, line: bytes) -> None:
        self._standing.take(peeked, line)
        self._relay(line, self._live)
        self._settle(self.now)

    def _on_run_error(self, peeked: Line, line: bytes) -> None:
        run, ends_run = self._log.run, self._standing.ends_run(peeked)
        self._is_unbegun = False
        self._standing.take(peeked, line)
        if run is not None:
            if ends_run and not peeked.runId:
                line = frames.with_run_id(line, run.run_id)
        elif not (self._is_ready and self.settings.announces_ready):
            # It could not begin: this answers everyone who waits. A worker that is ready
            # still answers each open itself, whatever this is about.
            for client in self._waiting.drop_run_inputs_and_opens():
                self._go_live(client)
        self._relay(line, self._live)
        self._settle(self.now)

    def _on_snapshot(self, peeked: Line, line: bytes) -> None:
        opening = self._waiting.next_opening()
        if opening is None:
            self._relay(line, self._live)
            return
        self._has_spoken = True
        client = opening.client
        if client is None:
            return
        client.deliver(line, None)
        # When it opened the thread again meanwhile, its stream begins with the last snapshot.
        if not self._waiting.has_opening(client):
            self._join(client)
        self._settle(self.now)

    def _join(self, client: Client) -> None:
        """What has to follow the snapshot, in the same step, so that nothing comes in between."""
        said, untold = self._log.lines()
        for line in said:
            client.deliver(line, None)
        if untold:
            self._lacking[client] = set(untold)
            self._untold.joined(untold, self._sequence)
        self._last_join = self._sequence
        if not said and self._interrupts.open:
            client.deliver(self._interrupts.line, None)
        self._go_live(client)

    def _on_item_opened(self, peeked: Line, line: bytes) -> None:
        self._standing.take(peeked, line)
        self._relay(line, self._live)

    def _on_item_closed(self, peeked: Line, line: bytes) -> None:
        self._standing.take(peeked, line)
        self._relay(line, self._live)

    def _on_chunk(self, peeked: Line, line: bytes) -> None:
        if lines.is_placeable(peeked):
            self._chunk_opened = self._sequence
            self._relay(line, self._live)
        else:
            # Who came after the chunk that named the item could not tell what this belongs to.
            opened = self._chunk_opened
            self._relay(line, [c for c in self._live if self._followers[c] < opened])

    def _on_state_snapshot(self, peeked: Line, line: bytes) -> None:
        self._standing.take(peeked, line)
        self._has_again(None)
        self._relay(line, self._live)
        self._settle(self.now)

    def _on_state_delta(self, peeked: Line, line: bytes) -> None:
        was_lost = self._log.state.is_lost
        self._relay_patch(None, line)
        self._standing.take(peeked, line)
        self.overgrown_states += self._log.state.is_lost and not was_lost
        self._settle(self.now)

    def _on_activity_snapshot(self, peeked: Line, line: bytes) -> None:
        if self._standing.activity_snapshot(peeked, line):
            self._has_again(peeked.messageId or "")
        self._relay(line, self._live)

    def _on_activity_delta(self, peeked: Line, line: bytes) -> None:
        self._relay_patch(peeked.messageId or "", line)
        self._standing.take(peeked, line)

    def _relay_patch(self, name: str | None, line: bytes) -> None:
        """To those who have what the patch applies to; who joined without it gets it first."""
        document = self._log.document(name)
        if document is None or not self._lacking:
            self._relay(line, self._live)
        else:
            for client, lacking in self._lacking.items():
                if name in lacking and not document.is_lost:
                    lacking.discard(name)
                    for told in document.lines():
                        client.deliver(told, None)
            has = [c for c in self._live if name not in self._lacking.get(c, ())]
            self._relay(line, has)
        self._untold.patched(name, self._sequence, is_lost=document is None or document.is_lost)

    def _on_reply(self, peeked: Line, line: bytes) -> None:
        try:
            key = lines.reply_key(peeked, line)
        except BadLine:
            self.dropped_lines += 1
            return
        self._approvals.pop(key.partition(":")[2], None)
        reply = self._waiting.next_for(key)
        if reply is None and key == peeked.type:
            # Nobody asked: a worker may tell everyone of its models or its mode.
            self._relay(line, self._live)
            return
        self._has_spoken = True
        if reply is not None and reply.client is not None:
            reply.client.deliver(line, None)
        self._settle(self.now)

    def _on_custom(self, peeked: Line, line: bytes) -> None:
        tool_call_id = lines.approval_asked(line)
        if tool_call_id is None:
            self._relay(line, self._live)
            return
        requester = self._waiting.asks_for(f"tool_result:{tool_call_id}")
        if requester is not None:
            requester.deliver(line, None)
        else:
            self._relay(line, self._live)
        saw = list(self._live) if requester is None else [requester]
        self._approvals[tool_call_id] = saw
        while len(self._approvals) > self.settings.max_waiting:
            del self._approvals[next(iter(self._approvals))]

    def _on_browser_command(self, peeked: Line, line: bytes) -> None:
        if self.orders.browser is None:
            self._relay(line, self._live)
        else:
            self._has_spoken = True
            self.orders.browser(self, line)

    # Answers that no worker gives

    def _answer_everyone(self, reason: str, code: str) -> None:
        """Whoever waits for anything of this thread gets one answer; the queues are empty then."""
        held = self._waiting.take_held()
        waiting = self._waiting.take_openings()
        waiting += [h.client for h in held if h.is_run_input]
        if (answerer := self._interrupts.reopen()) is not None:
            waiting.append(answerer)
        error = frames.bare_error(reason, code)
        for client in dict.fromkeys(waiting):
            client.deliver(error, None)
            self._go_live(client)
        unsent = [(h.client, key) for h in held for key in h.replies]
        self._fail(unsent + self._waiting.take_replies(), "no_worker", reason, told=waiting)

    def _fail(
        self,
        waiting: Iterable[tuple[Client, str]],
        code: str,
        reason: str,
        told: Iterable[Client] = (),
    ) -> None:
        """Answer requests that no worker will answer, each as its kind is answered.

        Who was told of the reason already needs no second error on top.
        """
        bare: dict[Client, None] = {}
        for client, key in waiting:
            kind, _, request = key.partition(":")
            if kind == "command_result":
                client.deliver(frames.command_failed(request, code, reason), None)
            elif kind == "tool_result":
                client.deliver(frames.tool_failed(request, reason), None)
                bare[client] = None
            else:
                bare[client] = None
        error = frames.bare_error(reason, code)
        already = set(told)
        for client in bare:
            if client not in already:
                client.deliver(error, None)

    def _tell_of_exit(self, reason: str, *, keep_held: bool) -> None:
        """The exit of a worker is news for those who followed its run, and those who waited.

        After a stop that was asked for, the frames that came meanwhile wait for the next worker.
        """
        run, self._log.run = self._log.run, None
        # A run that was asked to stop may have taken what was queued; a crash leaves that open.
        is_unheard = self._is_unbegun or (self._is_queued and not keep_held)
        self._is_unbegun = self._is_queued = False
        told = list(self._live) if run is not None or is_unheard else []
        held = () if keep_held else self._waiting.take_held()
        told += [h.client for h in held if h.is_run_input]
        joining = self._waiting.take_openings(sent_only=True)
        told += joining
        answerer = self._interrupts.reopen()
        if run is not None:
            error = frames.run_ended_in_error(
                run.run_id,
                f"the worker {reason}: it exited mid-run. What it had done stays done and is in the"
                " conversation; send a message to go on",
                "worker_exit",
            )
        else:
            told += [answerer] if answerer is not None else []
            text = _LEFT_UNHEARD if is_unheard else _LEFT_UNANSWERED
            error = frames.bare_error(f"the worker {reason}: {text}", "worker_exit")
        for client in dict.fromkeys(told):
            client.deliver(error, None)
        for client in joining:
            self._go_live(client)
        unsent = [(h.client, key) for h in held for key in h.replies]
        unknown = f"the worker {reason}: it exited before it answered; the outcome is unknown"
        self._fail(unsent + self._waiting.take_replies(), "worker_exited", unknown, told=told)

    # Smaller steps

    def _go_live(self, client: Client) -> None:
        """From here on the client gets what the whole thread gets."""
        if self._followers.get(client) == _JOINING and not self._waiting.has_opening(client):
            self._followers[client] = self._sequence
            self._rank_live()

    def _rank_live(self) -> None:
        self._live = tuple(c for c, at in self._followers.items() if at != _JOINING)

    def _has_again(self, name: str | None) -> None:
        self._untold.snapshot(name, self._sequence)
        for lacking in self._lacking.values():
            lacking.discard(name)

    @property
    def _idle_end(self) -> float | None:
        """Until when a worker that nobody needs is kept."""
        if self.phase is not Phase.RUNNING or self._idle_since is None:
            return None
        return self._idle_since + self._standing.keeps_for(
            self.settings.idle_timeout, self.settings.approval_timeout
        )

    def _settle(self, now: float) -> None:
        """Bring what is derived up to date: the status, and since when nobody needs the worker."""
        status = self._present_status()
        if status != self._status:
            self._status, self._status_since = status, now
        if self.is_needed:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        self._leave_note()
        run_id = self._log.run.run_id if self._log.run else None
        waits = (self._interrupts.open, self._interrupts.is_answering)
        view = (status, run_id, waits, len(self._followers), self._worker)
        if view != self._told:
            self._told = view
            self.orders.changed(self)
        if (deadline := self.next_deadline) != self._told_deadline:
            self._told_deadline = deadline
            self.orders.deadline_moved(deadline)

    def _leave_note(self) -> None:
        """Let the worker's next daemon know what only this one does."""
        if self._worker is None or self.generation is None:
            return
        note = Note.of(self.generation, self._token, self.options)
        if (note, self._idle_since) != self._noted:
            self._noted = (note, self._idle_since)
            self._worker.remember(encode_note(note), self._idle_since)

    def _present_status(self) -> str:
        if self.phase in (Phase.STOPPING, Phase.LAUNCHING):
            return self.phase.value
        if self._log.run is not None:
            return "running"
        if self._interrupts.open:
            return "waiting"
        return "idle" if self.phase is Phase.RUNNING else "stopped"

    _DECISIONS: ClassVar[dict[str, Callable[["Thread", Line, bytes], None]]] = {
        "ready": _on_ready,
        "RUN_STARTED": _on_run_started,
        "RUN_FINISHED": _on_run_finished,
        "RUN_ERROR": _on_run_error,
        "MESSAGES_SNAPSHOT": _on_snapshot,
        "STATE_SNAPSHOT": _on_state_snapshot,
        "STATE_DELTA": _on_state_delta,
        "ACTIVITY_SNAPSHOT": _on_activity_snapshot,
        "ACTIVITY_DELTA": _on_activity_delta,
        "CUSTOM": _on_custom,
        "browser_command": _on_browser_command,
        **dict.fromkeys(lines.REPLIES, _on_reply),
        **dict.fromkeys(lines.OPENS, _on_item_opened),
        **dict.fromkeys(lines.CLOSES, _on_item_closed),
        **dict.fromkeys(lines.CHUNKS, _on_chunk),
    }
    """What a line of each type changes; every other type is only relayed."""
