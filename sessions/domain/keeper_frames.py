"""What a daemon and a keeper say to each other: a kind, a length, that many bytes.

Lines travel in batches, as the bytes that the worker wrote; only what the two have to tell each
other is encoded. The same revision on both sides, or the daemon does not take the worker over.
"""

import json
import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import msgspec

REVISION: Final = 2
PAD_READY: Final = b"R"
"""What a launch pad says once; what it is sent is a byte and a connection for each fork."""
PAD_REQUEST: Final = b"F"
ADOPT_TIMEOUT: Final = 15.0
"""From a daemon's connection to its taking over; both are patient as long, since either may be held
up on a busy machine, and a daemon that is turned away ends the worker."""
_HEADER: Final = struct.Struct(">BI")
_LONGEST: Final = 2**30


class Kind(IntEnum):
    """From the daemon the first block, from the keeper the second."""

    LAUNCH = 1
    ADOPT = 2
    LINE = 3
    STOP = 4
    NOTE = 5
    FAREWELL = 6
    """The daemon has taken the worker's end in."""

    LAUNCHED = 17
    FAILED = 18
    KEPT = 19
    REFUSED = 20
    LINES = 21
    STDERR = 22
    DEAF = 23
    """The worker has closed its stdin."""
    GONE = 24


class Group(msgspec.Struct, frozen=True):
    """The control group that the thread's processes are to be in, and its limits."""

    folder: str
    memory: int | None
    processes: int | None


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a keeper needs to know, once.

    Names and variables as the system's calls give them: they need not be text.
    """

    keeper: str
    """Names the keeper, its files and its mark."""
    home: str
    """Whose it is: the mark of the roost home."""
    folder: str
    """Where its descriptor and its socket go."""
    token: str
    """What a daemon has to show that wants to take over."""
    project_dir: str
    conversation_id: str
    command: list[str]
    arguments: list[str]
    is_ours: bool
    """The command is this very program, so a fork can run the arguments."""
    environ: dict[str, str]
    open_files: int | None
    write_timeout: float
    stop_grace: float
    max_line_bytes: int
    ring_events: int
    ring_bytes: int
    join_lines: int
    join_bytes: int
    idle_timeout: float
    approval_timeout: float
    durable_interrupts: bool
    announces_ready: bool
    group: Group | None = None


class Noted(msgspec.Struct, frozen=True):
    """What the next daemon has to know, and since when nobody needs the worker, if nobody does."""

    note: bytes
    idle_since: float | None = None


class Launched(msgspec.Struct, frozen=True):
    worker_pid: int
    is_adoptable: bool
    """It could leave its descriptor and open its socket."""


class Failed(msgspec.Struct, frozen=True):
    """No worker came to be; of which error, of the directory, the command or the group."""

    errno: int
    strerror: str
    is_of_group: bool = False


class Adopt(msgspec.Struct, frozen=True):
    token: str
    revision: int = REVISION


class Refused(msgspec.Struct, frozen=True):
    """It can't be taken over."""

    reason: str
    is_looked_after: bool = False
    """It needs nobody: another daemon has it, or it is about to leave."""


class Gone(msgspec.Struct, frozen=True):
    """The worker is gone, its lines are all told, and nothing it started is left."""

    reason: str
    """In words that follow "the worker"."""
    unfinished: int = 0
    """Bytes of a last line that never got its newline."""
    has_leftovers: bool = False
    """Something that it started could not be ended."""


class Stop(msgspec.Struct, frozen=True):
    grace: float


class BadFrames(ValueError):
    """Not what a daemon or a keeper of this revision says."""


def frame(kind: Kind, payload: bytes = b"") -> bytes:
    return _HEADER.pack(kind, len(payload)) + payload


def header(kind: Kind, length: int) -> bytes:
    """What goes before a payload that is not to be copied."""
    return _HEADER.pack(kind, length)


def told(kind: Kind, message: msgspec.Struct) -> bytes:
    return frame(kind, msgspec.msgpack.encode(message))


def told_launch(launch: Launch) -> bytes:
    """As ASCII JSON, the one encoding here that takes names which are no text."""
    return frame(Kind.LAUNCH, json.dumps(msgspec.to_builtins(launch)).encode())


def heard_launch(payload: bytes) -> Launch:
    """Raises BadFrames."""
    try:
        return msgspec.convert(json.loads(payload), Launch)
    except (ValueError, RecursionError, msgspec.MsgspecError) as exc:
        raise BadFrames(str(exc)) from exc


@dataclass(slots=True)
class FrameSplitter:
    """Bytes in, whole frames out; a long one is joined once."""

    piecewise: frozenset[Kind] = frozenset()
    """Frames of these kinds come out in the pieces that they came in, and nothing is joined."""
    _parts: list[bytes] = field(default_factory=list[bytes])
    _held: int = 0
    _needed: int = _HEADER.size
    _kind: Kind = Kind.LINES
    _left: int = 0
    """What is still to come of a frame that comes out in pieces, and of which kind it is."""

    def feed(self, chunk: bytes) -> list[tuple[Kind, bytes]]:
        """The frames, and the pieces, that this chunk completes. Raises BadFrames."""
        found: list[tuple[Kind, bytes]] = []
        at = self._pass_on(chunk, 0, found) if self._left else 0
        data = chunk
        if self._parts:
            self._parts.append(chunk)
            self._held += len(chunk)
            if self._held < self._needed:
                return found
            data = b"".join(self._parts)
            self._parts.clear()
        while True:
            self._needed = _HEADER.size
            if len(data) - at < self._needed:
                break
            number, length = _HEADER.unpack_from(data, at)
            if length > _LONGEST:
                raise BadFrames(f"a frame of {length:,} bytes")
            try:
                kind = Kind(number)
            except ValueError as exc:
                raise BadFrames(f"a frame of kind {number}") from exc
            if kind in self.piecewise:
                self._kind, self._left = kind, length
                at = self._pass_on(data, at + _HEADER.size, found)
                continue
            self._needed += length
            if len(data) - at < self._needed:
                break
            found.append((kind, data[at + _HEADER.size : at + self._needed]))
            at += self._needed
        if at < len(data):
            self._parts.append(data[at:])
        self._held = len(data) - at
        return found

    def _pass_on(self, data: bytes, at: int, found: list[tuple[Kind, bytes]]) -> int:
        """What is here of a frame that comes out in pieces. Returns where it ends."""
        end = min(at + self._left, len(data))
        if end > at:
            found.append((self._kind, data[at:end]))
            self._left -= end - at
        return end
