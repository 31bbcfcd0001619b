"""The history as a tree: going back loses nothing, and copies are whole and leave nothing open."""

from dataclasses import dataclass

import anyio
import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent.domain.conversation import fold
from agent.domain.entries import (
    Accepted,
    Begun,
    Called,
    CallStarted,
    Entry,
    Resulted,
    RunEnded,
    RunOpened,
    Said,
    decode_entry,
    encode_entry,
)
from agent.domain.messages import FunctionCall, Message, ToolCall
from agent.domain.tree import Tree, copy, imported, navigation
from tests.agent.support.fakes import FakeHistory, FakeTool, Line
from tests.agent.support.judge import judge
from tests.agent.support.scene import Scene, calls, one_session, says


def data(line: Line) -> dict[str, object]:
    assert line["success"], line
    return msgspec.convert(line["data"], dict[str, object])


async def shown(scene: Scene) -> list[tuple[object, object]]:
    return [(m["role"], m.get("content")) for m in await scene.snapshot()]


async def node_of(scene: Scene, text: str) -> str:
    nodes = msgspec.convert(data(await scene.command("get_tree"))["nodes"], list[dict[str, object]])
    return next(str(node["id"]) for node in nodes if node["text"] == text)


async def test_going_back_to_a_users_message_gives_its_words_back_and_everybody_a_snapshot() -> (
    None
):
    async with one_session(says("one"), says("two"), says("other")) as scene:
        await scene.turn("first", "m1")
        await scene.turn("second", "m2")
        before = len(scene.lines.lines)
        result = data(await scene.command("navigate_tree", id="m2"))
        assert result["editorText"] == "second"
        assert scene.types(before) == ["MESSAGES_SNAPSHOT", "command_result"]
        assert await shown(scene) == [("user", "first"), ("assistant", "one")]
        await scene.turn("instead", "m3")
        assert [m.text for m in scene.model.requests[2].messages] == ["first", "one", "instead"]
        tree = data(await scene.command("get_tree"))
        nodes = msgspec.convert(tree["nodes"], list[dict[str, object]])
        parents = {str(node["text"]): node["parentId"] for node in nodes}
        assert list(parents) == ["first", "one", "second", "two", "instead", "other"]
        assert parents["second"] == parents["instead"] == nodes[1]["id"]
        assert tree["leafId"] == nodes[-1]["id"]
        judge(scene.lines.lines)


async def test_the_other_branch_is_there_after_a_restart_and_can_be_gone_back_to() -> None:
    history = FakeHistory()
    async with one_session(says("one"), says("two"), history=history) as scene:
        await scene.turn("first", "m1")
        await scene.command("navigate_tree", id=None)
        assert await shown(scene) == []
        await scene.turn("anew", "m2")
    async with one_session(says("three"), history=history) as scene:
        assert await shown(scene) == [("user", "anew"), ("assistant", "two")]
        await scene.command("navigate_tree", id=await node_of(scene, "one"))
        assert await shown(scene) == [("user", "first"), ("assistant", "one")]
        # An id of another branch is known: whoever sends it again after a lost line sends nothing.
        await scene.ask("anew", "m2")
        await anyio.wait_all_tasks_blocked()
        assert scene.model.requests == []
        # What was spent was spent, wherever one stands.
        usage = scene.session.conversation.usage_rows()
        assert usage[0]["inputTokens"] == 20


async def test_a_place_between_a_call_and_its_result_says_whether_the_call_had_begun() -> None:
    """Who is hurt: a model that takes what was done on the other branch for not done."""
    async with one_session(
        calls(("c-1", "Do", "x")), says("done"), says("again"), mode="auto"
    ) as scene:
        await scene.turn("go", "m1")
        call = next(m for m in scene.session.conversation.transcript if m.tool_calls)
        await scene.command("navigate_tree", id=call.id)
        await scene.turn("and?", "m2")
        results = [m for m in scene.model.requests[2].messages if m.role == "tool"]
        assert len(results) == 1
        assert "went back to before its result" in results[0].text
        assert scene.tool.ran == ["x"]


async def test_nobody_is_led_away_from_a_run_or_a_decision() -> None:
    gate = anyio.Event()
    async with one_session(
        calls(("c-1", "Do", "x")), says("done"), tool=FakeTool(work=gate.wait)
    ) as scene:
        await scene.turn("go", "m1")
        assert (await scene.command("navigate_tree", id="m1"))["code"] == "suspended"
        await scene.answer(c_1=None)
        with anyio.fail_after(60):
            while not scene.tool.ran:
                await anyio.wait_all_tasks_blocked()
        assert (await scene.command("navigate_tree", id="m1"))["code"] == "busy"
        assert (await scene.command("navigate_tree", id="nobody"))["code"] == "busy"
        gate.set()
        await scene.wait_end(len(scene.lines.lines))
        assert (await scene.command("navigate_tree", id="nobody"))["code"] == "unknown_entry"


async def test_a_full_disk_leaves_the_conversation_where_it_was() -> None:
    async with one_session(says("one")) as scene:
        await scene.turn("first", "m1")
        scene.history.is_full = True
        assert (await scene.command("navigate_tree", id="m1"))["code"] == "history"
        assert await shown(scene) == [("user", "first"), ("assistant", "one")]


async def test_a_fork_is_a_conversation_of_its_own_that_spent_nothing() -> None:
    async with one_session(says("one"), says("two")) as scene:
        await scene.turn("first", "m1")
        await scene.turn("second", "m2")
        fork = data(await scene.command("fork", id="m2"))
        clone = data(await scene.command("fork"))
        assert (fork["selectedText"], clone["selectedText"]) == ("second", "")
        copied = scene.archive.conversations[str(fork["conversationId"])]
        whole = scene.archive.conversations[str(clone["conversationId"])]
    async with one_session(says("three"), history=copied) as scene:
        assert await shown(scene) == [("user", "first"), ("assistant", "one")]
        assert scene.session.conversation.usage_rows()[0]["inputTokens"] == 0
        await scene.turn("other", "m3")
    async with one_session(history=whole) as scene:
        assert [text for _, text in await shown(scene)] == ["first", "one", "second", "two"]


async def test_a_copy_of_a_suspended_run_waits_for_nobody_and_runs_nothing() -> None:
    async with one_session(calls(("c-1", "Do", "x"))) as scene:
        await scene.turn("go", "m1")
        clone = data(await scene.command("fork"))
        copied = scene.archive.conversations[str(clone["conversationId"])]
    async with one_session(says("fine"), history=copied) as scene:
        scene.session.announce("1")
        assert "suspended" not in scene.lines.lines[0]
        await scene.turn("and?", "m2")
        results = [m.text for m in scene.model.requests[0].messages if m.role == "tool"]
        assert "Not run" in results[0]


async def test_names_labels_and_reads() -> None:
    history = FakeHistory()
    async with one_session(says("one"), history=history) as scene:
        assert data(await scene.command("get_name")) == {"name": None, "title": "(no text)"}
        assert data(await scene.command("get_last_assistant_text")) == {"text": None}
        await scene.turn("first", "m1")
        assert data(await scene.command("get_name"))["title"] == "first"
        assert data(await scene.command("set_name", name=" My \n work ")) == {"name": "My work"}
        for bad in ("", "  ", None, "x" * 201):
            assert (await scene.command("set_name", name=bad))["code"] == "bad_arguments"
        await scene.command("set_label", id="m1", label="here")
        assert (await scene.command("set_label", id="m9", label="x"))["code"] == "unknown_entry"
        assert data(await scene.command("get_last_assistant_text")) == {"text": "one"}
        assert data(await scene.command("get_user_messages_for_forking")) == {
            "messages": [{"id": "m1", "text": "first"}]
        }
        stats = data(await scene.command("get_stats"))
        assert (stats["messages"], stats["toolCalls"], stats["branches"]) == (2, 0, 1)
        assert stats["tokens"] == {"input": 10, "output": 5, "cachedInput": 0, "total": 15}
    async with one_session(history=history) as scene:
        assert data(await scene.command("get_name")) == {"name": "My work", "title": "My work"}
        tree = data(await scene.command("get_tree"))
        assert msgspec.convert(tree["nodes"], list[dict[str, object]])[0]["label"] == "here"
        await scene.command("navigate_tree", id=None)
        assert data(await scene.command("get_name"))["name"] == "My work"
        await scene.command("set_label", id="m1", label=None)
        tree = data(await scene.command("get_tree"))
        assert msgspec.convert(tree["nodes"], list[dict[str, object]])[0]["label"] is None


async def test_what_was_exported_can_be_imported_with_all_its_branches() -> None:
    async with one_session(says("one <b>"), says("two")) as scene:
        await scene.turn("first", "m1")
        await scene.command("navigate_tree", id="m1")
        await scene.turn("other", "m2")
        path = data(await scene.command("export", format="jsonl"))["path"]
        found = data(await scene.command("import_jsonl", path=path))
        html = data(await scene.command("export", format="html", path="/p/a.html"))["path"]
        assert b"two" in scene.archive.files[str(html)]
        refused = await scene.command("export", format="markdown", path="/p/a.html")
        assert refused["code"] == "bad_file"
        assert (await scene.command("export", format="pdf"))["code"] == "bad_arguments"
        assert (await scene.command("import_jsonl", path="/nowhere"))["code"] == "bad_file"
        copied = scene.archive.conversations[str(found["conversationId"])]
    async with one_session(history=copied) as scene:
        assert [text for _, text in await shown(scene)] == ["other", "two"]
        await node_of(scene, "one <b>")


# -- the pure tree -----------------------------------------------------------------------------


@dataclass(slots=True)
class _Ids:
    count: int = 0

    def __call__(self) -> str:
        self.count += 1
        return f"n{self.count}"


class TreeMachine(RuleBasedStateMachine):
    """Runs, jumps and restarts in any order: every message ever said keeps its place."""

    def __init__(self) -> None:
        super().__init__()
        self.ids = _Ids()
        self.entries: list[Entry] = []
        self.conversation = fold("c", [])
        self.seen: dict[str, list[str]] = {}
        self.call: str | None = None

    @initialize()
    def begin(self) -> None:
        self._add(Begun(conversation_id="c", project_dir="/p"))

    @rule(count=st.integers(1, 3))
    def a_run_begins(self, count: int) -> None:
        messages = [
            Message(id=self.ids(), role="user", content=f"u{self.ids.count}") for _ in range(count)
        ]
        self._add(Accepted(messages=messages))
        self._add(RunOpened(run_id=self.ids(), messages=[message.id for message in messages]))
        self._note()

    @rule(with_call=st.booleans())
    def the_model_speaks(self, with_call: bool) -> None:
        message = Message(id=self.ids(), role="assistant", content="a")
        self._add(Said(message=message))
        if with_call:
            self.call = self.ids()
            call = ToolCall(id=self.call, function=FunctionCall("Do", "{}"))
            self._add(Called(message_id=message.id, calls=[call]))
            self._add(CallStarted(tool_call_id=self.call))
        self._note()

    @rule()
    def the_call_ends(self) -> None:
        if self.call is None:
            return
        message = Message(id=self.ids(), role="tool", tool_call_id=self.call, content="r")
        self._add(Resulted(message=message))
        self.call = None
        self._note()

    @rule()
    def the_run_ends(self) -> None:
        if (run_id := self.conversation.open_run) is not None and self.call is None:
            self._add(RunEnded(run_id=run_id, outcome="success"))

    @rule(data=st.data())
    def somebody_goes_elsewhere(self, data: st.DataObject) -> None:
        nodes = Tree(self.entries).nodes()
        if not nodes:
            return
        node = data.draw(st.sampled_from(nodes))
        moving, text = navigation(self.entries, node.message.id, self.ids)
        for entry in self._stamped(moving):
            self.entries.append(entry)
        self.conversation = fold("c", self.entries)
        self.call = None
        here = [message.id for message in self.conversation.transcript]
        then = self.seen[node.message.id]
        if node.role == "user":
            assert text
            assert node.message.id not in here
            roles = {message.id: message.role for message in self.conversation.transcript}
            assert [each for each in here if each in then] == [e for e in then if e in here]
            assert all(each in then or roles[each] == "tool" for each in here)
        else:
            assert here[: len(then)] == then
        for message_id in here:
            self.seen.setdefault(message_id, here[: here.index(message_id) + 1])

    @rule()
    def a_copy_is_what_is_seen_here(self) -> None:
        begun = Begun(conversation_id="d", project_dir="/p", at="t")
        copied = copy(self.entries, self.entries[-1].id, begun, self.ids)
        there = fold("d", [decode_entry(encode_entry(entry)) for entry in copied])
        here = [message.id for message in self.conversation.transcript]
        assert [message.id for message in there.transcript][: len(here)] == here
        assert there.open_run is None
        assert not there.interrupts()
        assert not list(there.queue)
        assert {m.tool_call_id for m in there.transcript if m.role == "tool"} >= {
            call.id for m in there.transcript for call in m.tool_calls or ()
        }

    @rule()
    def an_import_has_every_message(self) -> None:
        begun = Begun(conversation_id="d", project_dir="/p", at="t")
        whole = imported(self.entries, begun, self.ids)
        assert {n.message.id for n in Tree(whole).nodes()} >= {
            n.message.id for n in Tree(self.entries).nodes()
        }
        assert fold("d", whole).open_run is None

    @invariant()
    def nothing_is_lost_and_a_restart_changes_nothing(self) -> None:
        nodes = {node.message.id: node for node in Tree(self.entries).nodes()}
        assert set(nodes) >= set(self.seen)
        again = fold("c", [decode_entry(encode_entry(entry)) for entry in self.entries])
        assert list(again.transcript) == list(self.conversation.transcript)
        assert again.run_ids == self.conversation.run_ids
        for node in nodes.values():
            assert node.parent is None or node.parent in nodes

    def _add(self, entry: Entry) -> None:
        for stamped in self._stamped([entry]):
            self.entries.append(stamped)
            self.conversation.apply(stamped)

    def _stamped(self, entries: list[Entry]) -> list[Entry]:
        stamped: list[Entry] = []
        parent = self.entries[-1].id if self.entries else None
        for number, entry in enumerate(entries):
            own = number == 0 and entry.parent is not None
            whole = msgspec.structs.replace(
                entry, id=f"e{len(self.entries) + number}", parent=entry.parent if own else parent
            )
            stamped.append(whole)
            parent = whole.id
        return stamped

    def _note(self) -> None:
        here = [message.id for message in self.conversation.transcript]
        for place, message_id in enumerate(here):
            self.seen.setdefault(message_id, here[: place + 1])


TestTreeMachine = TreeMachine.TestCase
TestTreeMachine.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


def test_a_bad_line_in_the_middle_costs_no_branch() -> None:
    """The tree is built as the conversation is: where a parent is missing, the line before it."""
    entries: list[Entry] = [Begun(conversation_id="c", project_dir="/p", id="e0")]
    for number in range(1, 8):
        said = Said(message=Message(id=f"m{number}", role="assistant", content="x"))
        entries.append(msgspec.structs.replace(said, id=f"e{number}", parent=f"e{number - 1}"))
    for damaged in range(1, 7):
        left = [entry for entry in entries if entry.id != f"e{damaged}"]
        assert [n.message.id for n in Tree(left).nodes()] == [
            m.id for m in fold("c", left).transcript
        ]
        navigation(left, "m7", _Ids())
