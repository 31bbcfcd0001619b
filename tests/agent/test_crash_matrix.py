"""`kill -9` at every write: nothing that a client was told of is lost, nothing runs twice."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.judge import Recording, judged

ROOT = Path(__file__).parents[2]
PROGRAM = "tests.agent.support.crash_matrix"
# One for each core of a small machine; each kills half of the workers.
SHARES = 2


@pytest.mark.parametrize("moment", ["before", "torn", "after"])
def test_killed_at_any_write_a_worker_loses_nothing_told_and_repeats_nothing(
    tmp_path: Path, moment: str
) -> None:
    programs = [
        subprocess.Popen(
            [sys.executable, "-m", PROGRAM, tmp_path / str(share), moment, str(share), str(SHARES)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for share in range(1, SHARES + 1)
    ]
    deaths: list[dict[str, Any]] = []
    for program in programs:
        out, _ = program.communicate(timeout=600)
        assert program.returncode == 0
        deaths += [json.loads(line) for line in out.splitlines()]
    assert [death for death in deaths if death["problems"]] == []
    # Every kind of write was met: inputs, runs, messages, calls, starts, results, ends.
    assert len({death["place"] for death in deaths}) >= 20
    judged(
        *(
            Recording.of(
                f"write {death['place']}",
                [{"type": "MESSAGES_SNAPSHOT", "messages": []}, *death["lines"]],
            )
            for death in deaths
        )
    )
