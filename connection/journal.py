"""The command journal: what was received, what it came to, and what a repeat gets. Pure.

A command that changes something is recorded before it is carried out, by its client's id and its
own; its result is recorded with it. So whatever dies in between, it is carried out at most once:

    unknown    -> a repeat is a new command
    running    -> a repeat waits for the one result
    complete   -> a repeat gets the recorded result; nothing is carried out
    uncertain  -> it was received and has no result: a repeat is told so, and not carried out

A repeat says the very same: an id that is remembered and comes with something else is refused in
every state but the first. An acknowledged command is forgotten: its client has the result, or knows
that there is none, and will not repeat it. Of clients that never acknowledge, the latest commands
are remembered: far more than one that lost its connection can have on their way.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Protocol

import msgspec

Key = tuple[str, str]
"""The client's id and the command's id. A pair, so that no separator can make two keys one."""
_FINGERPRINT_BYTES = 16
# Of all clients together, as each one's connection takes 256 commands at once.
_MOST_KEPT = 20_000
_MOST_RESULT_BYTES = 64 * 1024 * 1024


def fingerprint(command: Mapping[str, object]) -> bytes:
    """What a command asks for, in a few bytes: the same for the same, in whatever order."""
    asked = msgspec.json.encode(command, order="sorted")
    return hashlib.sha256(asked).digest()[:_FINGERPRINT_BYTES]


class State(StrEnum):
    """What is known of a command."""

    UNKNOWN = "unknown"
    RUNNING = "running"
    COMPLETE = "complete"
    UNCERTAIN = "uncertain"


class Claim(Enum):
    """What a command that comes is to the journal."""

    NEW = auto()
    """Whoever gets this carries it out."""
    REPEAT = auto()
    ANOTHER = auto()
    """Its id is taken, by a command that asked for something else."""


@dataclass(slots=True)
class Book:
    """The state of every command that is remembered. Results are bytes that it does not read."""

    most: int = _MOST_KEPT
    """How many that are not running may be remembered."""
    most_bytes: int = _MOST_RESULT_BYTES
    """How large their results may be together."""
    _running: set[Key] = field(default_factory=set[Key])
    _results: dict[Key, bytes | None] = field(default_factory=dict[Key, bytes | None])
    """None: received by a process that is gone, without a result."""
    _asked: dict[Key, bytes] = field(default_factory=dict[Key, bytes])
    """The fingerprint of each; none of what a version without them has recorded."""
    _result_bytes: int = 0

    def load(self, key: Key, asked: bytes | None, result: bytes | None) -> None:
        """What an earlier process left."""
        self._settle(key, result)
        if asked is not None:
            self._asked[key] = asked

    def state(self, key: Key) -> State:
        if key in self._running:
            return State.RUNNING
        if key not in self._results:
            return State.UNKNOWN
        return State.UNCERTAIN if self._results[key] is None else State.COMPLETE

    def result(self, key: Key) -> bytes | None:
        return self._results.get(key)

    def begin(self, key: Key, asked: bytes) -> Claim:
        """Claim a command; NEW for the one who may carry it out. At most one ever is."""
        if self.state(key) is not State.UNKNOWN:
            return Claim.REPEAT if self._asked.get(key, asked) == asked else Claim.ANOTHER
        self._running.add(key)
        self._asked[key] = asked
        return Claim.NEW

    def complete(self, key: Key, result: bytes) -> None:
        self._running.discard(key)
        self._settle(key, result)

    def abandon(self, key: Key, *, was_received: bool) -> None:
        """It ended without a result. Not even recorded, it never happened."""
        self._running.discard(key)
        if was_received:
            self._settle(key, None)
        else:
            self._asked.pop(key, None)

    def acknowledge(self, key: Key) -> bool:
        """Forget what its client was told. False when there is nothing to forget."""
        if self.state(key) not in (State.COMPLETE, State.UNCERTAIN):
            return False
        self._forget(key)
        return True

    def forget_oldest(self) -> Key | None:
        """Make room: the oldest command, forgotten now; None once there is room.

        The latest stays, however large its result: its client may be about to ask again.
        """
        has_room = len(self._results) <= self.most and self._result_bytes <= self.most_bytes
        if has_room or len(self._results) == 1:
            return None
        oldest = next(iter(self._results))
        self._forget(oldest)
        return oldest

    def _settle(self, key: Key, result: bytes | None) -> None:
        self._results[key] = result
        self._result_bytes += len(result or b"")

    def _forget(self, key: Key) -> None:
        self._result_bytes -= len(self._results.pop(key) or b"")
        self._asked.pop(key, None)

    def __len__(self) -> int:
        return len(self._results) + len(self._running)


class CommandJournal(Protocol):
    """Where the server records commands. One per daemon."""

    def state(self, key: Key) -> State: ...

    def begin(self, key: Key, asked: bytes) -> Claim:
        """Claim a command, at once; NEW for the one who carries it out."""
        ...

    async def received(self, key: Key, command: str, asked: bytes) -> None:
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


class IdTaken(Exception):
    """The id of a command is remembered, and was another command's. Nothing was done."""


class JournalFailed(Exception):
    """The journal can't be written or read. The message names the file and what to do."""
