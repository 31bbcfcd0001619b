"""The sessions of a desktop-like and an extension-like client, frame by frame.

See tests/golden/README.md for what these are, and what they do not prove.
"""

import json
from pathlib import Path

import anyio
import pytest

from tests.agui.real import a_real_daemon
from tests.agui.scenes import TOKEN
from tests.agui.transcripts import Transcript, check


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


async def test_a_desktop_app(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A chat with a question in it, an approval, a model and a mode, a stop, and pings."""
    async with (
        a_real_daemon(tmp_path) as daemon,
        daemon.client("desktop", extension_version="1.0.0") as client,
    ):
        told = Transcript(client, daemon.project, TOKEN)
        await told.hears("browser_extension_status")
        await told.sends(
            type="resume_conversation",
            project_dir=str(daemon.project),
            id="desktop-chat-1",
            max_turns=50,
            mode="standard",
            sandbox_directories=["."],
        )
        await told.hears("MESSAGES_SNAPSHOT")
        await told.sends(type="select_model", model="demo:scripted")
        await told.hears("mode")
        await told.sends(type="set_mode", mode="standard")
        await told.hears("mode")
        await told.sends(
            type="run_agent_input",
            input={
                "threadId": "desktop-chat-1",
                "runId": "11111111-1111-4111-8111-111111111111",
                "messages": [{"id": "user-1", "role": "user", "content": "run echo hello"}],
            },
        )
        end = await told.hears("RUN_FINISHED")
        await told.sends(type="ping")
        (waiting,) = end["outcome"]["interrupts"]
        await told.sends(
            type="run_agent_input",
            input={
                "messages": [],
                "resume": [{"interruptId": waiting["id"], "status": "resolved"}],
            },
        )
        await told.hears("RUN_FINISHED")
        await told.sends(
            type="run_agent_input",
            input={"messages": [{"id": "user-2", "role": "user", "content": "run echo no"}]},
        )
        end = await told.hears("RUN_FINISHED")
        (waiting,) = end["outcome"]["interrupts"]
        await told.sends(
            type="run_agent_input",
            input={
                "messages": [],
                "resume": [{"interruptId": waiting["id"], "status": "cancelled"}],
            },
        )
        await told.hears("RUN_FINISHED")
        await told.sends(
            type="resume_conversation", project_dir=str(daemon.project), id="desktop-chat-1"
        )
        await told.hears("MESSAGES_SNAPSHOT")
        await told.sends(type="resume_conversation", project_dir="not/absolute", id="x")
        await told.hears("RUN_ERROR")
        await told.sends(type="stop_thread", project_dir=str(daemon.project), id="desktop-chat-1")
        check(request, "desktop", told.lines())


async def test_a_browser_extension(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Lists, a new chat that does not wait for its snapshot, a tool request, a browser command."""
    (tmp_path / "answers").mkdir()
    async with (
        a_real_daemon(tmp_path) as daemon,
        daemon.client("extension", extension_version="2.0.0") as client,
    ):
        project = str(daemon.project)
        told = Transcript(client, daemon.project, TOKEN)
        await told.hears("browser_hello_ack")
        for asked, reply in (
            ("list_conversations", "conversations"),
            ("list_skills", "skills"),
            ("list_models", "models"),
            ("list_history", "history"),
        ):
            await told.sends(type=asked, project_dir=project)
            await told.hears(reply)
        await told.sends(type="new_session", project_dir=project)
        message = {"id": "user-1", "role": "user", "content": "hello"}
        await told.sends(type="run_agent_input", input={"messages": [message]})
        started = await told.hears("RUN_STARTED")
        await told.hears("RUN_FINISHED")
        await told.sends(type="list_conversations", project_dir=project)
        listed = await told.hears("conversations")
        assert [entry["id"] for entry in listed["conversations"]] == [started["threadId"]]
        await told.sends(
            type="tool_request",
            id="tool-1",
            tool_name="Bash",
            tool_args=json.dumps({"command": "echo from the panel"}),
        )
        await told.hears("CUSTOM")
        await told.sends(type="approval_response", tool_call_id="tool-1", approved=True)
        await told.hears("tool_result")

        answers: list[bytes] = []

        async def ask_browser() -> None:
            command = {"type": "browser_command", "id": "browser-1", "action": "tabs"}
            answers.append(await daemon.relay.forward(json.dumps(command).encode()))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_browser)
            command = await told.hears("browser_command")
            await told.sends(
                type="browser_result",
                id=command["id"],
                url="https://a.example",
                title="A",
                content="",
                events=[],
                error="",
                tabs=[{"index": 0, "url": "https://a.example", "title": "A", "active": True}],
            )
        assert json.loads(answers[0])["tabs"]

        await told.sends(type="resume_conversation", project_dir=project, id=started["threadId"])
        await told.hears("MESSAGES_SNAPSHOT")
        await told.sends(type="ping")
        check(request, "extension", told.lines())
