"""The published HTTP clients as judges of whole bodies: one node process, asked again and again."""

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.judge import node_program

PRESENT = "1.0.0"
OLD = "0.0.59"
_PROGRAM = Path(__file__).parents[1] / "judge" / "streams.mjs"


@dataclass(frozen=True, slots=True)
class Verdict:
    problems: list[str]
    messages: list[dict[str, Any]]
    state: Any


@dataclass(frozen=True, slots=True)
class StreamJudge:
    process: subprocess.Popen[str]

    def __call__(self, body: bytes, version: str = PRESENT, **given: Any) -> Verdict:
        """What the client of a version makes of a body that answers an input."""
        asked = {"threadId": "t1", "runId": "r1", **given}
        assert self.process.stdin and self.process.stdout
        question = {"version": version, "input": asked, "body": body.decode()}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return Verdict(**json.loads(self.process.stdout.readline()))


@contextmanager
def a_stream_judge() -> Generator[StreamJudge]:
    with subprocess.Popen(
        [node_program(), str(_PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": "", "SUPPRESS_TRANSFORMATION_WARNINGS": ""},
    ) as process:
        try:
            yield StreamJudge(process)
        finally:
            assert process.stdin
            process.stdin.close()
            process.wait(timeout=30)
