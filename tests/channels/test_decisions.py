"""Decisions in a chat: what would run is shown, an answer counts once, and all screens agree."""

import anyio

from roost.channels.domain.ports import Limits
from tests.channels.fakes import PERSON, FakeMessaging
from tests.channels.scenes import a_chat, a_scene
from tests.support.scenes import message, resume
from tests.support.time import HOUR, virtual_time

pytestmark = virtual_time


async def test_an_approval_shows_what_would_run_and_a_button_decides_it() -> None:
    async with a_chat() as scene:
        asked = await scene.says("ask to `rm -rf` <things> *now*")
        assert "ask to `rm -rf` <things> *now*" in asked.text
        assert asked.labels == ["✅ Approve", "🚫 Decline"]
        await scene.presses("Approve", asked)
        assert scene.talk().resumes == [[{"interruptId": "call-1-0", "status": "resolved"}]]
        assert "✅ Approved by Ada, here." in asked.text
        assert asked.labels == []
        assert scene.service.acknowledged[-1][1] == "Approved"
        assert scene.service.last().text == "went on"


async def test_characters_that_hide_what_would_run_are_shown_by_their_numbers() -> None:
    """One that turns the direction of writing makes a person approve another command."""
    async with a_chat() as scene:
        asked = await scene.says(
            "ask for echo \u202egpj.exe\u2066 \u200brm\x1b \U0001f469\u200d\U0001f680"
        )
        assert (
            "echo ⟨U+202E⟩gpj.exe⟨U+2066⟩ ⟨U+200B⟩rm⟨U+001B⟩ \U0001f469\u200d\U0001f680"
            in asked.text
        )


async def test_decline_is_a_cancelled_resume() -> None:
    async with a_chat() as scene:
        asked = await scene.says("ask for something")
        await scene.presses("Decline", asked)
        assert scene.talk().resumes == [[{"interruptId": "call-1-0", "status": "cancelled"}]]
        assert "🚫 Declined by Ada, here." in asked.text


async def test_all_interrupts_of_a_run_are_answered_by_one_input() -> None:
    """Half an answer would be refused, and the person would decide twice."""
    async with a_chat() as scene:
        await scene.says("ask two things")
        first, second = scene.service.chats[PERSON][-2:]
        await scene.presses("Approve", first)
        assert scene.talk().resumes == []
        assert "The agent waits for the rest." in first.text
        await scene.presses("Decline", second)
        (entries,) = scene.talk().resumes
        assert [entry["status"] for entry in entries] == ["resolved", "cancelled"]
        assert "Approved by Ada, here." in first.text
        assert "Declined by Ada, here." in second.text


async def test_a_reply_in_words_decides_too() -> None:
    """No, and anything that is not plainly a yes, declines; other words are the reason."""
    async with a_chat() as scene:
        for words, status, reason in (
            ("Yes.", "resolved", None),
            ("ok", "resolved", None),
            ("no", "cancelled", None),
            ("use the other folder", "cancelled", "use the other folder"),
        ):
            asked = await scene.says("ask for something")
            await scene.says(words, reply_to=asked.id)
            (entry,) = scene.talk().resumes[-1]
            assert entry["status"] == status
            assert entry.get("payload", {}).get("reason") == reason
        assert len(scene.talk().resumes) == 4


async def test_without_buttons_the_next_message_is_the_answer() -> None:
    service = FakeMessaging(Limits(buttons=False, edits=False, pause=1.0))
    async with a_chat(service=service) as scene:
        asked = await scene.says("ask for something")
        assert asked.labels == []
        await scene.says("approve")
        assert scene.talk().resumes[-1][0]["status"] == "resolved"
        await scene.says("ask again")
        await scene.says("no")
        assert scene.talk().resumes[-1][0]["status"] == "cancelled"
        assert "went on" in scene.service.texts()


async def test_what_was_decided_elsewhere_closes_here_and_says_what_and_where() -> None:
    async with a_chat() as scene:
        for status, words in (("resolved", "Approved"), ("cancelled", "Declined")):
            asked = await scene.says("ask for something")
            other = await scene.elsewhere()
            call = scene.talk().open_call
            other.sends(resume(call, status=status))
            await scene.settles()
            assert f"{words}, in the terminal." in asked.text
            assert asked.labels == []
            assert scene.registry.views()[0].answered_by == "the terminal"


async def test_a_question_answered_elsewhere_says_where() -> None:
    async with a_chat() as scene:
        await scene.says("question")
        colour, sizes = scene.service.chats[PERSON][-2:]
        other = await scene.elsewhere()
        other.sends(resume(scene.talk().open_call))
        await scene.settles()
        assert colour.text.endswith("☑️ Decided in the terminal.")
        assert sizes.text.endswith("☑️ Decided in the terminal.")


async def test_what_is_decided_in_a_chat_says_so_elsewhere() -> None:
    async with a_chat() as scene:
        asked = await scene.says("ask for something")
        await scene.presses("Approve", asked)
        assert scene.registry.views()[0].answered_by == "Telegram"


async def test_a_view_that_is_older_than_a_decision_does_not_close_it() -> None:
    """Beside a daemon, what is known of its threads may be seconds old: "idle" was before."""
    async with a_chat() as scene:
        await scene.says("hello")
        scene.daemon.looks_away()
        await scene.settles(1)
        asked = await scene.says("ask for something")
        assert asked.labels == ["✅ Approve", "🚫 Decline"]
        await scene.presses("Approve", asked)
        assert "✅ Approved by Ada, here." in asked.text


async def test_where_it_was_decided_is_said_once_it_is_known() -> None:
    """A view from before must not name who answered the decision before."""
    async with a_chat() as scene:
        first = await scene.says("ask for something")
        await scene.presses("Approve", first)
        scene.daemon.looks_away()
        await scene.settles(1)
        asked = await scene.says("ask again")
        other = await scene.elsewhere()
        other.sends(resume(scene.talk().open_call))
        await scene.settles()
        assert "Approved, elsewhere." in asked.text
        scene.daemon.looks_again()
        await scene.settles()
        assert "Approved, in the terminal." in asked.text
        assert "Approved by Ada, here." in first.text


async def test_a_press_that_comes_too_late_says_so() -> None:
    async with a_chat() as scene:
        asked = await scene.says("ask for something")
        buttons = asked.message
        await scene.presses("Approve", asked)
        asked.message = buttons  # a phone that was offline still shows them
        await scene.presses("Decline", asked)
        assert len(scene.talk().resumes) == 1
        said = scene.service.acknowledged[-1][1]
        assert "decided already" in said or "too old" in said


async def test_a_button_of_another_life_presses_nothing() -> None:
    """What was kept is lost, and numbers begin anew: an old button approves no new call."""
    async with a_scene() as scene:
        async with scene.channel():
            old = await scene.says("ask for something harmless")
        scene.disk.content = None
        scene.talk().suspended = None
        async with scene.channel():
            new = await scene.says("ask for something else")
            names = [name for seen in (old, new) for row in seen.message.buttons for _, name in row]
            assert len(set(names)) == 4
            await scene.presses("Approve", old)
            assert scene.talk().resumes == []
            assert "too old" in scene.service.acknowledged[-1][1]


async def test_a_question_has_its_options_as_buttons_and_takes_free_answers() -> None:
    async with a_chat() as scene:
        await scene.says("question")
        colour, sizes = scene.service.chats[PERSON][-2:]
        assert colour.labels == ["red", "blue", "Dismiss"]
        assert sizes.labels == ["small", "large", "Done", "Dismiss"]
        assert "small: S" in sizes.text
        await scene.presses("small", sizes)
        await scene.presses("large", sizes)
        assert sizes.labels[:2] == ["☑️ small", "☑️ large"]
        await scene.presses("large", sizes)
        await scene.presses("Done", sizes)
        assert scene.talk().resumes == []
        await scene.says("a deep green", reply_to=colour.id)
        ((entry,),) = scene.talk().resumes
        assert entry["status"] == "resolved"
        assert entry["payload"]["answers"] == [
            {
                "header": "Colour",
                "question": "Which colour?",
                "selectedLabels": [],
                "otherText": "a deep green",
            },
            {
                "header": "Sizes",
                "question": "Which sizes?",
                "selectedLabels": ["small"],
                "otherText": None,
            },
        ]
        assert "Answer: a deep green" in colour.text
        assert "Answer: small" in sizes.text


async def test_a_reply_that_is_an_option_chooses_it_and_done_needs_a_choice() -> None:
    async with a_chat() as scene:
        await scene.says("question")
        colour, sizes = scene.service.chats[PERSON][-2:]
        await scene.presses("Done", sizes)
        assert "Choose at least one" in scene.service.acknowledged[-1][1]
        await scene.says("BLUE", reply_to=colour.id)
        await scene.says("large", reply_to=sizes.id)
        answers = scene.talk().resumes[0][0]["payload"]["answers"]
        assert [answer["selectedLabels"] for answer in answers] == [["blue"], ["large"]]


async def test_a_dismissed_question_is_cancelled_for_all_of_it() -> None:
    async with a_chat() as scene:
        await scene.says("question")
        colour, sizes = scene.service.chats[PERSON][-2:]
        await scene.presses("Dismiss", sizes)
        assert scene.talk().resumes == [[{"interruptId": "call-1-0", "status": "cancelled"}]]
        assert colour.labels == sizes.labels == []


async def test_without_require_approval_a_chats_own_run_is_declined_unasked() -> None:
    async with a_chat(require_approval=False) as scene:
        await scene.says("ask for something")
        assert scene.talk().resumes == [[{"interruptId": "call-1-0", "status": "cancelled"}]]
        assert "Declined by the setting telegram.require_approval" in scene.seen("Bash waits").text


async def test_without_require_approval_a_run_of_the_desk_is_left_to_the_desk() -> None:
    async with a_chat(require_approval=False) as scene:
        await scene.says("hello")
        other = await scene.elsewhere()
        other.sends(message("ask from the desk", "u9"))
        await scene.settles()
        assert scene.talk().resumes == []
        assert scene.service.last().labels == ["✅ Approve", "🚫 Decline"]


async def test_a_watching_chat_gets_every_threads_decisions() -> None:
    """The inbox in the pocket."""
    async with a_chat() as scene:
        other = await scene.elsewhere("of-the-desktop")
        other.sends(message("ask before watching", "u1"))
        await scene.settles()
        await scene.says("hello")
        assert not any("before watching" in text for text in scene.service.texts())
        await scene.says("/watch")
        asked = scene.seen("before watching")
        assert "In project, conversation of-the-desktop" in asked.text
        await scene.presses("Approve", asked)
        assert scene.talk("of-the-desktop").resumes[0][0]["status"] == "resolved"
        assert "Approved by Ada, here." in asked.text
        assert "went on" not in scene.service.texts()  # its words are not this chat's
        await scene.says("/watch off")
        other.sends(message("ask afterwards", "u2"))
        await scene.settles()
        assert not any("ask afterwards" in text for text in scene.service.texts())


async def test_a_decision_waits_over_a_restart_and_is_not_asked_twice() -> None:
    async with a_scene() as scene:
        async with scene.channel():
            asked = await scene.says("ask for something")
        await anyio.sleep(8 * HOUR)
        async with scene.channel():
            await scene.settles()
            assert len([t for t in scene.service.texts() if "waits for your approval" in t]) == 1
            await scene.presses("Approve", asked)
            assert scene.talk().resumes[0][0]["status"] == "resolved"


async def test_a_decision_made_elsewhere_while_the_channel_was_off_is_closed_when_it_is_back() -> (
    None
):
    async with a_scene() as scene:
        async with scene.channel():
            asked = await scene.says("ask for something")
        other = await scene.elsewhere()
        other.sends(resume("call-1-0"))
        await scene.settles()
        async with scene.channel():
            await scene.settles()
            assert "Approved, in the terminal." in asked.text
            assert asked.labels == []


async def test_a_long_call_is_shown_in_full_as_a_file_with_the_buttons() -> None:
    async with a_chat() as scene:
        text = "ask " + "x" * 3000 + " the end"
        asked = await scene.says(text)
        assert asked.message.file is not None
        assert asked.message.file.text is not None
        assert text in asked.message.file.text
        assert "in the file" in asked.text
        assert asked.labels == ["✅ Approve", "🚫 Decline"]
        await scene.presses("Approve", asked)
        assert "Approved by Ada, here." in asked.text
