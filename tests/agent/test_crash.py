"""What a crash may cost: nothing that a client was told, and no side effect twice."""

from pathlib import Path

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.domain.aftermath import Aftermath, left_by_a_crash
from agent.domain.conversation import fold
from agent.domain.entries import (
    BadEntry,
    Begun,
    Entry,
    RunEnded,
    Said,
    branch,
    decode_entry,
    encode_entry,
)
from agent.domain.messages import INTERRUPTED, UNCERTAIN, Message
from agent.domain.ports import TextPiece
from agent.domain.questions import answered
from agent.infrastructure.jsonl_history import JsonlHistory
from tests.agent.support.fakes import (
    FakeHistory,
    FakeLines,
    FakeLog,
    FakeProcesses,
    FakeTool,
    Line,
    counting_ids,
)
from tests.agent.support.judge import judge
from tests.agent.support.scene import calls, one_session, says
from tests.agent.support.worker_process import until

AFTERMATH = Aftermath(answered, FakeProcesses(), counting_ids("later"))
TOLD = {"TEXT_MESSAGE_END", "TOOL_CALL_RESULT", "RUN_FINISHED", "RUN_STARTED"}


async def record_of_a_whole_life() -> tuple[FakeHistory, list[tuple[int, Line]]]:
    """A history with every kind of entry, and what was told at which length of it."""
    history = FakeHistory()
    told: list[tuple[int, Line]] = []

    def on_line(line: Line) -> None:
        if line["type"] in TOLD:
            told.append((sum(map(len, history.lines[: history.synced])), line))

    async with one_session(
        [TextPiece("first "), TextPiece("look"), *calls(("c-1", "Look", "x"), ("c-2", "Do", "y"))],
        says("did it"),
        says("bye"),
        history=history,
        lines=FakeLines(on_line),
    ) as scene:
        await scene.turn("go", "m1", runId="r1")
        start = len(scene.lines.lines)
        await scene.answer(c_2=None)
        await scene.wait_end(start)
        await scene.turn("more", "m2", runId="r2")
    return history, told


def load(data: bytes, folder: Path) -> list[Entry]:
    path = folder / "c.jsonl"
    path.write_bytes(data)
    history = JsonlHistory(path, FakeLog())
    try:
        return history.load().entries
    finally:
        history.close()


def test_a_line_that_can_not_be_read_costs_that_line_alone(tmp_path: Path) -> None:
    """A bad block, an editor: whichever line it is, the conversation opens with the others."""
    history, _ = anyio.run(record_of_a_whole_life)
    whole = load(b"".join(history.lines), tmp_path)
    for damaged in range(len(history.lines)):
        lines = list(history.lines)
        lines[damaged] = b"{rubbish\n"
        entries = load(b"".join(lines), tmp_path)
        assert [e.id for e in entries] == [e.id for n, e in enumerate(whole) if n != damaged]
        conversation = fold("c", entries)
        shown = {m.id for m in conversation.transcript.visible()}
        left = left_by_a_crash(conversation, AFTERMATH)
        assert {m.id for m in fold("c", [*entries, *left]).transcript.visible()} >= shown


def test_cut_at_any_byte_all_that_was_told_before_is_there(tmp_path: Path) -> None:
    """The machine may lose power at any moment; what was synced by then is what counts."""
    history, told = anyio.run(record_of_a_whole_life)
    data = b"".join(history.lines)
    checked = 0
    for cut in range(len(data) + 1):
        conversation = fold("c", branch(load(data[:cut], tmp_path)))
        messages = {message.id for message in conversation.transcript}
        for length, line in told:
            if length > cut:
                continue
            checked += 1
            match line["type"]:
                case "TEXT_MESSAGE_END" | "TOOL_CALL_RESULT":
                    assert line["messageId"] in messages
                case "RUN_STARTED":
                    assert line["runId"] in conversation.run_ids
                case _:
                    assert line["runId"] in conversation.run_ids
                    is_last = not any(
                        other["type"] == "RUN_STARTED" and at > length and at <= cut
                        for at, other in told
                    )
                    outcome = msgspec.convert(line["outcome"], dict[str, object])
                    if is_last and outcome["type"] == "interrupt" and not conversation.open_run:
                        assert [i.id for i in conversation.interrupts()] == ["c-2"]
    assert checked > len(data)


def test_cut_at_any_byte_nothing_that_began_is_open_to_run_again(tmp_path: Path) -> None:
    history, _ = anyio.run(record_of_a_whole_life)
    data = b"".join(history.lines)
    for cut in range(0, len(data) + 1, 3):
        entries = branch(load(data[:cut], tmp_path))
        conversation = fold("c", entries)
        began = any(record.started_at for record in conversation.calls.values())
        for entry in left_by_a_crash(conversation, AFTERMATH):
            conversation.apply(entry)
        assert conversation.open_run is None
        if began:
            assert not [r for r in conversation.unanswered() if r.started_at]


@given(bad=st.integers(min_value=1, max_value=12), rubbish=st.binary(max_size=20))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
def test_a_bad_line_hides_no_other(bad: int, rubbish: bytes) -> None:
    parent = None
    lines: list[bytes] = []
    for number in range(14):
        entry: Entry = Said(message=Message(id=f"m{number}", role="user", content="x"))
        if number == 0:
            entry = Begun(conversation_id="c", project_dir="/p")
        whole = msgspec.structs.replace(entry, id=str(number), parent=parent, at="t")
        parent = whole.id
        lines.append(encode_entry(whole))
    lines[bad] = rubbish.replace(b"\n", b"") + b"\n"
    entries: list[Entry] = []
    for line in lines:
        try:
            entries.append(decode_entry(line))
        except BadEntry:
            continue
    transcript = fold("c", branch(entries)).transcript
    expected = [f"m{number}" for number in range(1, 14) if number != bad]
    assert [message.id for message in transcript] == expected


async def test_a_decision_survives_the_worker_and_its_call_runs_exactly_once() -> None:
    history = FakeHistory()
    async with one_session(calls(("c-1", "Do", "x")), history=history) as scene:
        told = (await scene.turn())[-1]
    tool = FakeTool()
    async with one_session(says("done"), history=history, tool=tool) as scene:
        scene.session.announce("1.0")
        assert scene.lines.lines[0]["suspended"] == told
        await scene.answer(c_1=None)
        await scene.wait_end()
        assert tool.ran == ["x"]
    async with one_session(history=history) as scene:
        scene.session.announce("1.0")
        assert "suspended" not in scene.lines.lines[0]
        await scene.answer(c_1=None)
        await anyio.wait_all_tasks_blocked()
        assert scene.tool.ran == []


async def test_a_call_that_had_begun_is_never_run_again_and_the_model_is_told_so() -> None:
    """Who is hurt: a payment, a push, a deletion would happen twice."""
    history = FakeHistory()
    stuck = FakeTool(work=anyio.sleep_forever)
    async with one_session(
        calls(("c-1", "Do", "x"), ("c-2", "Do", "y")), mode="auto", history=history, tool=stuck
    ) as scene:
        await scene.ask("go", "m1")
        with anyio.fail_after(60):
            while not stuck.ran:
                await anyio.wait_all_tasks_blocked()
        at_the_crash = list(history.lines)
    crashed = FakeHistory()
    crashed.lines = at_the_crash
    async with one_session(says("I will look"), history=crashed) as scene:
        assert scene.types() == []
        await scene.turn("and?", "m2")
        assert scene.tool.ran == []
        results = [m for m in scene.model.requests[0].messages if m.role == "tool"]
        assert "its outcome is unknown" in results[0].text
        assert "in /project with Do" in results[0].text
        assert "2026-01-02T03:04:05Z" in results[0].text
        assert "It was not run" in results[1].text


async def test_a_run_that_was_open_at_a_crash_is_closed_with_its_partial_text_marked() -> None:
    history = FakeHistory()
    async with one_session([TextPiece("half an"), TextPiece(" ans")], history=history) as scene:

        async def stall() -> None:
            if scene.types().count("TEXT_MESSAGE_CONTENT") == 2:
                await anyio.sleep_forever()
            await anyio.lowlevel.checkpoint()

        scene.model.before_piece = stall
        await scene.ask("go", "m1", runId="r1")
        await until(lambda: "partial" in history.kinds())
        at_the_crash = list(history.lines)
        seen = await scene.snapshot()
    crashed = FakeHistory()
    crashed.lines = at_the_crash
    async with one_session(says("ok"), history=crashed) as scene:
        message = (await scene.snapshot())[-1]
        assert (message["id"], message["content"]) == (seen[-1]["id"], "half an ans")
        assert message["metadata"] == {INTERRUPTED: True}
        ended = crashed.entries()[-1]
        assert isinstance(ended, RunEnded)
        assert (ended.run_id, ended.outcome) == ("r1", "interrupted")


async def test_messages_that_waited_at_a_crash_have_their_turn_after_it() -> None:
    history = FakeHistory()
    async with one_session(
        calls(("c-1", "Do", "x")),
        mode="auto",
        history=history,
        tool=FakeTool(work=anyio.sleep_forever),
    ) as scene:
        await scene.ask("one", "m1")
        await scene.ask("two", "m2", runId="r2")
        at_the_crash = list(history.lines)
    crashed = FakeHistory()
    crashed.lines = at_the_crash
    async with one_session(says("a"), says("b"), history=crashed) as scene:
        await scene.lines.wait_for(
            lambda line: line["type"] == "RUN_FINISHED" and line["runId"] == "r2"
        )


async def test_an_uncertain_call_tells_whether_its_process_lives() -> None:
    """Who is hurt: somebody who starts a deployment again beside the one that goes on."""
    history = FakeHistory()
    stuck = FakeTool(work=anyio.sleep_forever, pid=77)
    async with one_session(
        calls(("c-1", "Do", "x")), mode="auto", history=history, tool=stuck
    ) as scene:
        await scene.ask("go", "m1")
        await until(lambda: "call_process" in history.kinds())
        at_the_crash = list(history.lines)
    for living, words in (((77,), "(pid 77) still runs"), ((), "(pid 77) has ended")):
        crashed = FakeHistory()
        crashed.lines = list(at_the_crash)
        async with one_session(history=crashed, processes=FakeProcesses(*living)) as scene:
            result = (await scene.snapshot())[-1]
            assert words in str(result["error"])
            assert msgspec.convert(result["metadata"], dict[str, object])[UNCERTAIN] == {
                "tool": "Do",
                "arguments": '{"what":"x"}',
                "projectDir": "/project",
                "startedAt": "2026-01-02T03:04:05Z",
                "pid": 77,
                "processLives": bool(living),
            }


async def test_a_crash_between_a_decision_and_its_call_asks_again_and_runs_it_once() -> None:
    history = FakeHistory()
    at_each_length: list[list[bytes]] = []
    async with one_session(
        calls(("c-1", "Do", "x"), ("c-2", "Do", "y")), says("done"), history=history
    ) as scene:
        await scene.turn("go", "m1")
        await scene.answer(c_1=None, c_2={"approved": False})
        await scene.wait_end(len(scene.lines.lines))
        at_each_length = [history.lines[:end] for end in range(len(history.lines) + 1)]
    begun = [at for at in at_each_length if at and b'"answers"' in at[-1]]
    assert len(begun) == 1
    crashed = FakeHistory()
    crashed.lines = list(begun[0])
    tool = FakeTool()
    async with one_session(says("fine"), history=crashed, tool=tool) as scene:
        scene.session.announce("1")
        told = scene.lines.lines
        assert [line["type"] for line in told] == [
            "ready",
            "RUN_STARTED",
            "STATE_SNAPSHOT",
            "RUN_FINISHED",
        ]
        assert told[0]["suspended"] == told[3]
        assert [i.id for i in scene.session.conversation.interrupts()] == ["c-1"]
        # What was declined stays declined.
        assert "declined" in str((await scene.snapshot())[-1]["error"])
        start = len(scene.lines.lines)
        await scene.answer(c_1=None)
        await scene.wait_end(start)
        assert tool.ran == ["x"]
        judge(scene.lines.lines)


@pytest.mark.parametrize("refused", ["run_started", "call_started"])
async def test_a_full_disk_in_the_middle_of_a_resume_keeps_the_decision_open(refused: str) -> None:
    """Who is hurt: a person whose yes is gone with the space, and the call with it."""
    history = FakeHistory()
    async with one_session(calls(("c-1", "Do", "x")), says("done"), history=history) as scene:
        await scene.turn("go", "m1")
        history.refused = {refused, "result", "run_ended"}
        start = len(scene.lines.lines)
        await scene.answer(c_1=None)
        if refused == "run_started":
            told = await scene.lines.wait_for(lambda line: line["type"] == "RUN_ERROR", start)
        else:
            told = await scene.wait_end(start)
            assert "Asked again" in str(told)
        assert "no space left" in str(told)
        await anyio.wait_all_tasks_blocked()
        assert scene.tool.ran == []
        as_a_crash_leaves_it = list(history.lines)
        history.refused = set()
        start = len(scene.lines.lines)
        await scene.answer(c_1=None)
        await scene.wait_end(start)
        assert scene.tool.ran == ["x"]
        judge(scene.lines.lines)
    crashed = FakeHistory()
    crashed.lines = as_a_crash_leaves_it
    async with one_session(says("done"), history=crashed) as scene:
        await scene.answer(c_1=None)
        await scene.wait_end()
        assert scene.tool.ran == ["x"]


async def test_a_call_whose_result_found_no_room_is_uncertain_and_not_undone() -> None:
    history = FakeHistory()
    async with one_session(
        calls(("c-1", "Do", "x")), says("I look"), mode="auto", history=history
    ) as scene:
        history.refused = {"result"}
        lines = await scene.turn("go", "m1")
        assert lines[-1]["type"] == "RUN_ERROR"
        history.refused = set()
        await scene.turn("and?", "m2")
        results = [m.text for m in scene.model.requests[1].messages if m.role == "tool"]
        assert len(results) == 1
        assert "its outcome is unknown" in results[0]
        assert scene.tool.ran == ["x"]
