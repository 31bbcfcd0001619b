"""A whole worker process on a real provider package, against a local server."""

from pathlib import Path

import msgspec
import pytest

from tests.agent.support.judge import judge
from tests.agent.support.openai_server import Refusal, Stream, openai_server, text, tool_call
from tests.agent.support.worker_process import a_place, worker

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_worker_takes_a_real_models_path_from_call_to_answer_to_error(
    tmp_path: Path,
) -> None:
    replies = (
        tool_call("call_1", "Read", '{"path":', ' "a.txt"}'),
        text("It says ", "alpha."),
        tool_call("call_1", "Bash", '{"command": "echo hi"}'),
        text("Done."),
        Refusal(401, f"Incorrect API key provided: {KEY}"),
        Stream(({"content": "half"},), breaks=True),
    )
    with openai_server(*replies) as server:
        place = a_place(
            tmp_path,
            ROOST_AGENT__MODEL="openai:local",
            ROOST_PROVIDERS__OPENAI__BASE_URL=server.url,
            ROOST_PROVIDERS__OPENAI__API_KEY=KEY,
        )
        (place.project / "a.txt").write_text("alpha")
        async with worker(place) as it:
            await it.ask("what is in a.txt?", "m1")
            assert (await it.wait_end())["outcome"] == {"type": "success"}
            await it.ask("say hi", "m2")
            suspended = await it.wait_end()
            outcome = msgspec.convert(suspended["outcome"], dict[str, object])
            [interrupt] = msgspec.convert(outcome["interrupts"], list[dict[str, object]])
            # The server numbered this call like the first one; ours has an id of its own.
            assert interrupt["id"] != "call_1"
            await it.answer(str(interrupt["id"]))
            finished = await it.wait_end()
            assert finished["usage"] == [
                {
                    "provider": "openai",
                    "model": "local",
                    "inputTokens": 11,
                    "outputTokens": 7,
                    "totalTokens": 18,
                }
            ]
            await it.ask("again", "m3")
            refused = await it.wait_end()
            assert "OPENAI_API_KEY" in str(refused["message"])
            await it.ask("and again", "m4")
            cut = await it.wait_end()
            assert cut["code"] == "model_cut"
            assert (await it.snapshot())[-1]["content"] == "half"
            assert await it.end_stdin() == 0
        everything = b"".join(it.raw) + bytes(it.stderr) + place.history().read_bytes()
        assert KEY.encode() not in everything
        assert b"Traceback" not in everything
        sent = server.requests[3]["messages"]
        assert '"success":true' in sent[-1]["content"]
    judge(it.lines)
