"""A judge of somebody else's, with rules that the published client does not check.

`AGUI_JUDGE` names its folder; what it needs of node's packages is what `make judge` installs.
"""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.agui.endpoint.front_end import Body, a_front_end
from tests.agui.real import a_real_daemon
from tests.support.judge import node_program

_NODE_MODULES = Path(__file__).parents[2] / "judge" / "node_modules"


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


@dataclass(frozen=True, slots=True)
class SecondJudge:
    folder: Path

    def __call__(self, stream: Path, given: Path | None = None) -> tuple[int, str]:
        """Its exit code, 0 for a stream that conforms, and what it says."""
        asked = [] if given is None else ["--input", str(given)]
        done = subprocess.run(
            [node_program(), str(self.folder / "validate.mjs"), str(stream), *asked],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def judge(tmp_path: Path) -> SecondJudge:
    named = os.environ.get("AGUI_JUDGE", "")
    if not named:
        pytest.skip("NOT JUDGED AGAIN: set AGUI_JUDGE to the folder of the second AG-UI judge")
    folder = tmp_path / "judge"
    shutil.copytree(named, folder, ignore=shutil.ignore_patterns("node_modules"))
    (folder / "node_modules").symlink_to(_NODE_MODULES)
    return SecondJudge(folder)


def test_it_tells_good_streams_from_bad_ones(judge: SecondJudge) -> None:
    """A judge that lets everything pass proves nothing."""
    samples = judge.folder / "samples"
    assert judge(samples / "good.jsonl")[0] == 0
    for bad in ("bad-openstep", "bad-chunkfirst", "bad-pending"):
        assert judge(samples / f"{bad}.jsonl")[0] == 1


async def test_our_runs_joins_and_ends_conform(tmp_path: Path, judge: SecondJudge) -> None:
    (tmp_path / "daemon").mkdir()
    async with a_real_daemon(tmp_path / "daemon") as daemon, a_front_end(daemon) as front:
        tools: list[dict[str, Any]] = [
            {"name": "paint", "description": "Paints.", "parameters": {}}
        ]
        given: list[tuple[Body, dict[str, Any]]] = []
        for run_id, text in (("r1", "think\nread none.txt"), ("r2", "use paint {}")):
            asked = front.input(text, runId=run_id, tools=tools)
            given.append((await front.run(text, runId=run_id, tools=tools), asked))
        assert len(given[-1][0].events[-1]["outcome"]["pendingToolCallIds"]) == 1
        given.append((await front.connect(runId="look"), front.input(runId="look")))
        given.append((await front.run("run echo a", runId="r3"), front.input("x", runId="r3")))
        assert given[-1][0].events[-1]["outcome"]["type"] == "interrupt"
        for number, (body, asked) in enumerate(given):
            stream, told = tmp_path / f"{number}.sse", tmp_path / f"{number}.json"
            stream.write_bytes(body.raw)
            told.write_text(json.dumps(asked))
            code, said = judge(stream, told)
            assert code == 0, (body.types, said)
