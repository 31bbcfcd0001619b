"""The chat on a screen, through the terminal library's own pilot: keys in, characters out."""

import json
from typing import Any

import msgspec
import pytest
from textual.events import Paste

from connection.events import (
    Closed,
    ConnectionStatus,
    SessionReplaced,
    SessionResynced,
    SessionStatus,
)
from connection.failures import CommandRefused
from connection.shapes import (
    Answer,
    MessagesPage,
    QueuedMessage,
    QueueMutation,
    Replay,
    SessionSummary,
    Window,
)
from roost.chat.widgets.composer import Composer
from tests.chat.fakes import FakeConnection, Screen, a_chat, event, snapshot, state


def user(number: int, text: str) -> dict[str, Any]:
    return {"id": f"u{number}", "role": "user", "content": text}


async def suspended(screen: Screen, *interrupts: dict[str, Any], **arguments: str) -> None:
    """A run that waits: its calls by id and arguments."""
    events = [event("RUN_STARTED", runId="r")]
    for call_id, given in arguments.items():
        name = "AskUserQuestion" if "questions" in given else "Bash"
        events.append(event("TOOL_CALL_START", toolCallId=call_id, toolCallName=name))
        events.append(event("TOOL_CALL_ARGS", toolCallId=call_id, delta=given))
        events.append(event("TOOL_CALL_END", toolCallId=call_id))
    outcome = {"type": "interrupt", "interrupts": list(interrupts)}
    await screen.says(*events, event("RUN_FINISHED", runId="r", outcome=outcome))


def approval(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "reason": "tool_call", "toolCallId": call_id}


def question(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "reason": "input_required", "toolCallId": call_id}


async def test_words_appear_as_they_come() -> None:
    async with a_chat() as screen:
        await screen.says(
            event("RUN_STARTED", runId="r", input={"messages": [user(1, "hello there")]}),
            event("TEXT_MESSAGE_START", messageId="a", role="assistant"),
            event("TEXT_MESSAGE_CONTENT", messageId="a", delta="Good **mor"),
        )
        assert "> hello there" in screen.shown()
        assert "running" in screen.shown()
        await screen.says(event("TEXT_MESSAGE_CONTENT", messageId="a", delta="ning** to you"))
        assert "Good morning to you" in screen.shown()
        await screen.says(event("RUN_FINISHED", runId="r", outcome={"type": "success"}))
        assert "ready" in screen.shown()
        assert "m:1" in screen.shown()


async def test_what_a_model_writes_is_no_markup_and_angle_brackets_stay() -> None:
    first = snapshot(
        user(1, "[bold red]not mine[/]"),
        {"id": "a", "role": "assistant", "content": "use <b>this</b> and [link](x) \x1b[2J"},
    )
    async with a_chat(FakeConnection(first)) as screen:
        assert "[bold red]not mine[/]" in screen.shown()
        assert "use <b>this</b> and link" in screen.shown()


async def test_events_that_the_snapshot_covers_are_not_shown_twice() -> None:
    first = snapshot({"id": "a", "role": "assistant", "content": "abc"}, sequence=0)
    connection = FakeConnection(msgspec.structs.replace(first))
    async with a_chat(connection) as screen:
        growing = event("TEXT_MESSAGE_START", messageId="a", role="assistant")
        ahead = snapshot(
            {"id": "a", "role": "assistant", "content": "abcd"}, events=[growing], sequence=2
        )
        await screen.tells(SessionResynced(ahead, Replay(status="complete")))
        await screen.says(
            event("TEXT_MESSAGE_CONTENT", messageId="a", delta="c"),
            event("TEXT_MESSAGE_CONTENT", messageId="a", delta="d"),
            event("TEXT_MESSAGE_CONTENT", messageId="a", delta="e"),
        )
        assert "abcde" in screen.shown()


async def test_a_message_is_sent_and_comes_back_when_it_could_not_be() -> None:
    async with a_chat() as screen:
        await screen.types("hello")
        assert screen.connection.asked == [("prompt", "hello")]
        assert not screen.app.query_one(Composer).text
        screen.connection.fails["prompt"] = CommandRefused("history", "the disk is full")
        await screen.types("again")
        assert screen.app.query_one(Composer).text == "again"
        assert "the disk is full" in screen.shown()


async def test_several_lines_and_what_was_written_before() -> None:
    async with a_chat(FakeConnection(snapshot(user(1, "first"), user(2, "second")))) as screen:
        composer = screen.app.query_one(Composer)
        await screen.presses("a", "ctrl+j", "b", "enter")
        assert screen.connection.asked == [("prompt", "a\nb")]
        await screen.presses("x", "up")
        assert composer.text == "a\nb"
        await screen.presses("up", "up", "up", "up")
        assert composer.text == "first"
        await screen.presses("down", "down", "down", "down", "down")
        assert composer.text == "x"


async def test_what_is_pasted_is_one_message_with_all_of_its_lines() -> None:
    pasted = "\n".join(f"line {number}" for number in range(300)) + "\n"
    async with a_chat() as screen:
        screen.app.post_message(Paste(pasted))
        await screen.drawn()
        assert screen.connection.asked == []
        assert "line 299" in screen.shown()
        await screen.presses("enter")
        assert screen.connection.asked == [("prompt", pasted.strip())]


async def test_who_writes_while_the_agent_works_steers_it() -> None:
    async with a_chat() as screen:
        await screen.says(event("RUN_STARTED", runId="r"))
        await screen.types("left")
        assert screen.connection.asked == [("prompt", "left")]
        assert "running" in screen.shown()


async def test_an_approval_shows_the_whole_command_and_one_key_decides() -> None:
    async with a_chat() as screen:
        await suspended(screen, approval("c1"), c1='{"command":"rm -rf build"}')
        assert "waiting for you" in screen.shown()
        assert "command: rm -rf build" in screen.shown()
        await screen.presses("y")
        answers = [Answer(interrupt_id="c1", approved=True)]
        assert screen.connection.asked == [("answer", answers)]


async def test_who_is_writing_does_not_approve_with_a_letter() -> None:
    """The decision may come between two keys of a word."""
    async with a_chat() as screen:
        await screen.presses(*"ver")
        await suspended(screen, approval("c1"), c1='{"command":"rm -rf build"}')
        await screen.presses("y")
        assert screen.app.query_one(Composer).text == "very"
        assert screen.connection.asked == []
        assert "Shift+Tab" in screen.shown()
        await screen.presses("shift+tab", "y")
        assert [name for name, *_ in screen.connection.asked] == ["answer"]


async def test_several_decisions_are_sent_together() -> None:
    async with a_chat() as screen:
        calls = {"c1": '{"command":"one"}', "c2": '{"command":"two"}'}
        await suspended(screen, approval("c1"), approval("c2"), **calls)
        assert "(1 of 2)" in screen.shown()
        await screen.presses("y")
        assert screen.connection.asked == []
        assert "command: two" in screen.shown()
        await screen.presses("r", *"no", "enter")
        reason = {"approved": False, "reason": "no"}
        assert screen.connection.asked == [
            (
                "answer",
                [
                    Answer(interrupt_id="c1", approved=True),
                    Answer(interrupt_id="c2", approved=False, payload=reason),
                ],
            )
        ]


async def test_a_question_is_answered_with_the_arrows_or_in_own_words() -> None:
    options = [{"label": "Green", "description": "like grass"}, {"label": "Black"}]
    asked = json.dumps({"questions": [{"question": "Which tea?", "options": options}]})
    for keys, chosen, words in (
        (["down", "enter"], ["Black"], None),
        (["down", "down", "enter", *"mint", "enter"], [], "mint"),
    ):
        async with a_chat() as screen:
            await suspended(screen, question("q"), q=asked)
            assert "Which tea?" in screen.shown()
            assert "like grass" in screen.shown()
            await screen.presses(*keys)
            ((_, (answer,)),) = screen.connection.asked
            (said,) = answer.payload["answers"]
            assert (said["selectedLabels"], said["otherText"]) == (chosen, words)


async def test_a_question_can_not_move_the_cursor_of_the_terminal() -> None:
    options = [{"label": "Green\x1b[2J", "description": "\x1b[1A"}]
    asked = {"question": "Which\x1b]0;x\x07?", "header": "T\x1b[", "options": options}
    async with a_chat() as screen:
        await suspended(screen, question("q"), q=json.dumps({"questions": [asked]}))
        assert "\x1b" not in screen.shown()
        assert "Which⟨U+001B⟩" in screen.shown()
        await screen.presses("enter")
        ((_, (answer,)),) = screen.connection.asked
        assert answer.payload["answers"][0]["selectedLabels"] == ["Green\x1b[2J"]


async def test_several_options_may_be_chosen_where_that_is_allowed() -> None:
    options = [{"label": "a"}, {"label": "b"}, {"label": "c"}]
    only = {"question": "Which?", "options": options, "multiSelect": True}
    async with a_chat() as screen:
        await suspended(screen, question("q"), q=json.dumps({"questions": [only]}))
        await screen.presses("space", "down", "down", "space", "tab", "enter")
        ((_, (answer,)),) = screen.connection.asked
        assert answer.payload["answers"][0]["selectedLabels"] == ["a", "c"]


@pytest.mark.parametrize(
    ("answered_by", "where"), [(None, "in another program"), ("the panel", "in the panel")]
)
async def test_what_somebody_else_answers_disappears_and_says_where(
    answered_by: str | None, where: str
) -> None:
    async with a_chat() as screen:
        await suspended(screen, approval("c1"), c1='{"command":"make"}')
        await screen.tells(SessionStatus(state(answered_by=answered_by)))
        await screen.says(event("RUN_STARTED", runId="r2"))
        assert "approve" not in screen.shown()
        assert f"this was answered {where}" in screen.shown()
        await screen.presses("y")
        assert screen.connection.asked == []


async def test_an_answer_that_came_too_late_leaves_nothing_behind() -> None:
    async with a_chat() as screen:
        screen.connection.fails["answer"] = CommandRefused("not_open", "it was answered already")
        await suspended(screen, approval("c1"), c1='{"command":"make"}')
        await screen.presses("y")
        assert "it was answered already" in screen.shown()


async def test_escape_stops_the_run_and_only_a_run() -> None:
    async with a_chat() as screen:
        await screen.presses("escape")
        assert screen.connection.asked == []
        await screen.says(event("RUN_STARTED", runId="r"))
        await screen.presses("escape")
        assert screen.connection.asked == [("abort",)]


async def test_a_lost_connection_is_shown_and_what_is_typed_stays() -> None:
    async with a_chat(FakeConnection(snapshot(user(1, "before")))) as screen:
        await screen.presses(*"half")
        await screen.tells(ConnectionStatus("reconnecting", "the daemon is gone"))
        assert "reconnecting" in screen.shown()
        assert "the daemon is gone" in screen.shown()
        both = snapshot(user(1, "before"), user(2, "meanwhile"))
        await screen.tells(SessionResynced(both, Replay(status="unavailable")))
        await screen.tells(ConnectionStatus("connected"))
        assert "meanwhile" in screen.shown()
        assert "reconnecting" not in screen.shown()
        assert screen.app.query_one(Composer).text == "half"


async def test_a_connection_that_ended_says_why() -> None:
    async with a_chat() as screen:
        await screen.tells(Closed("shutdown", "the daemon was stopped; start it again"))
        assert "the daemon was stopped; start it again" in screen.shown()
        assert "closed" in screen.shown()


async def test_another_session_is_shown_instead() -> None:
    async with a_chat(FakeConnection(snapshot(user(1, "the old one")))) as screen:
        await screen.types("/new")
        assert screen.connection.asked == [("new_session",)]
        await screen.tells(SessionReplaced(snapshot(user(2, "the new one"))))
        assert "the new one" in screen.shown()
        assert "the old one" not in screen.shown()


@pytest.mark.parametrize(
    ("typed", "keys", "asked"),
    [
        ("/model m:2", [], ("set_model", "m:2")),
        ("/model", ["down", "enter"], ("set_model", "m:2")),
        ("/mode plan", [], ("set_mode", "plan")),
        ("/mode", ["down", "enter"], ("set_mode", "plan")),
        ("/fork", ["enter"], ("fork", "u2")),
        ("/fork 2", [], ("fork", "u1")),
        ("/resume c7", [], ("switch_session", "c7")),
        ("/resume", ["enter"], ("switch_session", "c9")),
        ("/stop", [], ("abort",)),
    ],
)
async def test_commands(typed: str, keys: list[str], asked: tuple[Any, ...]) -> None:
    connection = FakeConnection()
    connection.saved = [
        SessionSummary(
            active_session_id="x", session_id="c9", project_dir="/p", status="saved", title="T"
        )
    ]
    async with a_chat(connection) as screen:
        await screen.pilot.press(*_letters(typed), "enter")
        await screen.pilot.pause(0.1)
        if keys:
            await screen.presses(*keys)
        await screen.drawn()
        assert screen.connection.asked == [asked]


async def test_a_new_mode_is_shown_below() -> None:
    async with a_chat() as screen:
        await screen.types("/mode auto")
        assert "never asks" in screen.shown()
        assert "auto" in screen.shown().splitlines()[-1]


async def test_a_fork_brings_the_message_back_to_be_changed() -> None:
    async with a_chat() as screen:
        await screen.types("/fork 1")
        assert screen.app.query_one(Composer).text == "two"


async def test_waiting_messages_are_listed_changed_and_taken_back() -> None:
    connection = FakeConnection()
    connection.queue = [
        QueuedMessage(id="1", text="now", lane="steering"),
        QueuedMessage(id="2", text="later", lane="follow_up"),
    ]
    async with a_chat(connection) as screen:
        await screen.types("/queue")
        assert "2. later" in screen.shown()
        await screen.types("/queue delete 2")
        await screen.types("/queue edit 1 at once")
        assert connection.asked == [
            ("mutate", "follow_up", 0, "later", QueueMutation(kind="delete")),
            ("mutate", "steering", 0, "now", QueueMutation(kind="replace", text="at once")),
        ]
        await screen.types("/queue delete 9")
        assert "allowed is 1 to 2" in screen.shown()


async def test_help_lists_commands_and_the_agents_skills() -> None:
    async with a_chat() as screen:
        await screen.types("/help")
        assert "/model" in screen.shown()
        assert "/review  Looks hard." in screen.shown()


async def test_tools_are_one_line_and_open_on_demand() -> None:
    result = json.dumps({"success": True, "output": "line one\nline two"})
    async with a_chat() as screen:
        await screen.says(
            event("RUN_STARTED", runId="r"),
            event("TOOL_CALL_START", toolCallId="c", toolCallName="Bash"),
            event("TOOL_CALL_ARGS", toolCallId="c", delta='{"command":"ls"}'),
            event("TOOL_CALL_END", toolCallId="c"),
            event("CUSTOM", name="roost.tool_output", value={"toolCallId": "c", "text": "halfway"}),
        )
        assert "halfway" in screen.shown()
        await screen.says(event("TOOL_CALL_RESULT", toolCallId="c", messageId="m", content=result))
        assert "Bash  ls  → 2 lines" in screen.shown()
        assert "line two" not in screen.shown()
        await screen.presses("ctrl+o")
        assert "line two" in screen.shown()


async def test_the_plan_is_shown_until_all_of_it_is_done() -> None:
    async with a_chat() as screen:
        todos = [{"content": "first", "status": "completed"}, {"content": "then", "status": "x"}]
        await screen.says(event("STATE_SNAPSHOT", snapshot={"todos": todos}))
        assert "✓ first" in screen.shown()
        assert "○ then" in screen.shown()
        done = [{**todo, "status": "completed"} for todo in todos]
        delta = [{"op": "add", "path": "/todos", "value": done}]
        await screen.says(event("STATE_DELTA", delta=delta))
        assert "first" not in screen.shown()


async def test_what_an_idle_session_holds_is_shown_though_no_event_says_it() -> None:
    plan = {"todos": [{"content": "was begun", "status": "in_progress"}]}
    async with a_chat(FakeConnection(snapshot(worker_state=plan))) as screen:
        assert "was begun" in screen.shown()
        then = [{"content": "comes later", "status": "pending"}]
        replaced = SessionReplaced(snapshot(worker_state={"todos": then}))
        await screen.tells(replaced)
        assert "was begun" not in screen.shown()
        assert "comes later" in screen.shown()


async def test_older_messages_are_fetched_when_somebody_scrolls_up() -> None:
    connection = FakeConnection(snapshot(user(5, "recent"), window=Window(first=5, total=6)))
    older = msgspec.Raw(json.dumps(user(4, "long ago")).encode())
    connection.earlier = MessagesPage(messages=(older,), first=4, total=6)
    async with a_chat(connection) as screen:
        assert "long ago" not in screen.shown()
        await screen.presses("pageup")
        assert connection.asked == [("earlier", 5)]
        assert "long ago" in screen.shown()


async def test_ctrl_c_clears_what_is_typed_and_then_leaves() -> None:
    async with a_chat() as screen:
        await screen.presses(*"half", "ctrl+c")
        assert not screen.app.query_one(Composer).text
        assert screen.app.is_running
        # A page that was cleared by mistake is not lost.
        await screen.presses("up")
        assert screen.app.query_one(Composer).text == "half"
        await screen.presses("ctrl+c")
        await screen.pilot.press("ctrl+c")
        assert screen.app.return_value == 0


async def test_ctrl_d_leaves_where_nothing_is_written_and_the_way_back_is_told() -> None:
    async with a_chat(FakeConnection(snapshot(user(1, "hello")))) as screen:
        await screen.presses("a", "b", "left", "ctrl+d")
        assert screen.app.query_one(Composer).text == "a"
        await screen.presses("backspace")
        await screen.pilot.press("ctrl+d")
        assert screen.app.return_value == 0
    assert screen.app.farewell == "Come back with: roost chat --resume a"


async def test_a_new_conversation_says_where_it_is_and_leaves_nothing_behind() -> None:
    async with a_chat() as screen:
        assert "a new conversation in /p; /help" in screen.shown()
    assert screen.app.farewell is None


async def test_a_message_that_waits_is_shown_until_it_is_taken() -> None:
    async with a_chat() as screen:
        rows = [{"id": f"q{n}", "text": f"words {n}", "lane": "steering"} for n in range(5)]
        rows[1]["lane"] = "follow_up"
        await screen.says(
            event("RUN_STARTED", runId="r"), event("STATE_SNAPSHOT", snapshot={"queue": rows})
        )
        assert "… words 0  (soon)" in screen.shown()
        assert "… words 1  (after this run)" in screen.shown()
        assert "… and 2 more wait (/queue)" in screen.shown()
        await screen.says(
            event("STATE_DELTA", delta=[{"op": "add", "path": "/queue", "value": []}])
        )
        assert "words" not in screen.shown()


async def test_a_tiny_terminal_shows_words_and_a_line_to_write_in() -> None:
    async with a_chat(FakeConnection(snapshot(user(1, "hello"))), size=(20, 5)) as screen:
        assert "> hello" in screen.shown()
        await screen.presses("h", "i")
        assert "hi" in screen.shown().splitlines()[-2]
        assert "ready" in screen.shown().splitlines()[-1]
        await suspended(screen, approval("c1"), c1='{"command":"make"}')
        await screen.presses("shift+tab", "y")
        assert [name for name, *_ in screen.connection.asked] == ["answer"]


async def test_the_model_is_shown_once_a_worker_that_has_just_started_knows_it() -> None:
    connection = FakeConnection(snapshot())
    connection.model = None
    async with a_chat(connection) as screen:
        assert "m:2" in screen.shown().splitlines()[-1]


def _letters(text: str) -> list[str]:
    names = {" ": "space", "/": "slash", ":": "colon"}
    return [names.get(letter, letter) for letter in text]
