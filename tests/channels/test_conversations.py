"""The conversation of a chat: where it is, how it is changed, and that it survives restarts."""

import anyio
import pytest

from sessions.domain.keys import ThreadKey
from tests.channels.fakes import PERSON
from tests.channels.scenes import PROJECT, Scene, a_chat, a_scene
from tests.support.scenes import message
from tests.support.time import HOUR, MINUTE, virtual_time

pytestmark = virtual_time


def nowhere(path: str) -> bool:
    return False


def conversations(scene: Scene) -> list[str]:
    return [key.conversation_id for key in scene.agents.talks]


async def test_a_message_goes_to_the_agent_and_its_answer_comes_back() -> None:
    async with a_chat() as scene:
        await scene.says("hello")
        assert scene.service.texts() == ["answer to hello"]


async def test_the_conversation_survives_a_restart() -> None:
    async with a_scene() as scene:
        for text in ("one", "two"):
            async with scene.channel():
                await scene.says(text)
        assert conversations(scene) == [f"test-{PERSON}"]
        assert scene.service.texts() == ["answer to one", "answer to two"]


async def test_new_begins_another_conversation_and_the_old_one_is_listed() -> None:
    async with a_chat() as scene:
        await scene.says("one")
        number = scene.service.next_id
        shown = await scene.says("/new")
        assert "new conversation" in shown.text
        await scene.says("two")
        assert conversations(scene) == [f"test-{PERSON}", f"test-{PERSON}-{number}"]
        assert scene.talk().taken == ["one"]
        menu = await scene.says("/conversations")
        assert f"About test-{PERSON}" in menu.labels


async def test_new_survives_a_restart_too() -> None:
    async with a_scene() as scene:
        async with scene.channel():
            await scene.says("/new")
        async with scene.channel():
            await scene.says("two")
        assert f"test-{PERSON}" not in conversations(scene)


async def test_a_button_leads_back_with_the_last_words_and_not_the_whole_past() -> None:
    async with a_chat() as scene:
        await scene.says("one")
        await scene.says("two" + " and more" * 60)
        await scene.says("/new")
        await scene.says("three")
        menu = await scene.says("/conversations")
        before = len(scene.service.texts())
        await scene.presses(f"About test-{PERSON}", menu)
        told = scene.service.texts()[before:]
        assert any("last words there: answer to two" in text for text in told)
        assert all(len(text) < 260 for text in told)
        assert not any("answer to one" in text for text in told)
        await scene.says("four")
        assert scene.talk().taken[-1] == "four"


async def test_an_id_prefix_leads_back_too_and_a_wrong_one_is_said_to_be_wrong() -> None:
    async with a_chat() as scene:
        await scene.says("one")
        await scene.says("/new")
        shown = await scene.says("/conversations nothing-like-it")
        assert "No conversation begins with nothing-like-it" in shown.text
        await scene.says(f"/conversations test-{PERSON}")
        await scene.says("two")
        assert scene.talk().taken == ["one", "two"]


async def test_a_message_while_the_agent_is_busy_is_queued_and_the_chat_is_told() -> None:
    async with a_chat() as scene:
        scene.agents.slow = 30.0
        scene.service.writes("one")
        await anyio.sleep(10)
        scene.service.writes("two")
        await anyio.sleep(5)
        assert any(text.startswith("Queued") for text in scene.service.texts())
        await scene.settles(120)
        assert scene.talk().taken == ["one", "two"]
        assert scene.service.last().text == "answer to two"


async def test_a_message_while_a_decision_is_open_is_kept_and_the_chat_is_told() -> None:
    async with a_chat() as scene:
        await scene.says("ask for something")
        await scene.says("by the way")
        scene.seen("once you have decided")


async def test_unknown_commands_are_for_the_agent() -> None:
    async with a_chat() as scene:
        await scene.says("/stats 7d")
        await scene.says("/New@other_bot")
        await scene.says("/review@roost_bot please")
        assert scene.talk().taken == ["/stats 7d", "/review@roost_bot please"]


async def test_a_command_may_name_this_bot() -> None:
    async with a_chat() as scene:
        await scene.says("/help@roost_bot")
        scene.seen("/new: Begin a new conversation")


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("/start", "Write to the agent"),
        ("/clear", "/new begins a new conversation"),
        ("/stop", "Nothing runs."),
        ("/threads", "Nothing runs, and nothing waits"),
        ("/project", f"works in {PROJECT}"),
        ("/project somewhere", "begins with /"),
        ("/watch", "Every thread's decisions come here"),
        ("/model openai:x", "The model is openai:x."),
        ("/mode plan", "Mode: plan."),
        ("/status", f"Folder: {PROJECT}"),
    ],
)
async def test_commands_answer(command: str, part: str) -> None:
    async with a_chat() as scene:
        await scene.says("hello")
        await scene.says(command)
        scene.seen(part)


async def test_without_a_folder_the_chat_says_how_to_choose_one() -> None:
    async with a_chat(project=None) as scene:
        shown = await scene.says("hello")
        assert "/project /path/to/folder" in shown.text
        await scene.says("/project /work/other")
        await scene.says("hello")
        talks = {key.project_dir: talk.taken for key, talk in scene.agents.talks.items()}
        assert talks == {"/work/other": ["hello"]}


async def test_a_folder_that_does_not_exist_is_not_chosen() -> None:
    async with a_chat(is_folder=nowhere) as scene:
        shown = await scene.says("/project /nowhere")
        assert "There is no folder /nowhere" in shown.text
        await scene.says("hello")
        assert [key.project_dir for key in scene.agents.talks] == [PROJECT]


async def test_a_model_and_a_mode_are_chosen_by_buttons() -> None:
    async with a_chat() as scene:
        await scene.says("hello")
        menu = await scene.says("/model")
        assert menu.labels == ["openai:gpt-5"]
        await scene.presses("openai:gpt-5", menu)
        menu = await scene.says("/mode")
        await scene.presses("plan", menu)
        asked = [(f["type"], f.get("model") or f.get("mode")) for f in scene.agents.frames]
        assert ("select_model", "openai:gpt-5") in asked
        assert ("set_mode", "plan") in asked


async def test_threads_lists_what_runs_or_waits_anywhere_and_a_button_follows_it() -> None:
    async with a_chat() as scene:
        other = await scene.elsewhere("of-the-desktop")
        other.sends(message("ask for much", "u1"))
        await scene.settles()
        menu = await scene.says("/threads")
        assert "of-the-desktop: waits for 1 decision" in menu.text
        await scene.presses("of-the-desktop", menu)
        assert "ask for much" in scene.seen("waits for your approval").text


async def test_stop_ends_what_runs() -> None:
    async with a_chat() as scene:
        scene.agents.slow = 50.0
        scene.service.writes("one")
        await anyio.sleep(10)
        scene.service.writes("/stop")
        await scene.settles(120)
        assert "interrupt" in [frame["type"] for frame in scene.agents.frames]


async def test_a_thread_is_left_after_ten_quiet_minutes_so_that_its_worker_can_end() -> None:
    async with a_chat() as scene:
        await scene.says("hello")
        await anyio.sleep(8 * MINUTE)
        assert scene.registry.views()[0].followers == 1
        await anyio.sleep(2 * MINUTE)
        assert scene.registry.views()[0].followers == 0
        await anyio.sleep(HOUR)
        assert scene.agents.running == {}
        await scene.says("back again")
        assert scene.service.last().text == "answer to back again"


async def test_what_another_client_makes_the_thread_say_is_shown_also_after_that() -> None:
    async with a_chat() as scene:
        await scene.says("hello")
        await anyio.sleep(HOUR)
        other = await scene.elsewhere()
        other.sends(message("from the desk", "u9"))
        await scene.settles()
        assert scene.service.last().text == "answer to from the desk"


async def test_what_was_said_while_the_channel_was_off_is_shown_when_it_is_back() -> None:
    async with a_scene() as scene:
        async with scene.channel():
            await scene.says("hello")
        other = await scene.elsewhere()
        other.sends(message("overnight", "u9"))
        await scene.settles()
        async with scene.channel():
            await scene.says("good morning")
        shown = scene.service.texts()
        assert shown == ["answer to hello", "answer to overnight", "answer to good morning"]


async def test_a_failed_run_is_told_as_text() -> None:
    async with a_chat() as scene:
        shown = await scene.says("fail please")
        assert shown.text == "⚠️ The model said no."


async def test_a_chat_can_have_a_folder_of_its_own() -> None:
    async with a_scene() as scene:
        async with scene.channel() as channel:
            channel.projects = {PERSON: "/work/of-its-own"}
            await scene.says("hello")
        assert list(scene.agents.talks) == [ThreadKey.parse("/work/of-its-own", f"test-{PERSON}")]
