"""Who waits in a thread: frames for a worker to take them, clients for a worker's answer.

A client that leaves keeps its place as a tombstone, so that the answer that was meant for it is
dropped and never handed to the next in line.
"""

from collections import deque
from dataclasses import dataclass, field

from sessions.domain.ports import Client


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
    command_id: str | None = None
    answered: frozenset[str] = frozenset()
    """The interrupts that a run input answers."""


@dataclass(slots=True)
class Waiting:
    """The three queues of one thread."""

    held: deque[Held] = field(default_factory=deque[Held])
    _openings: deque[Opening] = field(default_factory=deque[Opening])
    _commands: dict[str, deque[Client | None]] = field(
        default_factory=dict[str, "deque[Client | None]"]
    )

    def __len__(self) -> int:
        return len(self.held) + len(self._openings) + sum(map(len, self._commands.values()))

    @property
    def oldest_opening(self) -> float | None:
        return self._openings[0].since if self._openings else None

    def expect_snapshot(self, client: Client, now: float) -> Opening:
        opening = Opening(client, now)
        self._openings.append(opening)
        return opening

    def expect_result(self, client: Client, command_id: str) -> None:
        self._commands.setdefault(command_id, deque()).append(client)

    def has_opening(self, client: Client) -> bool:
        return any(opening.client is client for opening in self._openings)

    def next_opening(self) -> Opening | None:
        """Whom the snapshot that just came is for; None when nobody asked."""
        return self._openings.popleft() if self._openings else None

    def next_for_result(self, command_id: str) -> Client | None:
        """Whom the result is for; None when it was nobody's, or theirs who left."""
        queue = self._commands.get(command_id)
        if not queue:
            return None
        client = queue.popleft()
        if not queue:
            del self._commands[command_id]
        return client

    def withdraw(self, opening: Opening) -> None:
        """The open never reached the worker."""
        if opening in self._openings:
            self._openings.remove(opening)

    def withdraw_result(self, client: Client, command_id: str) -> None:
        """The command never reached the worker."""
        queue = self._commands.get(command_id)
        if queue and client in queue:
            queue.remove(client)
            if not queue:
                del self._commands[command_id]

    def expire(self, before: float) -> list[Client]:
        """Take out the opens that began before a time; their held frames go with them."""
        expired: list[Client] = []
        while self._openings and self._openings[0].since <= before:
            opening = self._openings.popleft()
            self.held = deque(h for h in self.held if h.opening is not opening)
            if opening.client is not None:
                expired.append(opening.client)
        return expired

    def forget(self, client: Client) -> None:
        """Leave tombstones in the client's places. Its run inputs stay: they were accepted."""
        for opening in self._openings:
            if opening.client is client:
                opening.client = None
        for queue in self._commands.values():
            for index, waiting in enumerate(queue):
                if waiting is client:
                    queue[index] = None
        # An open that no worker was given yet needs no tombstone: nobody will answer it.
        unsent = {h.opening for h in self.held if h.client is client and h.opening is not None}
        self._openings = deque(o for o in self._openings if o not in unsent)
        self.held = deque(h for h in self.held if h.opening is None or h.opening not in unsent)

    def take_held(self) -> deque[Held]:
        """All frames that wait for a worker, in order; the queue is empty then."""
        held, self.held = self.held, deque()
        return held

    def take_openings(self, *, sent_only: bool = False) -> list[Client]:
        """Those who wait for a snapshot, once each: all, or those whose open a worker was given."""
        unsent = {h.opening for h in self.held} if sent_only else set[Opening | None]()
        taken = [o for o in self._openings if o not in unsent]
        self._openings = deque(o for o in self._openings if o in unsent)
        return list(dict.fromkeys(o.client for o in taken if o.client is not None))

    def answer_all_but_commands(self) -> list[Client]:
        """An answer came that is for everyone: take out the opens and the held run inputs."""
        openings = self.take_openings()
        self.held = deque(h for h in self.held if h.command_id is not None)
        return openings

    def take_commands(self) -> list[tuple[Client, str]]:
        """Those who wait for a command's result."""
        commands, self._commands = self._commands, {}
        return [(c, name) for name, queue in commands.items() for c in queue if c is not None]
