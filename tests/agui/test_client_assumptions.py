"""What the real desktop apps and browser extensions take for granted, one test per assumption.

Each is named after what would break for their users. Real registry, relay and port, and our own
worker as a real process.
"""

import os
import signal
from pathlib import Path

import pytest

from agui.settings import BindingSettings
from tests.agui.real import a_real_daemon, decoded, end_of_run, settled
from tests.agui.scenes import ACK, answered, binding, closing, hello, pinged, said


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


@pytest.mark.parametrize("kind", ["desktop", "browser"])
async def test_1_a_desktop_that_does_not_hear_of_the_extension_first_shows_no_browser(
    kind: str,
) -> None:
    async with binding() as scene, scene.dial() as socket:
        await socket.send(hello(client=kind))
        await said(socket)
        assert '"browser_extension_status"' in await said(socket)


async def test_2_a_desktop_refuses_a_daemon_whose_ack_is_not_version_2() -> None:
    async with binding() as scene, scene.dial() as socket:
        await socket.send(hello(client="desktop"))
        assert await said(socket) == ACK
        assert decoded(ACK) == {"type": "browser_hello_ack", "protocol_version": 2}


async def test_3_a_desktop_could_start_no_chat_if_its_own_ids_were_unknown(tmp_path: Path) -> None:
    """It never sends new_session: it invents an id and resumes it."""
    async with a_real_daemon(tmp_path) as daemon, daemon.client() as desktop:
        start = await daemon.follows(desktop, "0b0e9c1e-never-seen", max_turns=50)
        assert desktop.events[start]["messages"] == []


async def test_4_a_desktop_gives_up_a_busy_thread_whose_snapshot_does_not_come(
    tmp_path: Path,
) -> None:
    async with a_real_daemon(tmp_path) as daemon, daemon.client() as one, daemon.client() as two:
        await daemon.follows(one)
        mark = await one.say("slow 1000", "m1")
        await one.until("TEXT_MESSAGE_CONTENT", since=mark)
        start = await daemon.follows(two)
        assert start == 2, "nothing of the run may come before the snapshot"
        await one.send(type="interrupt")
        await end_of_run(one, mark, "cancelled")

        mark = await one.say("run echo hi", "m2")
        await end_of_run(one, mark, "interrupt")
        async with daemon.client() as three:
            start = await daemon.follows(three)
            await end_of_run(three, start, "interrupt")
            assert [e["type"] for e in three.events[2:4]] == ["MESSAGES_SNAPSHOT", "RUN_FINISHED"]


async def test_5_a_chat_spins_for_ever_or_stops_too_soon_if_run_errors_lose_their_run(
    tmp_path: Path,
) -> None:
    """With runId the turn has failed; without one it goes on."""
    async with a_real_daemon(tmp_path) as daemon, daemon.client() as client:
        await client.send(type="resume_conversation", project_dir="not/absolute", id="c1")
        bare = await client.until("RUN_ERROR", since=0)
        assert "runId" not in bare
        await daemon.follows(client)
        mark = await client.say("slow 1000", "m1")
        started = await client.until("RUN_STARTED", since=mark)
        (view,) = daemon.registry.views()
        assert view.worker_pid is not None
        os.kill(view.worker_pid, signal.SIGKILL)
        error = await client.until("RUN_ERROR", since=mark)
        assert error["runId"] == started["runId"]


async def test_6_an_approval_card_without_its_call_has_no_name_and_no_arguments(
    tmp_path: Path,
) -> None:
    async with a_real_daemon(tmp_path) as daemon, daemon.client() as client:
        await daemon.follows(client)
        mark = await client.say("run echo hi", "m1")
        end = await end_of_run(client, mark, "interrupt")
        (interrupt,) = end["outcome"]["interrupts"]
        before = client.events[mark : client.events.index(end)]
        calls = [e for e in before if e["type"] == "TOOL_CALL_START"]
        assert interrupt["id"] == interrupt["toolCallId"] == calls[0]["toolCallId"]
        assert interrupt["reason"] == "tool_call"
        assert calls[0]["toolCallName"]


async def test_7_cards_stay_on_the_other_screens_unless_the_continuation_starts_a_run(
    tmp_path: Path,
) -> None:
    async with a_real_daemon(tmp_path) as daemon, daemon.client() as one, daemon.client() as two:
        await daemon.follows(one)
        await daemon.follows(two)
        mark = await one.say("run echo hi", "m1")
        end = await end_of_run(two, 0, "interrupt")
        await end_of_run(one, mark, "interrupt")
        after = two.events.index(end) + 1
        await one.answer(end["outcome"]["interrupts"][0]["id"], "resolved")
        await end_of_run(two, after)
        assert two.events[after]["type"] == "RUN_STARTED"
        assert two.events[after]["runId"] != end["runId"]
        assert [e for e in two.events if e["type"] == "CUSTOM"] == []


async def test_8_a_client_that_keeps_itself_awake_with_pings_must_not_be_answered_or_cut(
    tmp_path: Path,
) -> None:
    async with a_real_daemon(tmp_path) as daemon, daemon.client("extension") as client:
        await client.send(type="ping")
        await client.send(type="PING")
        await client.send(type="something_new", project_dir=7)
        await daemon.follows(client)
        mark = await client.say("run echo hi", "m1")
        await end_of_run(client, mark, "interrupt")
        kinds = [event["type"] for event in client.events]
        assert kinds[:2] == ["browser_hello_ack", "MESSAGES_SNAPSHOT"]
        assert all(kind.isupper() for kind in kinds[1:])


async def test_9_an_extension_would_show_another_clients_list(tmp_path: Path) -> None:
    async with (
        a_real_daemon(tmp_path) as daemon,
        daemon.client("extension") as asks,
        daemon.client() as other,
    ):
        await daemon.follows(other)
        for kind in ("list_conversations", "list_history", "list_skills", "list_models"):
            await asks.send(type=kind, project_dir=str(daemon.project))
        for kind in ("conversations", "history", "skills", "models"):
            await asks.until(kind, since=0)
        await settled(other)
        assert {e["type"] for e in other.events if e["type"].islower()} == {
            "browser_hello_ack",
            "browser_extension_status",
            "command_result",
        }
        assert len(daemon.registry.views()) == 1, "the worker that was there has answered"


async def test_10_lists_in_another_order_show_old_chats_first_and_the_wrong_model(
    tmp_path: Path,
) -> None:
    async with a_real_daemon(tmp_path) as daemon, daemon.client() as client:
        project_dir = str(daemon.project)
        for id_, text in (("old", "first words"), ("new", "last words")):
            await daemon.follows(client, id_)
            await end_of_run(client, await client.say(text, f"m-{id_}"))
        await client.send(type="list_conversations", project_dir=project_dir)
        listed = (await client.until("conversations", since=0))["conversations"]
        assert [entry["id"] for entry in listed] == ["new", "old"]
        assert set(listed[0]) == {"id", "title", "updated_at", "message_count"}
        await client.send(type="list_history", project_dir=project_dir)
        assert (await client.until("history", since=0))["history"] == ["first words", "last words"]
        await client.send(type="list_models", project_dir=project_dir)
        models = await client.until("models", since=0)
        assert models["models"][0] == models["current"]


async def test_11_a_model_menu_waits_for_the_mode_that_follows_the_models(tmp_path: Path) -> None:
    async with a_real_daemon(tmp_path) as daemon, daemon.client() as client:
        await daemon.follows(client)
        mark = len(client.events)
        await client.send(type="select_model", model="demo:scripted")
        await client.until("mode", since=mark)
        await client.send(type="set_mode", mode="plan")
        mode = await client.until("mode", since=mark + 2)
        assert [e["type"] for e in client.events[mark:]] == ["models", "mode", "mode"]
        assert mode["mode"] == "plan"


async def test_12_arguments_that_are_not_text_break_every_tool_row(tmp_path: Path) -> None:
    async with a_real_daemon(tmp_path) as daemon, daemon.client() as client:
        await daemon.follows(client)
        mark = await client.say("run echo hi", "m1")
        await end_of_run(client, mark, "interrupt")
        deltas = [e["delta"] for e in client.events[mark:] if e["type"] == "TOOL_CALL_ARGS"]
        assert decoded("".join(deltas))["command"] == "echo hi"
        await client.send(
            type="tool_request", id="t1", tool_name="Bash", tool_args='{"command":"echo no"}'
        )
        asked = await client.until("CUSTOM", since=mark)
        assert asked["name"] == "approval_request"
        assert asked["value"]["tool_call_id"] == "t1"
        assert decoded(asked["value"]["tool_args"]) == {"command": "echo no"}
        await client.send(type="approval_response", tool_call_id="t1", approved=False)
        result = await client.until("tool_result", since=mark)
        assert set(result) == {"type", "id", "success", "output", "error"}
        assert (result["id"], result["success"]) == ("t1", False)


async def test_13_a_result_that_is_no_json_text_shows_every_tool_as_failed(tmp_path: Path) -> None:
    async with a_real_daemon(tmp_path) as daemon, daemon.client() as client:
        await daemon.follows(client, mode="auto")
        mark = await client.say("run echo hi", "m1")
        result = await client.until("TOOL_CALL_RESULT", since=mark)
        assert decoded(result["content"])["success"] is True
        await end_of_run(client, mark)
        start = await daemon.follows(client)
        (tool,) = [m for m in client.events[start]["messages"] if m["role"] == "tool"]
        assert decoded(tool["content"])["success"] is True


async def test_14_a_frame_before_the_close_would_hide_the_hint_to_check_the_token() -> None:
    async with binding() as scene, scene.dial() as socket:
        await socket.send(hello(token="wrong"))
        assert await closing(socket) == ([], None)


async def test_15_a_quiet_client_that_answers_pings_must_not_be_cut_off() -> None:
    interval = BindingSettings(token="t").ping_interval
    assert interval == 20
    async with binding() as scene, scene.client() as quiet:
        client = await scene.known(quiet)
        for _ in range(10):
            await pinged(client, interval)
            await answered(client)
        client.deliver(b'"still here"', None)
        assert await said(quiet) == '"still here"'
