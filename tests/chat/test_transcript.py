"""What the chat makes of messages and events."""

import json

import pytest

from roost.chat.transcript import Result, Transcript
from tests.chat.fakes import event

QUESTION = json.dumps({"questions": [{"question": "Tea?", "header": "Drink", "options": []}]})


def fed(*events: bytes) -> Transcript:
    transcript = Transcript()
    for each in events:
        transcript.feed(each)
    return transcript


def texts(transcript: Transcript) -> list[tuple[str, str]]:
    return [(row.kind, row.text) for row in transcript.rows.values()]


def test_a_run_becomes_rows_in_the_order_they_were_said() -> None:
    sent = {"messages": [{"id": "u", "role": "user", "content": "hello"}]}
    transcript = fed(
        event("RUN_STARTED", runId="r", input=sent),
        event("REASONING_MESSAGE_START", messageId="t"),
        event("REASONING_MESSAGE_CONTENT", messageId="t", delta="hm"),
        event("REASONING_MESSAGE_END", messageId="t"),
        event("TEXT_MESSAGE_START", messageId="a", role="assistant"),
        event("TEXT_MESSAGE_CONTENT", messageId="a", delta="Hel"),
        event("TEXT_MESSAGE_CONTENT", messageId="a", delta="lo"),
    )
    assert texts(transcript) == [("user", "hello"), ("thought", "hm"), ("answer", "Hello")]
    assert transcript.run_id == "r"
    assert [row.is_open for row in transcript.rows.values()] == [False, False, True]


def test_a_message_that_joins_the_run_is_the_users() -> None:
    transcript = fed(
        event("RUN_STARTED", runId="r"),
        event("TEXT_MESSAGE_START", messageId="u", role="user"),
        event("TEXT_MESSAGE_CONTENT", messageId="u", delta="also this"),
    )
    assert texts(transcript) == [("user", "also this")]


def test_a_call_shows_what_it_prints_and_then_its_result() -> None:
    printed = {"toolCallId": "c", "text": "building\n"}
    result = json.dumps({"success": False, "output": "", "error": "exit code 2"})
    transcript = fed(
        event("RUN_STARTED", runId="r"),
        event("TOOL_CALL_START", toolCallId="c", toolCallName="Bash"),
        event("TOOL_CALL_ARGS", toolCallId="c", delta='{"command":'),
        event("TOOL_CALL_ARGS", toolCallId="c", delta='"make"}'),
        event("TOOL_CALL_END", toolCallId="c"),
        event("CUSTOM", name="roost.tool_output", value=printed),
    )
    row = transcript.rows["c"]
    assert (row.name, row.text, row.output) == ("Bash", '{"command":"make"}', "building\n")
    transcript.feed(event("TOOL_CALL_RESULT", toolCallId="c", messageId="m", content=result))
    assert row.result == Result(success=False, output="", error="exit code 2")


def test_what_a_tool_of_another_make_answers_is_its_output() -> None:
    transcript = fed(
        event("TOOL_CALL_START", toolCallId="c", toolCallName="x"),
        event("TOOL_CALL_RESULT", toolCallId="c", messageId="m", content="plain words"),
    )
    assert transcript.rows["c"].result == Result(success=True, output="plain words", error="")


def test_a_snapshot_replaces_everything_and_growing_messages_go_on_from_it() -> None:
    transcript = fed(event("TEXT_MESSAGE_START", messageId="old", role="assistant"))
    call = {"id": "c", "function": {"name": "Read", "arguments": '{"path":"a"}'}}
    messages = [
        {
            "id": "u",
            "role": "user",
            "content": [{"type": "text", "text": "look"}, {"type": "image"}],
        },
        {"id": "a", "role": "assistant", "content": "I re", "toolCalls": [call]},
        {"id": "t", "role": "tool", "toolCallId": "c", "content": '{"success":true,"output":"x"}'},
    ]
    transcript.show(
        [json.dumps(message).encode() for message in messages],
        [
            event("RUN_STARTED", runId="r"),
            event("STATE_SNAPSHOT", snapshot={"todos": []}),
            event("TEXT_MESSAGE_START", messageId="a", role="assistant"),
        ],
    )
    transcript.feed(event("TEXT_MESSAGE_CONTENT", messageId="a", delta="ad it"))
    assert texts(transcript) == [
        ("user", "look\n[image]"),
        ("answer", "I read it"),
        ("call", '{"path":"a"}'),
    ]
    assert transcript.rows["c"].result == Result(success=True, output="x", error="")
    assert transcript.take_changes().everything


def test_a_suspended_run_waits_for_what_its_calls_ask() -> None:
    interrupts = [
        {"id": "c", "reason": "tool_call", "toolCallId": "c"},
        {"id": "q", "reason": "input_required", "toolCallId": "q"},
    ]
    transcript = fed(
        event("RUN_STARTED", runId="r"),
        event("TOOL_CALL_START", toolCallId="c", toolCallName="Bash"),
        event("TOOL_CALL_ARGS", toolCallId="c", delta='{"command":"rm x"}'),
        event("TOOL_CALL_START", toolCallId="q", toolCallName="AskUserQuestion"),
        event("TOOL_CALL_ARGS", toolCallId="q", delta=QUESTION),
        event("RUN_FINISHED", runId="r", outcome={"type": "interrupt", "interrupts": interrupts}),
    )
    approval, question = transcript.decisions
    assert (approval.tool, approval.arguments) == ("Bash", '{"command":"rm x"}')
    assert not approval.is_question
    assert question.questions[0].text == "Tea?"
    assert transcript.run_id is None
    transcript.feed(event("RUN_STARTED", runId="r2"))
    assert transcript.decisions == ()


@pytest.mark.parametrize(("run_id", "goes_on"), [("r", False), (None, True)])
def test_an_error_without_a_run_ends_none(run_id: str | None, goes_on: bool) -> None:
    named = {} if run_id is None else {"runId": run_id}
    transcript = fed(
        event("RUN_STARTED", runId="r"), event("RUN_ERROR", message="too long", **named)
    )
    assert (transcript.run_id is not None) == goes_on
    assert texts(transcript) == [("error", "too long")]


def test_the_state_is_replaced_key_by_key() -> None:
    transcript = fed(
        event("STATE_SNAPSHOT", snapshot={"todos": [], "queue": [1]}),
        event("STATE_DELTA", delta=[{"op": "add", "path": "/todos", "value": [{"content": "a"}]}]),
        event("STATE_DELTA", delta=[{"op": "remove", "path": "/queue"}]),
    )
    assert transcript.state == {"todos": [{"content": "a"}]}


def test_members_of_an_object_in_the_state_change_alone() -> None:
    steps = [
        {"op": "add", "path": "/subagents/a~1b", "value": {"status": "running"}},
        {"op": "replace", "path": "/subagents/c/status", "value": "idle"},
        {"op": "add", "path": "/unknown/x", "value": 1},
    ]
    known = {"subagents": {"c": {"status": "running"}}}
    transcript = fed(event("STATE_SNAPSHOT", snapshot=known), event("STATE_DELTA", delta=steps))
    children = transcript.state["subagents"]
    assert children == {"c": {"status": "idle"}, "a/b": {"status": "running"}}


def test_what_is_unknown_changes_nothing() -> None:
    transcript = fed(event("SOMETHING_NEW", value=1), event("TEXT_MESSAGE_CONTENT", messageId="?"))
    assert transcript.rows == {}


def test_only_what_changed_is_drawn_anew() -> None:
    transcript = fed(event("TEXT_MESSAGE_START", messageId="a", role="assistant"))
    assert transcript.take_changes().everything
    transcript.feed(event("TEXT_MESSAGE_START", messageId="b", role="assistant"))
    transcript.feed(event("TEXT_MESSAGE_CONTENT", messageId="b", delta="x"))
    changes = transcript.take_changes()
    assert (changes.everything, changes.rows) == (False, ("b",))


def test_older_messages_come_in_front() -> None:
    transcript = fed(event("TEXT_MESSAGE_START", messageId="a", role="assistant"))
    transcript.earlier([b'{"id":"u0","role":"user","content":"first"}'])
    assert list(transcript.rows) == ["u0", "a"]
    assert transcript.said_by_user() == ["first"]
