"""One row of the panel's list: what the registry knows of a thread now, and what is on the disk.

Pure. The registry's word counts while it has one; the disk tells the rest, so that a decision that
waited through a restart of the daemon is still in the list.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from agui.panel.ports import Outcome, SavedConversation
from sessions.domain.keys import ConversationId, ThreadKey
from sessions.domain.ports import ThreadView

Entry = Mapping[str, object]

_SUBAGENT = re.compile(r"subagent-(.+)-[0-9a-f]{12}")
# What is left on the disk of a run that nobody will go on with by itself.
_FAILED: frozenset[Outcome | None] = frozenset({"error", "interrupted", "open"})


@dataclass(frozen=True, slots=True)
class Clocks:
    """One moment, on the registry's clock and on people's."""

    monotonic: float
    utc: datetime

    def stamp(self, moment: float) -> str:
        """A moment of the registry's clock, for people."""
        return rfc3339(self.utc - timedelta(seconds=max(0.0, self.monotonic - moment)))


def rfc3339(moment: datetime) -> str:
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def key_of(thread: ThreadView | SavedConversation) -> ThreadKey:
    return ThreadKey(thread.project_dir, ConversationId(thread.conversation_id))


def merged(
    views: Iterable[ThreadView], saved: Iterable[SavedConversation], clocks: Clocks
) -> Sequence[Entry]:
    """All rows: the live threads that nothing is saved of first, then the saved conversations."""
    live = {key_of(view): view for view in views}
    on_disk = {key_of(conversation): conversation for conversation in saved}
    fresh = [entry(key, view, None, clocks) for key, view in live.items() if key not in on_disk]
    return fresh + [entry(key, live.get(key), one, clocks) for key, one in on_disk.items()]


def entry(
    key: ThreadKey, view: ThreadView | None, saved: SavedConversation | None, clocks: Clocks
) -> Entry:
    """One row. Its state is that of the view, else `waiting`, `failed` or `stopped`."""
    state, since = _state(view, saved, clocks)
    return {
        "project_dir": key.project_dir,
        "id": key.conversation_id,
        "slug": saved.slug if saved else None,
        "title": (saved.title if saved else "") or None,
        "name": saved.name if saved else None,
        "updated_at": saved.updated_at if saved else None,
        "state": state,
        "since": since,
        "failed": state in ("idle", "stopped", "failed") and _has_failed(view, saved),
        "run_id": view.run_id if view else None,
        "interrupts": list(view.interrupts) if view else [],
        "followers": view.followers if view else 0,
        "answered_by": view.answered_by if view else None,
        "parent": (view.parent if view else None) or _parent(key.conversation_id),
    }


def _state(
    view: ThreadView | None, saved: SavedConversation | None, clocks: Clocks
) -> tuple[str, str | None]:
    if view is not None and view.status != "stopped":
        return view.status, clocks.stamp(view.since)
    if saved is None:
        return "stopped", clocks.stamp(view.since) if view else None
    if saved.outcome == "interrupt":
        return "waiting", saved.outcome_at
    return "failed" if saved.outcome in _FAILED else "stopped", saved.outcome_at or saved.updated_at


def _has_failed(view: ThreadView | None, saved: SavedConversation | None) -> bool:
    return saved is not None and saved.outcome in _FAILED and not (view and view.run_id)


def _parent(conversation_id: str) -> str | None:
    """The conversation that a saved subagent's belongs to, by its id: for the list only."""
    found = _SUBAGENT.fullmatch(conversation_id)
    return found[1] if found else None
