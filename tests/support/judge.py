"""The independent AG-UI verifier: the published client, run by node over recordings.

Skips loudly where node is missing, and fails there when CI is set.
"""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

Event = dict[str, Any]
_FOLDER = Path(__file__).parents[1] / "judge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What one follower was sent after one open: its snapshot, and the runs behind it."""

    name: str
    messages: list[Event]
    events: list[Event]

    @classmethod
    def of(cls, name: str, frames: list[Event]) -> "Recording":
        """From a follower's frames, its snapshot first (see docs/explanation/joining.md)."""
        snapshot, *rest = frames
        assert snapshot["type"] == "MESSAGES_SNAPSHOT", snapshot
        events: list[Event] = []
        in_run = False
        for event in rest:
            in_run = in_run or event["type"] == "RUN_STARTED"
            if not in_run or not event["type"].isupper():
                continue
            if event["type"] == "RUN_ERROR":
                # The binding's field; AG-UI itself has none.
                event = {k: v for k, v in event.items() if k != "runId"}
            events.append(event)
            in_run = event["type"] not in ("RUN_FINISHED", "RUN_ERROR")
        return cls(name=name, messages=snapshot["messages"], events=events)


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    problems: list[str]
    messages: list[Event]
    state: Any


def node_program() -> str:
    """node, with the judges installed. Without it, a loud skip; a failure in CI."""
    node = shutil.which("node")
    if node is None or not (_FOLDER / "node_modules").is_dir():
        reason = "NOT JUDGED: the published AG-UI clients are not installed (node 20, `make judge`)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return node


def judged(*recordings: Recording) -> dict[str, Verdict]:
    """The verdict on each recording, by its name. Fails when one breaks a rule."""
    node = node_program()
    given = [
        {"name": r.name, "messages": r.messages, "events": r.events} for r in recordings if r.events
    ]
    done = subprocess.run(
        [node, str(_FOLDER / "judge.mjs")],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    verdicts = {v["name"]: Verdict(**v) for v in json.loads(done.stdout)}
    problems = {v.name: v.problems for v in verdicts.values() if v.problems}
    assert not problems, problems
    return verdicts
