"""A bug in a copy of this repository, found, fixed and tested by the agent, and recorded.

The model's part is played by a local server with what a model would say; all that it asks for is
done by the real worker with its real tools, and the outcome is what the tools found. The story of
the recording is in docs/explanation/a-recorded-run.md.
"""

import shutil
import sys
from pathlib import Path

import msgspec
import pytest

from tests.agent.support.fakes import Line
from tests.agent.support.judge import judge
from tests.agent.support.openai_server import Stream, openai_server, text, tool_call
from tests.agent.support.worker_process import a_place, worker

ROOT = Path(__file__).parents[2]
SOURCE = "agent/domain/queue.py"
GOOD = "        wanted = set(message_ids)\n"
BAD = "        wanted = set(message_ids[1:])\n"
TEST = """\
from agent.domain.messages import Message
from agent.domain.queue import Queue, Waiting


def test_a_message_that_was_taken_waits_no_longer() -> None:
    queue = Queue()
    queue.add([Waiting(Message(id="a", role="user", content="x"))])
    assert [each.message.id for each in queue.take(["a"])] == ["a"]
    assert not len(queue)
"""
RUN = f"{sys.executable} -m pytest -q -p no:cacheprovider tests/test_taken.py"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def wants(tool: str, **arguments: object) -> Stream:
    return tool_call(f"call_{tool}", tool, msgspec.json.encode(arguments).decode())


def results(lines: list[Line]) -> list[dict[str, object]]:
    return [
        msgspec.json.decode(str(line["content"]))
        for line in lines
        if line["type"] == "TOOL_CALL_RESULT"
    ]


async def test_a_seeded_bug_is_found_fixed_and_tested_with_every_change_approved(
    tmp_path: Path,
) -> None:
    replies = (
        wants("Grep", pattern="def take", path="agent"),
        wants("Read", path=SOURCE, offset=80, limit=40),
        wants("Write", path="tests/test_taken.py", content=TEST),
        wants("Bash", command=RUN),
        wants("Edit", path=SOURCE, old=BAD, new=GOOD),
        wants("Bash", command=RUN),
        text("`Queue.take` skipped the first id. It takes all now, and a test holds it."),
    )
    with openai_server(*replies) as server:
        place = a_place(
            tmp_path,
            ROOST_AGENT__MODEL="openai:local",
            ROOST_PROVIDERS__OPENAI__BASE_URL=server.url,
            ROOST_PROVIDERS__OPENAI__API_KEY="sk-test-0123456789abcdef",
        )
        shutil.copytree(ROOT / "agent", place.project / "agent")
        shutil.copy(ROOT / "pyproject.toml", place.project)
        (place.project / "tests").mkdir()
        source = place.project / SOURCE
        sound = source.read_text()
        source.write_text(sound.replace(GOOD, BAD))
        assert source.read_text() != sound
        async with worker(place) as it:
            await it.ask("A message that was taken still waits in the queue. Find it and fix it.")
            asked: list[str] = []
            while True:
                ended = await it.wait_end()
                outcome = msgspec.convert(ended["outcome"], dict[str, object])
                if outcome["type"] != "interrupt":
                    break
                waiting = msgspec.convert(outcome["interrupts"], list[dict[str, object]])
                asked += [str(each["message"]).split(" ", 1)[0] for each in waiting]
                await it.answer(*(str(each["id"]) for each in waiting))
            assert outcome == {"type": "success"}
            assert asked == ["Write", "Bash", "Edit", "Bash"]
    found, _, written, failed, fixed, passed = results(it.lines)
    assert SOURCE in str(found["output"])
    assert written["success"]
    assert not failed["success"]
    assert "1 failed" in str(failed["output"])
    assert fixed["success"]
    assert passed["success"]
    assert "1 passed" in str(passed["output"])
    assert source.read_text() == sound
    judge(it.lines)
