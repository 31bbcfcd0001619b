"""The independent AG-UI verifier, where it is installed (`make judge`)."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from ag_ui.core import Event
from pydantic import TypeAdapter

from tests.agent.support.fakes import Line

JUDGE = Path(__file__).parents[2] / "judge"
_EVENT: TypeAdapter[object] = TypeAdapter(Event)


def run_lines(lines: Iterable[Line]) -> list[Line]:
    """What is judged: the events of runs, without our `runId` on errors."""
    kept: list[Line] = []
    is_open = False
    for line in lines:
        kind = line["type"]
        is_open = is_open or kind == "RUN_STARTED"
        is_bare = kind == "RUN_ERROR" and "runId" not in line
        if not str(kind).isupper() or not is_open or is_bare:
            continue
        kept.append({key: value for key, value in line.items() if key != "runId"})
        if kind != "RUN_ERROR":
            kept[-1] = line
        if kind in ("RUN_FINISHED", "RUN_ERROR"):
            is_open = False
    return kept


def judge(lines: Iterable[Line], folder: Path) -> None:
    """The types of every line, by the library; the whole stream, by the verifier or a skip."""
    kept = run_lines(lines)
    for line in kept:
        _EVENT.validate_python(line)
    if not (JUDGE / "node_modules").is_dir() or not (JUDGE / "validate.mjs").exists():
        if os.environ.get("CI"):
            pytest.fail("the AG-UI verifier is not installed: run `make judge`")
        pytest.skip("THE AG-UI VERIFIER IS NOT INSTALLED: run `make judge` where node 20 is")
    file = folder / "recording.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in kept))
    found = subprocess.run(
        ["node", "validate.mjs", str(file)],
        cwd=JUDGE,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "0 warning(s)" in found.stdout, found.stdout
