"""What a worker says of its subagents between runs is kept from clients that know only runs."""

import json
from typing import Any

from agui.endpoint.event_stream import framed
from agui.stream.guard import StreamGuard
from agui.stream.outgoing import Outgoing


def row(status: str) -> dict[str, Any]:
    return {"op": "add", "path": "/subagents/subagent-t1-a", "value": {"status": status}}


def a_run(run_id: str, rows: dict[str, Any], *during: dict[str, Any]) -> list[dict[str, Any]]:
    about = {"threadId": "t1", "runId": run_id}
    return [
        {"type": "RUN_STARTED", "protocolVersion": "1.0", **about},
        {"type": "STATE_SNAPSHOT", "snapshot": {"subagents": rows}},
        *during,
        {"type": "RUN_FINISHED", "outcome": {"type": "success"}, **about},
    ]


def test_patches_between_runs_are_dropped_and_the_next_run_begins_with_the_whole_state() -> None:
    outgoing = Outgoing(StreamGuard("t1"))
    between = [
        {"type": "STATE_DELTA", "delta": [row("running")]},
        {"type": "STATE_DELTA", "delta": [row("idle")]},
    ]
    during = {"type": "STATE_DELTA", "delta": [row("closed")]}
    known = {"subagent-t1-a": {"status": "idle"}}
    events = [*a_run("r1", {}), *between, *a_run("r2", known, during)]
    said = b"".join(framed(outgoing.take(json.dumps(event).encode())) for event in events)
    assert outgoing.guard.dropped == 2
    assert outgoing.guard.violation is None
    assert said.count(b"STATE_DELTA") == 1
    assert b'"closed"' in said
    assert b'"running"' not in said
    assert said.count(b"RUN_FINISHED") == 2
