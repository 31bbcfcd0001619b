"""The command journal: what was received, what it came to, and what a repeat gets. Pure.

A command that changes something is recorded before it is carried out, by its client's id and its
own; its result is recorded with it. So whatever dies in between, it is carried out at most once:

    unknown    -> a repeat is a new command
    running    -> a repeat waits for the one result
    complete   -> a repeat gets the recorded result; nothing is carried out
    uncertain  -> it was received and has no result: a repeat is told so, and not carried out

An acknowledged command is forgotten: its client has the result and will not repeat it.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

Key = tuple[str, str]
"""The client's id and the command's id. A pair, so that no separator can make two keys one."""


class State(StrEnum):
    """What is known of a command."""

    UNKNOWN = "unknown"
    RUNNING = "running"
    COMPLETE = "complete"
    UNCERTAIN = "uncertain"


@dataclass(slots=True)
class Book:
    """The state of every command that is remembered. Results are bytes that it does not read."""

    _running: set[Key] = field(default_factory=set[Key])
    _results: dict[Key, bytes | None] = field(default_factory=dict[Key, bytes | None])
    """None: received by a process that is gone, without a result."""

    def load(self, key: Key, result: bytes | None) -> None:
        """What an earlier process left."""
        self._results[key] = result

    def state(self, key: Key) -> State:
        if key in self._running:
            return State.RUNNING
        if key not in self._results:
            return State.UNKNOWN
        return State.UNCERTAIN if self._results[key] is None else State.COMPLETE

    def result(self, key: Key) -> bytes | None:
        return self._results.get(key)

    def begin(self, key: Key) -> bool:
        """Claim a command; True for the one who may carry it out. At most one ever is."""
        if self.state(key) is not State.UNKNOWN:
            return False
        self._running.add(key)
        return True

    def complete(self, key: Key, result: bytes) -> None:
        self._running.discard(key)
        self._results[key] = result

    def abandon(self, key: Key, *, was_received: bool) -> None:
        """It ended without a result. Not even recorded, it never happened."""
        self._running.discard(key)
        if was_received:
            self._results[key] = None

    def acknowledge(self, key: Key) -> bool:
        """Forget a result that its client has. False when there is none to forget."""
        if self.state(key) is not State.COMPLETE:
            return False
        del self._results[key]
        return True

    def __len__(self) -> int:
        return len(self._results) + len(self._running)


class CommandJournal(Protocol):
    """Where the server records commands. One per daemon."""

    def state(self, key: Key) -> State: ...

    def begin(self, key: Key) -> bool:
        """Claim a command, at once; True for the one who carries it out."""
        ...

    async def received(self, key: Key, command: str) -> None:
        """Record it; on the disk on return. Raises JournalFailed: then it is not carried out."""
        ...

    def completed(self, key: Key, result: bytes) -> None:
        """Record the result, with the next write. Whoever waits for it gets it now."""
        ...

    def abandoned(self, key: Key) -> None:
        """It ended without a result. Safe to call for one that has one."""
        ...

    async def result(self, key: Key) -> bytes | None:
        """The recorded result; that of a running one once it is there. None: uncertain."""
        ...

    def acknowledged(self, key: Key) -> None:
        """Its client has the result. Unknown keys are fine."""
        ...


class JournalFailed(Exception):
    """The journal can't be written or read. The message names the file and what to do."""
