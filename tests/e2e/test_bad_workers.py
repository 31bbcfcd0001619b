"""Worker commands that misbehave, behind a real daemon: one clear answer, and it goes on."""

import json
import os
import shlex
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from roost.demo.client import TourClient
from tests.e2e.test_main_job import Place, a_place

SCRIPTED = str(Path(__file__).parents[1] / "support/workers/scripted.py")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def command(*words: str) -> str:
    return shlex.join([sys.executable, SCRIPTED, *words])


async def error_of(client: TourClient, since: int = 0) -> dict[str, Any]:
    return await client.until("RUN_ERROR", since=since)


async def asks(place: Place, client: TourClient) -> int:
    mark = len(client.events)
    await client.send(type="resume_conversation", project_dir=str(place.project), id="c1")
    return mark


async def still_serves(place: Place) -> None:
    """Another client is let in and answered."""
    async with place.client("another") as client:
        await client.send(type="resume_conversation", project_dir="relative", id="x")
        assert "absolute path" in (await error_of(client))["message"]
    assert isinstance(await place.daemon.threads(), list)


async def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    async with a_place(tmp_path, ROOST_WORKER__COMMAND="/no/such/worker") as place:
        async with place.client("c") as client:
            error = await error_of(client, await asks(place, client))
            assert "/no/such/worker" in error["message"]
            assert str(place.project) in error["message"]
            assert "runId" not in error
        await still_serves(place)


async def test_a_project_dir_that_does_not_exist_is_named(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        async with place.client("c") as client:
            await client.send(type="new_session", project_dir="/no/such/project")
            error = await error_of(client)
            assert "/no/such/project" in error["message"]
            assert "does not exist" in error["message"]
            file = place.project / "file"
            file.write_text("")
            mark = len(client.events)
            await client.send(type="new_session", project_dir=str(file))
            assert "is no folder" in (await error_of(client, mark))["message"]
        await still_serves(place)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("exits-at-once",), "exited with code 3"),
        (("rubbish",), "exited with code 0"),
        (("half-a-line",), "SIGKILL"),
        (("grandchild-holds-the-pipe",), "SIGKILL"),
    ],
)
async def test_a_worker_that_ends_before_it_answered_is_told_at_once(
    tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    async with a_place(tmp_path, ROOST_WORKER__COMMAND=command(*words)) as place:
        async with place.client("c") as client:
            error = await error_of(client, await asks(place, client))
            assert says in error["message"]
            assert "runId" not in error
            for event in client.events:
                if event["type"] == "CHILD":
                    with suppress(ProcessLookupError):
                        os.kill(event["pid"], signal.SIGKILL)
        await still_serves(place)


async def test_a_worker_that_does_not_read_is_ended(tmp_path: Path) -> None:
    """Its full pipe blocks nobody: the daemon answers others meanwhile."""
    async with a_place(tmp_path, ROOST_WORKER__COMMAND=command("deaf")) as place:
        async with place.client("c") as client:
            mark = await asks(place, client)
            message = {"id": "m", "role": "user", "content": "x" * 300_000}
            await client.send(type="run_agent_input", input={"messages": [message]})
            await still_serves(place)
            error = await error_of(client, mark)
            assert "did not read its input" in error["message"]
        await still_serves(place)


async def test_a_foreign_worker_that_speaks_the_protocol_is_relayed_byte_for_byte(
    tmp_path: Path,
) -> None:
    """Any program can be a worker; its odd spelling reaches clients as it is."""
    script = tmp_path / "worker.py"
    script.write_text(
        "import sys\n"
        "for line in sys.stdin:\n"
        "    if 'resume_conversation' in line:\n"
        '        print(\'{"messages":[ ], "type":"MESSAGES_SNAPSHOT"}\', flush=True)\n'
        "    elif 'run_agent_input' in line:\n"
        '        print(\'{"type":"RUN_STARTED","threadId":"c1","runId":"r1"}\')\n'
        '        print(\'{"type":"CUSTOM", "name":"n","value":1E2}\')\n'
        '        print(\'{"type":"RUN_FINISHED","threadId":"c1","runId":"r1"}\', flush=True)\n'
    )
    worker = json.dumps([sys.executable, str(script)])
    async with (
        a_place(tmp_path, ROOST_WORKER__COMMAND=worker) as place,
        place.client("c") as client,
    ):
        mark = await asks(place, client)
        await client.until("MESSAGES_SNAPSHOT", since=mark)
        mark = await client.say("go", "m1")
        await client.until("RUN_FINISHED", since=mark)
        assert '{"messages":[ ], "type":"MESSAGES_SNAPSHOT"}' in client.frames
        assert '{"type":"CUSTOM", "name":"n","value":1E2}' in client.frames


async def test_a_history_that_is_cut_or_has_a_bad_line_opens_with_the_rest(
    tmp_path: Path,
) -> None:
    async with a_place(tmp_path) as place, place.client("c") as client:
        await place.opens(client)
        for number in range(3):
            mark = await client.say(f"slow {number + 1}", f"m{number}")
            await client.until("RUN_FINISHED", since=mark)
        await client.send(type="stop_thread", project_dir=str(place.project), id="c1")
        await place.daemon.until_status("c1", "stopped")
        path = place.home.conversations(str(place.project)) / "c1.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        bad = len(lines) // 2
        path.write_bytes(
            b"".join(lines[:bad]) + b"this is no entry\n" + b"".join(lines[bad:]) + b'{"id":"cu'
        )
        start = await place.opens(client)
        kept = client.events[start]["messages"]
        assert [m["id"] for m in kept if m["role"] == "user"] == ["m0", "m1", "m2"]
        mark = await client.say("slow 1", "m9")
        await client.until("RUN_FINISHED", since=mark)
        assert b"this is no entry\n" in path.read_bytes()
