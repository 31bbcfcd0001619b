"""Long conversations: the model reads a summary, people and the tree keep every word."""

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.compaction import FULL, KEPT, cut, is_due, read_by_model, tokens_of
from agent.domain.conversation import Conversation, fold
from agent.domain.entries import Begun, Called, Compacted, Entry, Responded, Resulted, Said
from agent.domain.messages import FunctionCall, Message, ToolCall
from agent.domain.ports import ModelFailed, Piece, ResponseDone, TextPiece
from tests.agent.support.fakes import FakeHistory, Line
from tests.agent.support.judge import judge
from tests.agent.support.scene import Scene, calls, one_session, says


def spoke(text: str, tokens: int) -> list[Piece]:
    done = ResponseDone(provider="fake", model="one", input_tokens=tokens, output_tokens=5)
    return [TextPiece(text), done]


def read(scene: Scene, request: int) -> list[str]:
    return [message.text for message in scene.model.requests[request].messages if message.text]


def data(line: Line) -> dict[str, object]:
    assert line["success"], line
    return msgspec.convert(line["data"], dict[str, object])


async def test_by_command_the_model_reads_a_summary_and_clients_all_that_was_said() -> None:
    history = FakeHistory()
    async with one_session(
        says("one"), says("two"), says("the gist"), says("three"), history=history
    ) as scene:
        await scene.turn("first", "m1")
        await scene.turn("second", "m2")
        before = len(scene.lines.lines)
        result = data(await scene.command("compact", instructions="Mind the names."))
        assert result["summary"] == "the gist"
        assert (result["messagesBefore"], result["messagesAfter"]) == (4, 4)
        assert scene.types(before) == ["MESSAGES_SNAPSHOT", "command_result"]
        assert read(scene, 2) == ["first", "one", "Summarize this conversation. Mind the names."]
        assert scene.model.requests[2].tools == []
        await scene.turn("third", "m3")
        assert "the gist" in read(scene, 3)[0]
        assert read(scene, 3)[1:] == ["second", "two", "third"]
        shown = [m.get("content") for m in await scene.snapshot()]
        assert shown == ["first", "one", "second", "two", {"text": "the gist"}, "third", "three"]
        assert scene.session.conversation.usage_rows()[0]["inputTokens"] == 40
        judge(scene.lines.lines)
    async with one_session(says("four"), history=history) as scene:
        await scene.turn("fourth", "m4")
        assert read(scene, 0)[1:] == ["second", "two", "third", "three", "fourth"]
        # Before the summary there was none, on that branch.
        await scene.command("navigate_tree", id="m2")
        assert [m.text for m in read_by_model(scene.session.conversation)] == ["first", "one"]


async def test_a_run_makes_room_by_itself_when_the_window_is_nearly_full() -> None:
    async with one_session(
        spoke("one", 100), spoke("two", 900), says("the gist"), spoke("three", 200), says("four")
    ) as scene:
        scene.model.window = 1000
        await scene.turn("first", "m1")
        await scene.turn("second", "m2")
        lines = await scene.turn("third", "m3")
        told = [line["value"] for line in lines if line.get("name") == "roost.compaction"]
        assert told == [
            {"phase": "started", "reason": "threshold"},
            {"phase": "ended", "reason": "threshold"},
        ]
        assert "the gist" in read(scene, 3)[0]
        assert read(scene, 3)[-1] == "third"
        # The count of before says nothing about what is read now: no second summary.
        await scene.turn("fourth", "m4")
        assert len(scene.model.requests) == 5
        judge(scene.lines.lines)


async def test_a_provider_that_finds_it_too_long_is_asked_again_with_less() -> None:
    too_long = ModelFailed("too long", "model_context")
    async with one_session(says("one"), too_long, says("the gist"), says("two")) as scene:
        scene.model.window = 100_000
        await scene.turn("first", "m1")
        lines = await scene.turn("second", "m2")
        assert lines[-1]["type"] == "RUN_FINISHED"
        assert "the gist" in read(scene, 3)[0]
        judge(scene.lines.lines)


async def test_without_a_summary_the_run_tries_as_it_is_and_tells_the_first_failure() -> None:
    too_long = ModelFailed("too long", "model_context")
    async with one_session(says("one"), too_long, ModelFailed("down", "model_server")) as scene:
        scene.model.window = 100_000
        await scene.turn("first", "m1")
        lines = await scene.turn("second", "m2")
        assert (lines[-1]["type"], lines[-1]["message"]) == ("RUN_ERROR", "too long")
        assert scene.session.conversation.compacted is None
        judge(scene.lines.lines)


async def test_it_can_be_switched_off() -> None:
    async with one_session(spoke("one", 990), spoke("two", 990)) as scene:
        scene.model.window = 1000
        await scene.command("set_auto_compaction", enabled=False)
        await scene.turn("first", "m1")
        await scene.turn("second", "m2")
        assert len(scene.model.requests) == 2
        assert data(await scene.command("get_state"))["autoCompaction"] is False
        assert data(await scene.command("get_state"))["context"] == {"tokens": 995, "limit": 1000}


async def test_what_comes_meanwhile_waits_and_a_stop_leaves_all_as_it_was() -> None:
    async with one_session(says("one"), says("two"), says("gist"), says("three")) as scene:
        await scene.turn("first", "m1")
        await scene.turn("second", "m2")
        begun = anyio.Event()

        async def stall() -> None:
            begun.set()
            await anyio.sleep_forever()

        scene.model.before_piece = stall
        start = len(scene.lines.lines)
        await scene.send(type="command", id="k", name="compact", args={})
        with anyio.fail_after(60):
            await begun.wait()
        assert data(await scene.command("get_state"))["isCompacting"] is True
        admitted = data(await scene.command("prompt", text="third", messageId="m3"))
        assert admitted["admission"] == "queued"
        assert (await scene.command("navigate_tree", id="m2"))["code"] == "busy"
        again = await scene.command("compact")
        assert again["code"] == "busy"
        scene.model.before_piece = anyio.lowlevel.checkpoint
        assert data(await scene.command("abort"))["aborted"] is True
        result = await scene.lines.wait_for(lambda line: line.get("id") == "k", start)
        assert result["code"] == "aborted"
        await scene.wait_end(start)
        assert read(scene, 3) == ["first", "one", "second", "two", "third"]


async def test_too_little_to_summarize_and_a_run_that_goes_on_are_said() -> None:
    async with one_session(says("one"), calls(("c-1", "Do", "x"))) as scene:
        assert (await scene.command("compact"))["code"] == "nothing_to_compact"
        await scene.turn("first", "m1")
        assert (await scene.command("compact"))["code"] == "nothing_to_compact"
        await scene.turn("go", "m2")
        assert (await scene.command("compact"))["code"] == "suspended"


async def test_a_full_disk_keeps_what_the_model_reads() -> None:
    async with one_session(says("one"), says("two"), says("gist")) as scene:
        await scene.turn("first", "m1")
        await scene.turn("second", "m2")
        scene.history.refused = {"compacted"}
        assert (await scene.command("compact"))["code"] == "history"
        assert scene.session.conversation.compacted is None


# -- the cut -----------------------------------------------------------------------------------

TURN = st.tuples(
    st.integers(1, 400),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 600)), max_size=5),
)


def long_conversation(turns: list[tuple[int, list[tuple[int, int]]]]) -> Conversation:
    entries: list[Entry] = [Begun(conversation_id="c", project_dir="/p")]
    for turn, (asked, steps) in enumerate(turns):
        entries.append(Said(message=Message(id=f"u{turn}", role="user", content="x" * asked)))
        for step, (spoken, result) in enumerate(steps):
            name = f"{turn}-{step}"
            said = Message(id=f"a{name}", role="assistant", content="y" * spoken)
            call = ToolCall(id=f"c{name}", function=FunctionCall("Do", "{}"))
            entries += [
                Said(message=said),
                Called(message_id=said.id, calls=[call]),
                Responded(message_ids=[said.id], provider="p", model="m"),
                Resulted(
                    message=Message(
                        id=f"r{name}", role="tool", tool_call_id=call.id, content="z" * result
                    )
                ),
            ]
    return fold("c", entries)


@given(st.lists(TURN, min_size=1, max_size=8), st.integers(100, 2000))
def test_a_cut_parts_no_call_from_its_result_and_keeps_what_was_asked_last(
    turns: list[tuple[int, list[tuple[int, int]]]], window: int
) -> None:
    conversation = long_conversation(turns)
    whole = read_by_model(conversation)
    place = cut(conversation, window, int(window * KEPT))
    if place is None:
        return
    summary = Message(id="s", role="activity", content={"text": "short"})
    conversation.apply(Compacted(message=summary, kept_from=place.kept_from, asked=place.asked))
    after = read_by_model(conversation)
    kept = [message.id for message in after]
    # Nothing is in neither, and what follows the cut is as it was, in its order.
    assert {m.id for m in place.summarized} | set(kept) >= {m.id for m in whole}
    last = [message.id for message in whole if message.role == "user"][-1]
    assert last in kept
    assert "short" in after[0].text
    called = {call.id for message in after for call in message.tool_calls or ()}
    assert {m.tool_call_id for m in after if m.role == "tool"} == called
    assert tokens_of(after) <= tokens_of(whole) + tokens_of(after[:1])


@pytest.mark.parametrize(
    ("tokens", "window", "due"), [(799, 1000, False), (800, 1000, True), (9**9, None, False)]
)
def test_when_room_is_due(tokens: int, window: int | None, due: bool) -> None:
    assert FULL == 0.8
    assert is_due(tokens, window) is due
