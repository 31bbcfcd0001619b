"""Messages that wait: taken by the run that goes on or the next one, in an order one can change."""

from collections.abc import Sequence

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.conversation import fold
from agent.domain.entries import (
    Accepted,
    Begun,
    Entry,
    QueueDeleted,
    QueueEdited,
    QueueMoved,
    RunOpened,
    Taken,
    decode_entry,
    encode_entry,
)
from agent.domain.messages import HIDDEN, Message
from agent.domain.queue import LONGEST_SHOWN, MOST_SHOWN, Queue, Waiting, shell_command
from tests.agent.support.fakes import FakeHistory, FakeTool, Line
from tests.agent.support.judge import judge
from tests.agent.support.scene import Scene, calls, one_session, says
from tests.agent.test_run import kinds, verified

LANE = {"roost.lane": "follow_up"}


class Busy:
    """A run whose only call waits until it may end."""

    def __init__(self) -> None:
        self.gate = anyio.Event()
        self.tool = FakeTool(work=self.gate.wait)

    async def begin(self, scene: Scene, text: str = "go") -> None:
        await scene.ask(text, "m0", runId="r0")
        with anyio.fail_after(60):
            while not self.tool.ran:
                await anyio.wait_all_tasks_blocked()


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages if message.role == "user"]


async def command(scene: Scene, name: str, **args: object) -> Line:
    await scene.send(type="command", id="k", name=name, args=args)
    return scene.lines.lines[-1]


async def queued(scene: Scene) -> list[str]:
    data = msgspec.convert((await command(scene, "list_queue"))["data"], dict[str, object])
    return [str(each["id"]) for each in msgspec.convert(data["queue"], list[dict[str, object]])]


async def test_messages_that_come_meanwhile_join_the_run_after_its_call_in_order() -> None:
    busy = Busy()
    async with one_session(
        calls(("c1", "Do", "x")), says("done"), mode="auto", tool=busy.tool
    ) as scene:
        await busy.begin(scene)
        await scene.ask("a", "m1", runId="r1")
        await scene.ask("b", "m2")
        await scene.ask("a again", "m1")
        busy.gate.set()
        await scene.wait_end()
        await anyio.wait_all_tasks_blocked()
        verified(scene.lines.lines)
        assert kinds(scene.lines.lines).count("RUN_STARTED") == 1
        assert texts(scene.model.requests[1].messages) == ["go", "a", "b"]
        assert scene.model.requests[1].messages[-3].role == "tool"


async def test_what_is_said_in_the_middle_of_several_calls_is_heard_before_the_rest() -> None:
    """Who is hurt: who sees the first of many calls go wrong, and can only stop it all."""
    busy = Busy()
    several = calls(("c1", "Do", "x"), ("c2", "Do", "y"), ("c3", "Look", "z"))
    async with one_session(several, says("done"), mode="auto", tool=busy.tool) as scene:
        await busy.begin(scene)
        await scene.ask("not y", "m1")
        busy.gate.set()
        await scene.wait_end()
        verified(scene.lines.lines)
        assert scene.tool.ran == ["x"]
        read = scene.model.requests[1].messages
        assert [m.role for m in read[-4:]] == ["tool", "tool", "tool", "user"]
        assert "the user has said something meanwhile" in read[-2].text


async def test_the_note_of_a_subagent_in_the_middle_of_several_calls_lets_them_run() -> None:
    busy = Busy()
    several = calls(("c1", "Do", "x"), ("c2", "Do", "y"))
    async with one_session(several, says("done"), mode="auto", tool=busy.tool) as scene:
        await busy.begin(scene)
        await scene.session.note([], "child", "a note", wakes=True)
        busy.gate.set()
        await scene.wait_end()
        assert scene.tool.ran == ["x", "y"]


async def test_followers_see_what_a_run_took_in_as_a_snapshot_shows_it() -> None:
    """Who is hurt: the second window would show answers to messages that it never saw."""
    busy = Busy()
    async with one_session(
        calls(("c1", "Do", "x")), says("done"), mode="auto", tool=busy.tool
    ) as scene:
        await busy.begin(scene)
        await scene.ask("wait, not there", "m1")
        busy.gate.set()
        await scene.wait_end()
        told = [line for line in scene.lines.lines if line.get("messageId") == "m1"]
        assert told == [
            {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "user"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "wait, not there"},
            {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
        ]
        snapshot = [(m["id"], m["role"], m.get("content")) for m in await scene.snapshot()]
        assert ("m1", "user", "wait, not there") in snapshot
        shown = judge(scene.lines.lines[:-1]).messages
        assert [(m["id"], m["role"], m.get("content")) for m in shown] == snapshot


async def test_a_message_that_comes_with_the_last_answer_begins_the_next_run() -> None:
    async with one_session(says("one "), says("two")) as scene:

        async def ask_more() -> None:
            if "TEXT_MESSAGE_CONTENT" in scene.types() and len(scene.model.requests) == 1:
                await scene.ask("more", "m1", runId="r1")
            await anyio.lowlevel.checkpoint()

        scene.model.before_piece = ask_more
        await scene.ask("go", "m0", runId="r0")
        await scene.lines.wait_for(
            lambda line: line["type"] == "RUN_FINISHED" and line["runId"] == "r1"
        )
        verified(scene.lines.lines)


async def test_all_that_waits_when_a_run_ends_begins_one_run_together() -> None:
    async with one_session(says("1"), says("2")) as scene:

        async def ask_more() -> None:
            if len(scene.model.requests) == 1:
                await scene.ask("a", "m1", runId="r1")
                await scene.ask("b", "m2", runId="r2")
            await anyio.lowlevel.checkpoint()

        scene.model.before_piece = ask_more
        await scene.ask("go", "m0", runId="r0")
        await scene.lines.wait_for(
            lambda line: line["type"] == "RUN_FINISHED" and line["runId"] == "r1"
        )
        echo = [line["input"] for line in scene.lines.lines if line["type"] == "RUN_STARTED"][1]
        messages = msgspec.convert(echo, dict[str, object])["messages"]
        assert [m["id"] for m in msgspec.convert(messages, list[dict[str, object]])] == ["m1", "m2"]


async def test_a_follow_up_joins_no_run_and_each_one_begins_its_own() -> None:
    busy = Busy()
    async with one_session(
        calls(("c1", "Do", "x")), says("1"), says("2"), says("3"), mode="auto", tool=busy.tool
    ) as scene:
        await busy.begin(scene)
        await scene.ask("later", "m1", runId="r1", forwardedProps=LANE)
        result = await command(scene, "prompt", text="latest", messageId="m2", lane="follow_up")
        assert result["data"] == {
            "admission": "queued",
            "messageId": "m2",
            "lane": "follow_up",
        }
        await scene.ask("now", "m3")
        busy.gate.set()
        with anyio.fail_after(60):
            while kinds(scene.lines.lines).count("RUN_FINISHED") < 3:
                await anyio.wait_all_tasks_blocked()
        assert [texts(r.messages)[-1] for r in scene.model.requests] == [
            "go",
            "now",
            "later",
            "latest",
        ]
        verified(scene.lines.lines)


async def test_what_waits_can_be_listed_moved_edited_deleted_and_cleared() -> None:
    busy = Busy()
    async with one_session(
        calls(("c1", "Do", "x")), says("done"), mode="auto", tool=busy.tool
    ) as scene:
        await busy.begin(scene)
        for number in range(1, 5):
            await scene.ask(f"text {number}", f"m{number}")
        assert await queued(scene) == ["m1", "m2", "m3", "m4"]
        await command(scene, "move_queued", id="m4", place=0)
        assert await queued(scene) == ["m4", "m1", "m2", "m3"]
        await command(scene, "edit_queued", id="m1", text="better")
        await command(scene, "delete_queued", id="m2")
        deltas = [line["delta"] for line in scene.lines.lines if line["type"] == "STATE_DELTA"]
        last = msgspec.convert(deltas[-1], list[dict[str, object]])[0]
        assert last["value"] == [
            {"id": "m4", "text": "text 4", "lane": "steering"},
            {"id": "m1", "text": "better", "lane": "steering"},
            {"id": "m3", "text": "text 3", "lane": "steering"},
        ]
        busy.gate.set()
        await scene.wait_end()
        assert texts(scene.model.requests[1].messages) == ["go", "text 4", "better", "text 3"]
        verified(scene.lines.lines)
        assert await queued(scene) == []


async def test_clearing_the_queue_while_suspended_leaves_nothing_to_run() -> None:
    async with one_session(calls(("c-1", "Do", "x")), says("ok")) as scene:
        await scene.turn("first", "m1")
        await scene.ask("second", "m2")
        await scene.ask("third", "m3")
        assert (await command(scene, "clear_queue"))["data"] == {
            "queue": [],
            "removed": [
                {"id": "m2", "text": "second", "lane": "steering"},
                {"id": "m3", "text": "third", "lane": "steering"},
            ],
        }
        start = len(scene.lines.lines)
        await scene.answer(c_1=None)
        await scene.wait_end(start)
        assert texts(scene.model.requests[-1].messages) == ["first"]


async def test_a_message_is_changed_only_if_it_still_is_what_its_author_saw() -> None:
    """Two people with one queue: the second one's look is old."""
    async with one_session(calls(("c-1", "Do", "x"))) as scene:
        await scene.turn("go", "m0")
        for number in range(3):
            await command(scene, "steer", text=f"s{number}", messageId=f"s{number}")
        await command(scene, "follow_up", text="f0", messageId="f0")

        async def mutate(where: str, index: int, expected: str, **mutation: object) -> object:
            result = await command(
                scene,
                "mutate_queued_message",
                lane=where,
                index=index,
                expectedText=expected,
                mutation=mutation,
            )
            return msgspec.convert(result["data"], dict[str, object])["outcome"]

        assert await mutate("steering", 1, "s0", kind="delete") == "rejected"
        assert await mutate("steering", 9, "s1", kind="delete") == "rejected"
        assert await mutate("follow_up", 0, "s0", kind="delete") == "rejected"
        assert await mutate("steering", 0, "s0", kind="move", by=-1) == "invalid"
        assert await mutate("steering", 0, "s0", kind="move", by=3) == "invalid"
        assert await mutate("steering", 0, "s0", kind="replace", text=" ") == "invalid"
        assert await queued(scene) == ["s0", "s1", "s2", "f0"]
        assert await mutate("steering", 0, "s0", kind="move", by=1) == "applied"
        assert await queued(scene) == ["s1", "s0", "s2", "f0"]
        assert await mutate("steering", 2, "s2", kind="replace", lane="follow_up") == "applied"
        assert await mutate("follow_up", 1, "f0", kind="replace", text="f!") == "applied"
        assert await mutate("steering", 0, "s1", kind="delete") == "applied"
        assert [(w.message.text, w.lane) for w in scene.session.conversation.queue] == [
            ("s0", "steering"),
            ("s2", "follow_up"),
            ("f!", "follow_up"),
        ]
        bad = await command(scene, "mutate_queued_message", lane="x", index=0)
        assert bad["code"] == "bad_arguments"


async def test_a_prompt_that_may_not_wait_is_refused_and_leaves_nothing() -> None:
    async with one_session(calls(("c-1", "Do", "x")), says("ok")) as scene:
        await scene.turn("go", "m0")
        refused = await command(scene, "prompt", text="now", messageId="m1", ifBusy="refuse")
        assert refused["code"] == "busy"
        assert await queued(scene) == []
        known = await command(scene, "prompt", text="go", messageId="m0", ifBusy="refuse")
        assert msgspec.convert(known["data"], dict[str, object])["admission"] == "ignored"
        for bad in ({"ifBusy": "x"}, {"lane": "x"}, {"messageId": 1}):
            result = await command(scene, "prompt", text="t", **bad)
            assert result["code"] == "bad_arguments"


async def test_abort_ends_the_run_and_can_take_back_what_waits() -> None:
    busy = Busy()
    async with one_session(calls(("c1", "Do", "x")), mode="auto", tool=busy.tool) as scene:
        assert (await command(scene, "abort"))["data"] == {"aborted": False}
        await busy.begin(scene)
        await scene.ask("later", "m1")
        result = await command(scene, "abort_and_clear_queue")
        assert result["data"] == {
            "aborted": True,
            "removed": [{"id": "m1", "text": "later", "lane": "steering"}],
        }
        ended = await scene.wait_end()
        assert msgspec.convert(ended["outcome"], dict[str, object])["type"] == "cancelled"
        await anyio.wait_all_tasks_blocked()
        assert kinds(scene.lines.lines).count("RUN_STARTED") == 1
        verified(scene.lines.lines)


async def test_a_message_that_is_deleted_before_its_run_begins_begins_none() -> None:
    async with one_session(says("x")) as scene:
        scene.history.refused.add("run_started")
        await scene.ask("a", "m1")
        await anyio.wait_all_tasks_blocked()
        await command(scene, "delete_queued", id="m1")
        scene.history.refused.clear()
        await scene.turn("b", "m2")
        assert texts(scene.model.requests[0].messages) == ["b"]


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("move_queued", {"id": "nothing", "place": 0}, "unknown_message"),
        ("move_queued", {"id": "m1", "place": -1}, "bad_arguments"),
        ("move_queued", {"id": "m1", "place": True}, "bad_arguments"),
        ("edit_queued", {"id": "m1", "text": " "}, "bad_arguments"),
        ("edit_queued", {"id": 3, "text": "x"}, "unknown_message"),
        ("delete_queued", {}, "unknown_message"),
        ("prompt", {"text": "x", "lane": "fast"}, "bad_arguments"),
    ],
)
async def test_a_change_that_can_not_be_is_a_failure_and_changes_nothing(
    name: str, args: dict[str, object], code: str
) -> None:
    async with one_session(calls(("c-1", "Do", "x"))) as scene:
        await scene.turn("first", "m0")
        await scene.ask("second", "m1")
        result = await command(scene, name, **args)
        assert (result["success"], result["code"]) == (False, code)
        assert await queued(scene) == ["m1"]


async def test_the_queue_and_its_changes_survive_the_worker() -> None:
    history = FakeHistory()
    async with one_session(calls(("c-1", "Do", "x")), history=history) as scene:
        await scene.turn("first", "m0")
        for number in range(1, 4):
            await scene.ask(f"text {number}", f"m{number}")
        await command(scene, "move_queued", id="m3", place=0)
        await command(scene, "delete_queued", id="m1")
    async with one_session(says("ok"), history=history) as scene:
        assert await queued(scene) == ["m3", "m2"]


async def test_a_prompt_that_nobody_wrote_is_taken_in_and_not_told() -> None:
    """A version before this one let it wait as any message does."""
    history = FakeHistory()
    async with one_session(calls(("c-1", "Do", "x")), history=history) as scene:
        await scene.turn("first", "m0")
    hidden = Message(id="h1", role="user", content="go on", metadata={HIDDEN: True})
    last = history.entries()[-1].id
    history.lines.append(encode_entry(Accepted(id="e", parent=last, messages=[hidden])))
    async with one_session(says("ok"), history=history) as scene:
        await scene.answer(c_1=None)
        await scene.wait_end()
        assert texts(scene.model.requests[0].messages) == ["first", "go on"]
        assert "h1" not in str(scene.lines.lines)


# -- !command ----------------------------------------------------------------------------------


def shell(work: FakeTool | None = None) -> FakeTool:
    tool = work or FakeTool()
    tool.name = "Bash"
    tool.key = "command"
    return tool


async def test_a_shell_command_is_a_run_of_its_own_without_the_model() -> None:
    async with one_session(says("I see"), tool=shell(), mode="auto") as scene:
        lines = await scene.turn("!ls -l", "m1")
        verified(lines)
        assert scene.tool.ran == ["ls -l"]
        assert scene.model.requests == []
        assert lines[-1]["outcome"] == {"type": "success"}
        roles = ["user", "assistant", "tool"]
        assert [m["role"] for m in await scene.snapshot() if m["role"] != "activity"] == roles
        await scene.turn("what is it?", "m2")
        assert [m.role for m in scene.model.requests[0].messages if m.role != "activity"] == [
            *roles,
            "user",
        ]


async def test_a_shell_command_is_asked_for_as_any_other_and_ends_with_its_result() -> None:
    async with one_session(tool=shell()) as scene:
        lines = await scene.turn("!rm x", "m1")
        outcome = msgspec.convert(lines[-1]["outcome"], dict[str, object])
        interrupts = msgspec.convert(outcome["interrupts"], list[dict[str, object]])
        assert scene.tool.ran == []
        start = len(scene.lines.lines)
        resume = [{"interruptId": interrupts[0]["id"], "status": "resolved"}]
        await scene.send(type="run_agent_input", input={"resume": resume})
        await scene.wait_end(start)
        verified(scene.lines.lines)
        assert scene.tool.ran == ["rm x"]
        assert scene.model.requests == []


async def test_a_shell_command_waits_for_the_run_that_goes_on() -> None:
    busy = Busy()
    async with one_session(
        calls(("c1", "Bash", "x")), says("done"), mode="auto", tool=shell(busy.tool)
    ) as scene:
        await busy.begin(scene)
        await scene.ask("!date", "m1", runId="r1")
        await scene.ask("and?", "m2")
        busy.gate.set()
        await scene.lines.wait_for(
            lambda line: line["type"] == "RUN_FINISHED" and line["runId"] == "r1"
        )
        assert busy.tool.ran == ["x", "date"]
        assert texts(scene.model.requests[1].messages) == ["go", "and?"]


@pytest.mark.parametrize(
    ("text", "found"), [("!ls", "ls"), ("! ls ", "ls"), ("!", None), ("a!", None), ("", None)]
)
def test_what_counts_as_a_shell_command(text: str, found: str | None) -> None:
    assert shell_command(Message(id="m", role="user", content=text)) == found


# -- the pure queue ----------------------------------------------------------------------------

IDS = st.integers(0, 7).map(lambda number: f"m{number}")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), IDS, st.sampled_from(["steering", "follow_up"])),
        st.tuples(st.just("move"), IDS, st.integers(0, 9)),
        st.tuples(st.just("edit"), IDS, st.sampled_from(["x", "!x", ""])),
        st.tuples(st.just("delete"), IDS, st.just(0)),
        st.tuples(st.just("join"), IDS, st.just(0)),
        st.tuples(st.just("run"), IDS, st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
def test_every_message_is_taken_or_deleted_or_waits_and_a_restart_changes_nothing(
    steps: list[tuple[str, str, object]],
) -> None:
    history: list[Entry] = [Begun(conversation_id="c", project_dir="/p")]
    conversation = fold("c", history)
    added: set[str] = set()
    gone: set[str] = set()
    for number, (what, message_id, value) in enumerate(steps):
        entry: Entry
        queue = conversation.queue
        match what:
            case "add" if message_id not in added:
                message = Message(id=message_id, role="user", content="t")
                entry = Accepted(messages=[message], follow_up=value == "follow_up")
                added.add(message_id)
            case "move":
                assert isinstance(value, int)
                entry = QueueMoved(message_id=message_id, place=value)
            case "edit":
                entry = QueueEdited(message_id=message_id, text=str(value))
            case "delete":
                gone |= {message_id} if message_id in queue else set()
                entry = QueueDeleted(message_ids=[message_id])
            case "join":
                entry = Taken(message_ids=[each.message.id for each in queue.steering()])
            case _:
                ids = [each.message.id for each in queue.next()]
                assert ids or not len(queue)
                entry = RunOpened(run_id=f"r{number}", messages=ids)
        entry = msgspec.structs.replace(entry, id=f"e{number}")
        history.append(entry)
        conversation.apply(entry)
        taken = {message.id for message in conversation.transcript}
        waiting = [each.message.id for each in conversation.queue]
        assert len(waiting) == len(set(waiting))
        assert taken | gone | set(waiting) == added
        assert not taken & set(waiting)
    again = fold("c", [decode_entry(encode_entry(entry)) for entry in history])
    assert list(again.queue) == list(conversation.queue)
    assert list(again.transcript) == list(conversation.transcript)


def test_a_moved_message_keeps_its_words_and_its_lane() -> None:
    queue = Queue()
    message = Message(id="m", role="user", content="t")
    queue.add([Waiting(message, wanted="follow_up"), Waiting(Message(id="n", role="user"))])
    queue.move("m", 99)
    assert [(each.message.id, each.lane) for each in queue] == [
        ("n", "steering"),
        ("m", "follow_up"),
    ]


def test_the_state_shows_the_first_messages_and_cuts_long_ones_while_a_list_has_it_all() -> None:
    """Who is hurt: followers of a thread to which somebody pastes a book, at each change."""
    queue = Queue()
    queue.add(
        Waiting(Message(id=f"m{number}", role="user", content="x" * 10_000))
        for number in range(200)
    )
    assert len(queue.listed()) == 200
    assert len(str(queue.listed()[0]["text"])) == 10_000
    assert len(queue.shown()) == MOST_SHOWN
    assert len(str(queue.shown()[0]["text"])) == LONGEST_SHOWN
