"""One row of the list: the registry's word first, the disk for the rest."""

from datetime import UTC, datetime

import pytest

from agui.panel.entries import Clocks, entry, key_of, merged
from sessions.domain.ports import ThreadView
from tests.agui.panels import saved

CLOCKS = Clocks(monotonic=1000.0, utc=datetime(2026, 5, 4, 12, 0, tzinfo=UTC))


def view(status: str = "idle", **changed: object) -> ThreadView:
    members: dict[str, object] = {
        "project_dir": "/p", "conversation_id": "c1", "status": status, "run_id": None,
        "interrupts": (), "followers": 0, "worker_pid": 1, "generation": "g", "since": 940.0,
    }  # fmt: skip
    return ThreadView(**(members | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "outcome", "state", "failed"),
    [
        ("running", "success", "running", False),
        ("running", "error", "running", False),
        ("waiting", "interrupt", "waiting", False),
        ("idle", "success", "idle", False),
        ("idle", "error", "idle", True),
        ("stopped", "interrupt", "waiting", False),
        (None, "interrupt", "waiting", False),
        (None, "success", "stopped", False),
        (None, "cancelled", "stopped", False),
        (None, "error", "failed", True),
        (None, "interrupted", "failed", True),
        (None, "open", "failed", True),
        (None, None, "stopped", False),
    ],
)
def test_a_state_is_the_registrys_while_it_has_one(
    status: str | None, outcome: str | None, state: str, failed: bool
) -> None:
    """A decision that waited through a restart is still in the list; a crash is not hidden."""
    conversation = saved(outcome=outcome)
    live = None if status is None else view(status, run_id="r" if status == "running" else None)
    row = entry(key_of(conversation), live, conversation, CLOCKS)
    assert (row["state"], row["failed"]) == (state, failed)


def test_since_is_the_moment_on_peoples_clock() -> None:
    row = entry(key_of(saved()), view("waiting"), saved(), CLOCKS)
    assert row["since"] == "2026-05-04T11:59:00.000Z"
    row = entry(key_of(saved()), None, saved(outcome="interrupt"), CLOCKS)
    assert row["since"] == "2026-05-04T10:00:00.000Z"


def test_a_subagent_names_its_parent_live_or_saved() -> None:
    child = "subagent-c1-0123456789ab"
    conversation = saved(child)
    assert entry(key_of(conversation), None, conversation, CLOCKS)["parent"] == "c1"
    live = view(conversation_id="c9", parent="c1")
    assert entry(key_of(live), live, None, CLOCKS)["parent"] == "c1"
    assert entry(key_of(saved("subagent-c1")), None, saved(), CLOCKS)["parent"] is None


def test_each_thread_has_one_row() -> None:
    rows = merged([view(), view(conversation_id="new")], [saved(), saved("old")], CLOCKS)
    assert [row["id"] for row in rows] == ["new", "c1", "old"]
