"""What somebody who joins an open run must be told besides the snapshot, in the worker's own lines.

The messages are in the snapshot; the run, the state, the activities and the openers of what is
still open are here. Bounded: past the limits, patches that later ones make pointless are dropped,
and when that is not enough a joiner goes without that document until its next snapshot line.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sessions.domain.lines import BadLine, PatchOperation, operations


@dataclass(slots=True, kw_only=True)
class Document:
    """The state, or one activity: its last snapshot line and the patches since."""

    max_lines: int
    max_bytes: int
    _lines: list[bytes] = field(default_factory=list[bytes])
    _bytes: int = 0
    is_lost: bool = False
    """The log grew past its limits: joiners wait for the next snapshot line."""

    def snapshot(self, line: bytes) -> None:
        """Everything before is superseded."""
        self._lines = [line]
        self._bytes = len(line)
        self.is_lost = False

    def patch(self, line: bytes) -> None:
        """Keep a patch, unless there is nothing it could be applied to."""
        if self.is_lost:
            return
        self._lines.append(line)
        self._bytes += len(line)
        if len(self._lines) > self.max_lines or self._bytes > self.max_bytes:
            self._thin_out()

    def lines(self) -> list[bytes]:
        """The snapshot line and the patches that lead from it to now; empty when lost."""
        return self._lines

    @property
    def bytes_held(self) -> int:
        return self._bytes

    def _thin_out(self) -> None:
        # A snapshot line alone may be as large as it likes: the worker said it, a joiner needs it.
        baseline, patches = self._lines[:1], self._lines[1:]
        kept = without_overwritten(patches)
        size = sum(map(len, kept))
        # Half of the limit, so that the next patch does not start this again.
        if len(kept) > self.max_lines // 2 or size > self.max_bytes // 2:
            self._lines, self._bytes, self.is_lost = [], 0, True
        else:
            self._lines = baseline + kept
            self._bytes = sum(map(len, self._lines))


def without_overwritten(patches: list[bytes]) -> list[bytes]:
    """Drop the patches that only set paths which a later one sets again, as a whole.

    From the newest back: a path counts as set later only while nothing in between depends on it.
    """
    kept: list[bytes] = []
    set_later: set[str] = set()
    for line in reversed(patches):
        try:
            steps = operations(line)
        except BadLine:
            kept.append(line)
            set_later.clear()
            continue
        if all(step.sets_whole and step.path in set_later for step in steps):
            continue
        kept.append(line)
        for step in steps:
            set_later = {path for path in set_later if not _touches(step, path)}
        set_later.update(step.path for step in steps if step.sets_whole)
    kept.reverse()
    return kept


def _touches(step: PatchOperation, path: str) -> bool:
    """The step needs, moves or removes something at, above or below the path."""
    return any(
        other == path or other.startswith(path + "/") or path.startswith(other + "/")
        for other in (step.path, step.from_)
        if other is not None
    )


# How many activities of a thread are remembered for those who join; the oldest go first.
MAX_ACTIVITIES = 256


@dataclass(slots=True)
class OpenRun:
    """The run that is going on: how it began, and the opening lines of what is open in it."""

    run_id: str
    started: bytes
    openers: dict[tuple[str, str, str], bytes] = field(
        default_factory=dict[tuple[str, str, str], bytes]
    )


@dataclass(slots=True)
class JoinLog:
    """All that is kept of a thread's lines for those who join while a run is open."""

    max_lines: int
    max_bytes: int
    run: OpenRun | None = None
    state: Document = field(init=False)
    _activities: dict[str, Document] = field(default_factory=dict[str, Document])

    def __post_init__(self) -> None:
        self.state = self._new_document()

    def lines(self) -> tuple[list[bytes], frozenset[str | None]]:
        """What follows the snapshot of a joiner, and which documents it is not told yet.

        The state goes by the name None, an activity by its message id.
        """
        run = self.run
        if run is None:
            # Between runs nothing is said; what the next run patches is told then.
            return [], frozenset(
                name for name, document in self._documents() if document.lines() or document.is_lost
            )
        said = [run.started]
        lost: set[str | None] = set()
        for name, document in self._documents():
            said += document.lines()
            if document.is_lost:
                lost.add(name)
        said += run.openers.values()
        return said, frozenset(lost)

    def document_lines(self) -> list[bytes]:
        """The lines that every document is made of now, the state's first."""
        return [line for _, document in self._documents() for line in document.lines()]

    @property
    def lost(self) -> list[str | None]:
        """The documents that could not be kept, by name; the state is None."""
        return [name for name, document in self._documents() if document.is_lost]

    def lose(self, name: str | None) -> None:
        """This document can't be had before its next snapshot line."""
        document = self._new_document()
        document.is_lost = True
        if name is None:
            self.state = document
        else:
            self._activities[name] = document

    def document(self, name: str | None) -> Document | None:
        """The state (None), or an activity by its message id."""
        return self.state if name is None else self._activities.get(name)

    def item_opened(self, key: tuple[str, str, str] | None, line: bytes) -> None:
        if self.run is not None and key is not None:
            self.run.openers[key] = line

    def item_closed(self, key: tuple[str, str, str] | None) -> None:
        if self.run is not None and key is not None:
            self.run.openers.pop(key, None)

    def activity_snapshot(self, name: str, line: bytes, *, keeps_existing: bool) -> bool:
        """Whether the line is the activity's content from here on."""
        known = self._activities.get(name)
        if known is not None and not known.is_lost and keeps_existing:
            return False
        document = self._activities.pop(name, None) or self._new_document()
        document.snapshot(line)
        self._activities[name] = document
        held = sum(d.bytes_held for d in self._activities.values())
        while len(self._activities) > MAX_ACTIVITIES or (
            held > self.max_bytes and len(self._activities) > 1
        ):
            held -= self._activities.pop(next(iter(self._activities))).bytes_held
        return True

    def _documents(self) -> Iterator[tuple[str | None, Document]]:
        yield None, self.state
        yield from self._activities.items()

    def _new_document(self) -> Document:
        return Document(max_lines=self.max_lines, max_bytes=self.max_bytes)
