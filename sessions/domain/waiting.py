"""Who waits in a thread: frames for a worker to take them, clients for a worker's answer.

A client that leaves keeps its place as a tombstone, so that the answer that was meant for it is
dropped and never handed to the next in line.
"""

from collections import deque
from dataclasses import dataclass, field

from sessions.domain.ports import Client

# Tombstones kept in one queue. A worker that leaves so many requests of one kind unanswered
# will not answer the oldest any more.
_MAX_TOMBSTONES = 256


@dataclass(slots=True, eq=False)
class Opening:
    """An open that waits for its snapshot. A tombstone has no client."""

    client: Client | None
    since: float


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """A frame on its way to a worker, with what was read in it."""

    client: Client
    frame: bytes
    relaunches: bool
    """It is worth a new worker when there is none."""
    opening: Opening | None = None
    replies: tuple[str, ...] = ()
    """What it is answered with: types of lines, `type:id` where the answer names the request."""
    answered: frozenset[str] = frozenset()
    """The interrupts that a run input answers."""

    @property
    def is_run_input(self) -> bool:
        """Nothing answers it but the run."""
        return self.opening is None and not self.replies

    @property
    def begins_a_run(self) -> bool:
        """A message: sooner or later a run begins with it.

        An answer to what a run asked is followed apart: its sender is told if it came to nothing.
        """
        return self.is_run_input and self.relaunches and not self.answered


@dataclass(slots=True, eq=False)
class Reply:
    """A place in the queue for one kind of answer. A tombstone has no client."""

    key: str
    client: Client | None
    since: float


@dataclass(slots=True)
class Waiting:
    """All queues of one thread."""

    held: deque[Held] = field(default_factory=deque[Held])
    _openings: deque[Opening] = field(default_factory=deque[Opening])
    _replies: dict[str, deque[Reply]] = field(default_factory=dict[str, deque[Reply]])

    def __len__(self) -> int:
        """How much waits that somebody still waits for."""
        replies = sum(r.client is not None for queue in self._replies.values() for r in queue)
        return sum(h.opening is None for h in self.held) + len(self._openings) + replies

    @property
    def has_replies(self) -> bool:
        """A client that is still there waits for an answer of the worker."""
        return any(r.client is not None for queue in self._replies.values() for r in queue)

    # Opens

    @property
    def oldest_opening(self) -> float | None:
        return self._openings[0].since if self._openings else None

    @property
    def openings(self) -> int:
        """How many snapshots were asked for, by anybody."""
        return len(self._openings)

    def expect_snapshot(self, client: Client | None, now: float) -> Opening:
        opening = Opening(client, now)
        self._openings.append(opening)
        return opening

    def has_opening(self, client: Client) -> bool:
        return any(opening.client is client for opening in self._openings)

    def next_opening(self) -> Opening | None:
        """Whom the snapshot that just came is for; None when nobody asked."""
        return self._openings.popleft() if self._openings else None

    def withdraw(self, opening: Opening) -> None:
        """The open never reached the worker."""
        if opening in self._openings:
            self._openings.remove(opening)

    def expire_openings(self, before: float) -> list[Client]:
        """Take out the opens that began before a time; their held frames go with them."""
        expired: list[Client] = []
        while self._openings and self._openings[0].since <= before:
            opening = self._openings.popleft()
            self.held = deque(h for h in self.held if h.opening is not opening)
            if opening.client is not None:
                expired.append(opening.client)
        return expired

    def take_openings(self, *, sent_only: bool = False) -> list[Client]:
        """Those who wait for a snapshot, once each: all, or those whose open a worker was given."""
        unsent = {h.opening for h in self.held} if sent_only else set[Opening | None]()
        taken = [o for o in self._openings if o not in unsent]
        self._openings = deque(o for o in self._openings if o in unsent)
        return list(dict.fromkeys(o.client for o in taken if o.client is not None))

    # Other answers

    def reply_keys(self) -> list[str]:
        """What was asked for, by anybody: one key for each answer that may still come."""
        return [reply.key for queue in self._replies.values() for reply in queue]

    def is_expected(self, key: str) -> bool:
        """Somebody asked for this, and may have left since."""
        return key in self._replies

    def expect_reply(self, key: str, client: Client | None, now: float) -> Reply:
        queue = self._replies.setdefault(key, deque())
        reply = Reply(key, client, now)
        queue.append(reply)
        while len(queue) > _MAX_TOMBSTONES and queue[0].client is None:
            queue.popleft()
        return reply

    def next_for(self, key: str) -> Reply | None:
        """Whose turn it is for an answer of this kind; None when nobody asked."""
        queue = self._replies.get(key)
        if not queue:
            return None
        reply = queue.popleft()
        if not queue:
            del self._replies[key]
        return reply

    def asks_for(self, key: str) -> Client | None:
        """Who is next for an answer of this kind, without taking the place."""
        queue = self._replies.get(key)
        return queue[0].client if queue else None

    @property
    def oldest_reply(self) -> float | None:
        """Since when somebody has waited longest, of those that have a deadline."""
        return min((r.since for r in self._timed() if r.client is not None), default=None)

    def expire_replies(self, before: float) -> list[Client]:
        """Turn those that began before a time into tombstones. Returns who is to be told, once."""
        expired: list[Client] = []
        for reply in self._timed():
            if reply.client is not None and reply.since <= before:
                expired.append(reply.client)
                reply.client = None
        return list(dict.fromkeys(expired))

    def take_replies(self) -> list[tuple[Client, str]]:
        """Those who wait for an answer, and for which; the queues are empty then."""
        replies, self._replies = self._replies, {}
        return [(r.client, r.key) for q in replies.values() for r in q if r.client is not None]

    # Everything at once

    def forget(self, client: Client) -> None:
        """Leave tombstones in the client's places. Its run inputs stay: they were accepted."""
        for opening in self._openings:
            if opening.client is client:
                opening.client = None
        for queue in self._replies.values():
            for reply in queue:
                if reply.client is client:
                    reply.client = None
        # What no worker was given yet needs no tombstone: nobody will answer it.
        unsent = {h.opening for h in self.held if h.client is client and h.opening is not None}
        self._openings = deque(o for o in self._openings if o not in unsent)
        self.held = deque(h for h in self.held if h.client is not client or h.is_run_input)

    def take_held(self) -> deque[Held]:
        """All frames that wait for a worker, in order; the queue is empty then."""
        held, self.held = self.held, deque()
        return held

    def drop_run_inputs_and_opens(self) -> list[Client]:
        """An answer came that is for everyone. Returns who waited for a snapshot."""
        openings = self.take_openings()
        self.held = deque(h for h in self.held if h.replies)
        return openings

    def _timed(self) -> list[Reply]:
        # A tool takes as long as it takes; the worker owes its result, and its exit is one, too.
        return [
            reply
            for key, queue in self._replies.items()
            if not key.startswith("tool_result:")
            for reply in queue
        ]
