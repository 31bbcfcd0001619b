"""A conversation and its subagents: what opens, what is told, what is left, what comes back."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import anyio
import msgspec
import pytest

from agent.domain.subagents import (
    Ask,
    Asked,
    Began,
    Counted,
    Delegation,
    Did,
    Limits,
    Nested,
    Turned,
    TurnReport,
)
from agent.equipment import Equipment
from tests.agent.support.fake_children import FakeChildren
from tests.agent.support.fakes import DONE, FakeHistory, FakeTool, Line
from tests.agent.support.judge import judge
from tests.agent.support.scene import Scene, one_session, says
from tests.support.time import virtual_time

Piece = Any


def agent(*tasks: Mapping[str, object], call_id: str = "t1", **more: object) -> list[Piece]:
    return call("Agent", {"tasks": list(tasks), **more}, call_id)


def call(tool: str, arguments: object, call_id: str = "t1") -> list[Piece]:
    from agent.domain.ports import ArgumentsPiece, CallBegan

    return [
        CallBegan(0, call_id, tool),
        ArgumentsPiece(0, msgspec.json.encode(arguments).decode()),
        DONE,
    ]


def held_to(**limits: Any) -> Callable[[Equipment], Equipment]:
    return lambda equipment: replace(equipment, limits=Limits(**limits), project_dir="/project")


def parent_of(children: FakeChildren) -> Delegation:
    return Delegation(open_child=children)


def rows(scene: Scene) -> list[dict[str, Any]]:
    state: Any = scene.session.conversation.shared_state()
    return list(state["subagents"].values())


def result(lines: list[Line], call_id: str = "t1") -> dict[str, Any]:
    told = next(
        line
        for line in lines
        if line["type"] == "TOOL_CALL_RESULT" and line["toolCallId"] == call_id
    )
    return msgspec.json.decode(str(told["content"]), type=dict[str, Any])


def notes(scene: Scene) -> list[str]:
    """The first lines of the notes in the conversation, those that wait too."""
    conversation = scene.session.conversation
    messages = [*conversation.transcript, *(each.message for each in conversation.queue)]
    return [m.text.split("\n")[0] for m in messages if m.is_marked("roost.subagent")]


async def settle() -> None:
    await anyio.wait_all_tasks_blocked()


async def test_a_task_becomes_a_thread_below_and_its_result_a_note_that_is_read() -> None:
    children = FakeChildren()
    steps = [agent({"prompt": "slow", "label": "one"}), says("opened"), says("read")]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        lines = await scene.turn()
        assert result(lines)["success"]
        (child,) = children.opened
        child.says(Turned(TurnReport(text="I thought about it.")))
        thread = child.thread
        assert thread.conversation_id.startswith("subagent-c-")
        assert thread.lineage.parent == "c"
        assert thread.lineage.depth == 1
        assert thread.lineage.tools == ["Look"], "read-only, unless more is asked for"
        assert (thread.model, thread.mode) == ("fake:one", "standard")
        end = await scene.wait_end(len(lines))
        assert end["type"] == "RUN_FINISHED"
        assert notes(scene) == ["[Subagent Completed: one]"]
        assert "I thought about it." in scene.model.requests[-1].messages[-1].text
        (row,) = rows(scene)
        assert (row["status"], row["turns"], row["label"]) == ("idle", 1, "one")
        judge(scene.lines.lines)


async def test_what_a_child_does_is_told_between_the_parents_runs() -> None:
    """Who follows only the parent knows it at every moment."""
    children = FakeChildren()
    steps = [agent({"prompt": "slow", "label": "one"}), says("opened")]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        lines = await scene.turn()
        start = len(lines)
        children.child("one").says(Did("calls Look"), Counted(7, 3))
        told = await scene.lines.wait_for(lambda line: line["type"] == "STATE_DELTA", start)
        delta: Any = told["delta"]
        row = next(step["value"] for step in delta if "subagents/subagent-c-" in step["path"])
        assert row["activity"] == "calls Look"
        assert row["tokens"] == {"input": 7, "output": 3}
        assert "RUN_STARTED" not in scene.types(start)
        state: Any = scene.session.conversation.shared_state()
        assert state["backgroundTasks"]["running"] == 1, "the daemon keeps the parent for it"


async def test_a_child_that_waits_is_listed_here_and_nobody_here_can_answer() -> None:
    children = FakeChildren()
    steps = [
        agent({"prompt": "run x", "label": "one", "type": "ReadWrite", "tools": ["Do"]}),
        says("opened"),
    ]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        lines = await scene.turn()
        children.child("one").says(Asked((Ask(id="i", reason="tool_call", message="Do: x?"),)))
        told = await scene.lines.wait_for(
            lambda line: line["type"] == "MESSAGES_SNAPSHOT", len(lines)
        )
        assert "[Subagent Awaiting Approval: one]" in str(told["messages"])
        assert len(scene.model.requests) == 2, "there is nothing that a model could do about it"
        (row,) = rows(scene)
        assert row["status"] == "waiting"
        assert row["interrupts"] == [{"id": "i", "reason": "tool_call", "message": "Do: x?"}]
        await scene.answer(i={"approved": True})
        await settle()
        assert children.opened[0].sent == ["run x"], "an answer here goes nowhere"
        child = children.child("one")
        child.says(Began())
        await settle()
        assert rows(scene)[0]["interrupts"] == []


@pytest.mark.parametrize(
    ("limits", "tasks", "depth", "names"),
    [
        ({"max_depth": 1}, 1, 1, "subagents.max_depth"),
        ({"max_parallel": 2}, 3, 0, "subagents.max_parallel"),
        ({"max_turns": 5}, 1, 0, "subagents.max_turns"),
    ],
)
async def test_a_limit_is_checked_before_anything_is_opened(
    limits: dict[str, Any], tasks: int, depth: int, names: str
) -> None:
    from agent.domain.lineage import Lineage

    children = FakeChildren()
    lineage = Lineage(parent="p", depth=depth, tools=["Agent", "Look"]) if depth else None
    delegation = Delegation(open_child=children, lineage=lineage)
    wanted: list[dict[str, object]] = [{"prompt": "think", "max_turns": 6}] * tasks
    if "max_turns" not in limits:
        wanted = [{"prompt": "think"}] * tasks
    steps = [agent(*wanted), says("no")]
    async with one_session(*steps, delegation=delegation, equip=held_to(**limits)) as scene:
        lines = await scene.turn()
        assert names in result(lines)["error"]
        assert children.opened == []
        assert rows(scene) == []


async def test_at_the_limit_of_depth_the_tool_is_not_offered_and_refuses() -> None:
    children = FakeChildren()
    steps = [agent({"prompt": "think"}), says("no")]
    async with one_session(
        *steps, delegation=parent_of(children), equip=held_to(max_depth=0)
    ) as scene:
        lines = await scene.turn()
        assert "Agent" not in [spec.name for spec in scene.model.requests[0].tools]
        assert "may be 0 deep (subagents.max_depth)" in result(lines)["error"]


@pytest.mark.parametrize("only", [["Look"], []])
async def test_a_tool_outside_of_the_list_is_neither_offered_nor_run(only: list[str]) -> None:
    """An empty list is a list: it never falls back to everything."""
    children = FakeChildren()
    steps = [call("Do", {"what": "x"}), says("no")]

    def equip(equipment: Equipment) -> Equipment:
        return replace(equipment, only=frozenset(only))

    async with one_session(*steps, delegation=parent_of(children), equip=equip) as scene:
        lines = await scene.turn()
        assert [spec.name for spec in scene.model.requests[0].tools] == only
        assert "no tool of this subagent" in result(lines)["error"]
        assert scene.tool.ran == []
        start = len(scene.lines.lines)
        await scene.send(
            type="tool_request", id="r", tool_name="Do", tool_args='{"what":"y"}', project_dir="/p"
        )
        answer = await scene.lines.wait_for(lambda line: line["type"] == "tool_result", start)
        assert answer["success"] is False
        assert scene.tool.ran == [], "nor through a panel"


async def test_what_a_subagent_opens_has_no_tool_that_it_has_not_itself() -> None:
    children = FakeChildren()
    steps = [agent({"prompt": "think", "type": "ReadWrite"}), says("opened"), says("read")]

    def equip(equipment: Equipment) -> Equipment:
        held = replace(equipment, only=frozenset({"Look", "Agent"}), limits=Limits(max_depth=3))
        return held

    async with one_session(*steps, delegation=parent_of(children), equip=equip) as scene:
        await scene.turn()
        assert children.opened[0].thread.lineage.tools == ["Agent", "Look"]


async def test_more_to_do_is_sent_to_the_same_child_and_reported_apart() -> None:
    children = FakeChildren()
    steps = [
        agent({"prompt": "slow", "label": "one"}),
        says("opened"),
        says("read"),
        call("AgentInput", {"agent": "one", "text": "slow again"}, "t2"),
        says("sent"),
        says("read"),
    ]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        await scene.turn()
        children.child("one").says(Turned(TurnReport(text="first")))
        await settle()
        lines = await scene.turn("again", "m2")
        assert result(lines, "t2")["success"]
        children.child("one").says(Turned(TurnReport(text="second")))
        await settle()
        assert children.child("one").sent == ["slow", "slow again"]
        assert notes(scene) == ["[Subagent Completed: one]"] * 2
        assert len(children.opened) == 1


async def test_a_turn_with_more_behind_it_leaves_the_child_at_work() -> None:
    children = FakeChildren()
    steps = [agent({"prompt": "slow", "label": "one"}), says("opened"), says("read"), says("r")]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        lines = await scene.turn()
        children.child("one").says(Turned(TurnReport(text="a", done=False)))
        await scene.wait_end(len(lines))
        assert rows(scene)[0]["status"] == "running"
        start = len(scene.lines.lines)
        children.child("one").says(Began(), Turned(TurnReport(text="b")))
        await scene.wait_end(start)
        assert rows(scene)[0]["status"] == "idle"
        assert rows(scene)[0]["turns"] == 2


async def test_a_call_that_waits_has_the_results_and_no_notes() -> None:
    children = FakeChildren()
    tasks = [{"prompt": "think", "label": "one"}, {"prompt": "break", "label": "two"}]
    steps = [agent(*tasks, wait=True), says("done")]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        lines = await scene.turn()
        told = result(lines)
        assert "[Subagent Completed: one]" in told["output"]
        assert "[Subagent Failed: two]" in told["output"]
        assert told["success"] is False
        assert notes(scene) == []


async def test_stopping_a_run_that_waits_leaves_the_children_and_loses_no_result() -> None:
    children = FakeChildren()
    tasks = [{"prompt": "think", "label": "one"}, {"prompt": "slow", "label": "two"}]
    steps = [agent(*tasks, wait=True), says("read"), says("read")]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        await scene.ask()
        await settle()
        await scene.send(type="interrupt")
        await settle()
        assert children.child("two").interrupts == 0
        assert children.open_now == 2
        children.child("two").says(Turned(TurnReport(text="late")))
        await settle()
        assert sorted(notes(scene)) == ["[Subagent Completed: one]", "[Subagent Completed: two]"]


async def test_their_turns_end_with_the_parents_when_that_is_asked_for() -> None:
    children = FakeChildren()
    steps = [agent({"prompt": "slow", "label": "one"}), says("opened"), says("read")]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        await scene.turn()
        await scene.send(type="interrupt", subagents=True)
        await settle()
        assert children.child("one").interrupts == 1
        assert notes(scene) == ["[Subagent Failed: one]"]


async def test_a_crash_in_a_turn_has_failed_and_one_without_work_goes_silently() -> None:
    children = FakeChildren()
    tasks = [{"prompt": "slow", "label": "busy"}, {"prompt": "think", "label": "idle"}]
    steps = [agent(*tasks), says("opened"), says("read"), says("read")]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        await scene.turn()
        await settle()
        children.child("idle").dies()
        children.child("busy").dies()
        await settle()
        assert sorted(notes(scene)) == ["[Subagent Completed: idle]", "[Subagent Failed: busy]"]
        assert {row["status"] for row in rows(scene)} == {"closed"}
        assert children.open_now == 0


async def test_what_could_not_be_opened_is_said_in_the_result() -> None:
    children = FakeChildren(refuses="No worker could be started.")
    steps = [agent({"prompt": "think", "label": "one"}), says("no")]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        lines = await scene.turn()
        assert "one: not opened: No worker could be started." in result(lines)["error"]
        assert rows(scene)[0]["status"] == "closed"
        assert notes(scene) == []


async def test_one_that_is_closed_goes_silently_and_is_opened_again_for_more() -> None:
    children = FakeChildren()
    steps = [agent({"prompt": "slow", "label": "one"}), says("opened"), says("read")]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        await scene.turn()
        await scene.send(type="command", id="1", name="close_subagent", args={"id": "one"})
        await settle()
        assert children.open_now == 0
        assert children.opened[0].stops == 1
        assert notes(scene) == []
        assert rows(scene)[0]["status"] == "closed"
        await scene.send(
            type="command", id="2", name="subagent_input", args={"id": "one", "text": "think"}
        )
        await settle()
        assert children.opened[1].thread == children.opened[0].thread
        assert notes(scene) == ["[Subagent Completed: one]"]


async def test_one_that_is_closed_under_a_call_that_waits_for_it_ends_the_wait() -> None:
    children = FakeChildren()
    tasks = [{"prompt": "think", "label": "one"}, {"prompt": "slow", "label": "two"}]
    steps = [agent(*tasks, wait=True), says("read")]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        await scene.ask()
        await settle()
        await scene.send(type="command", id="1", name="close_subagent", args={"id": "two"})
        await scene.wait_end()
        told = result(scene.lines.lines)
        assert "[Subagent Completed: one]" in told["output"]
        assert "two: closed before it was done" in told["error"]
        assert notes(scene) == []


async def test_of_two_with_one_label_only_a_thread_id_names_one() -> None:
    children = FakeChildren()
    tasks = [{"prompt": "slow", "label": "müde 🐙"}] * 2
    steps = [agent(*tasks), says("opened"), says("read")]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        await scene.turn()
        for name in ("müde 🐙", children.opened[1].thread.conversation_id):
            await scene.send(type="command", id=name, name="close_subagent", args={"id": name})
            await settle()
        answers = [line for line in scene.lines.lines if line["type"] == "command_result"]
        assert [answer["success"] for answer in answers] == [False, True]
        assert "thread id" in str(answers[0])
        assert [child.stops for child in children.opened] == [0, 1]


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("close_subagent", {"id": "nobody"}, "unknown_subagent"),
        ("subagent_input", {"id": "nobody", "text": "x"}, "unknown_subagent"),
        ("subagent_input", {"id": "nobody"}, "bad_arguments"),
        ("close_subagent", {}, "bad_arguments"),
    ],
)
async def test_commands_say_what_is_wrong(name: str, args: dict[str, object], code: str) -> None:
    async with one_session(delegation=parent_of(FakeChildren())) as scene:
        await scene.send(type="command", id="1", name=name, args=args)
        answer = await scene.lines.wait_for(lambda line: line["type"] == "command_result")
        assert answer["code"] == code


MINUTE = 60.0


@virtual_time
async def test_an_idle_child_is_closed_after_a_while_and_a_job_of_its_own_keeps_it() -> None:
    children = FakeChildren()
    tasks = [{"prompt": "think", "label": "one"}, {"prompt": "think", "label": "jobs"}]
    steps = [agent(*tasks), says("opened"), says("read"), says("read")]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        await scene.turn()
        await anyio.sleep(1)
        children.child("jobs").says(Counted(0, 0, jobs=1))
        await anyio.sleep(4 * MINUTE)
        assert children.open_now == 2
        requests = len(scene.model.requests)
        await anyio.sleep(2 * MINUTE)
        assert children.open_now == 1
        assert children.child("one").stops == 1
        assert "[Subagent Closed: one]" in notes(scene)
        assert len(scene.model.requests) == requests, "a note that asks for nothing wakes nobody"
        children.child("jobs").says(Counted(0, 0, jobs=0))
        await anyio.sleep(2 * MINUTE)
        assert children.open_now == 0


async def test_of_many_idle_children_those_that_have_been_so_longest_are_closed() -> None:
    """Each is a process: opening some again and again must not fill the machine."""
    children = FakeChildren()
    rounds = [agent({"prompt": "think", "label": f"{n}"}, wait=True) for n in range(4)]
    steps = [step for each in rounds for step in (each, says("read"))]
    limits = held_to(max_parallel=2, idle_timeout=0)
    async with one_session(*steps, delegation=parent_of(children), equip=limits) as scene:
        for _ in rounds:
            await scene.turn()
            await settle()
        assert children.open_now == 2
        assert [child.stops for child in children.opened] == [1, 1, 0, 0]
        assert notes(scene) == ["[Subagent Closed: 0]", "[Subagent Closed: 1]"]


@virtual_time
async def test_one_that_waits_for_a_person_is_kept_for_a_day_and_never_stopped() -> None:
    children = FakeChildren()
    steps = [agent({"prompt": "slow", "label": "one"}), says("opened")]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        await scene.turn()
        children.child("one").says(Asked((Ask(id="i", message="may I?"),)))
        await anyio.sleep(23 * 60 * MINUTE)
        assert children.open_now == 1
        await anyio.sleep(2 * 60 * MINUTE)
        assert children.open_now == 0
        assert children.child("one").stops == 0, "its decision is a person's, also later"


@virtual_time
async def test_without_a_timeout_an_idle_child_stays() -> None:
    children = FakeChildren()
    steps = [agent({"prompt": "think", "label": "one"}), says("opened"), says("read")]
    async with one_session(
        *steps, delegation=parent_of(children), equip=held_to(idle_timeout=0)
    ) as scene:
        await scene.turn()
        await anyio.sleep(24 * 60 * MINUTE)
        assert children.open_now == 1


async def test_a_parent_that_comes_back_follows_those_at_work_again() -> None:
    """Its worker was killed; the children are the daemon's, and went on."""
    history, children = FakeHistory(), FakeChildren()
    tasks = [{"prompt": "slow", "label": "one"}, {"prompt": "think", "label": "idle"}]
    steps = [agent(*tasks), says("opened"), says("read")]
    async with one_session(*steps, delegation=parent_of(children), history=history) as scene:
        await scene.turn()
        await settle()
    again = FakeChildren()
    async with one_session(says("read"), delegation=parent_of(again), history=history) as scene:
        await settle()
        (child,) = again.opened
        assert child.thread.label == "one"
        assert "[Subagent Completed: one]" in notes(scene)
        assert "What it had said." in scene.model.requests[0].messages[-1].text
        assert {row["label"]: row["status"] for row in rows(scene)} == {
            "one": "idle",
            "idle": "closed",
        }


async def test_children_that_were_processes_of_its_own_have_ended_with_it() -> None:
    history = FakeHistory()
    children = FakeChildren(children_last=False)
    steps = [agent({"prompt": "slow", "label": "one"}), says("opened")]
    async with one_session(*steps, delegation=parent_of(children), history=history) as scene:
        await scene.turn()
    again = FakeChildren(children_last=False)
    async with one_session(says("read"), delegation=parent_of(again), history=history) as scene:
        await settle()
        assert again.opened == []
        assert notes(scene) == ["[Subagent Failed: one]"]
    third = FakeChildren(children_last=False)
    async with one_session(delegation=parent_of(third), history=history) as scene:
        await settle()
        assert notes(scene) == ["[Subagent Failed: one]"], "once"


async def test_what_a_childs_own_children_wait_for_is_listed_at_the_root_too() -> None:
    children = FakeChildren()
    steps = [agent({"prompt": "slow", "label": "one"}), says("opened")]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        await scene.turn()
        below = {"subagent-x": {"status": "waiting", "interrupts": [{"id": "i"}]}}
        children.child("one").says(Nested(below))
        await settle()
        assert rows(scene)[0]["subagents"] == below


async def test_a_note_waits_while_a_person_has_to_decide() -> None:
    children = FakeChildren()
    steps = [
        agent({"prompt": "slow", "label": "one"}),
        call("Do", {"what": "x"}, "t2"),
        says("done"),
    ]
    async with one_session(*steps, delegation=parent_of(children)) as scene:
        await scene.turn()
        assert scene.session.conversation.suspended is not None
        children.child("one").says(Asked((Ask(id="i", message="may I?"),)))
        await settle()
        queued = [each.message.text for each in scene.session.conversation.queue]
        assert queued[0].startswith("[Subagent Awaiting Approval: one]")
        start = len(scene.lines.lines)
        await scene.answer(t2={"approved": True})
        await scene.wait_end(start)
        judge(scene.lines.lines)


async def test_a_subagent_reports_each_turn_and_not_each_run() -> None:
    delegation = Delegation(reports=True)
    steps = [call("Look", {"what": "a"}), call("Do", {"what": "b"}, "t2"), says("all done")]
    async with one_session(*steps, RuntimeError("a bug"), delegation=delegation) as scene:
        lines = await scene.turn()
        assert not [line for line in lines if line["type"] == "CUSTOM"], "it only asked"
        start = len(scene.lines.lines)
        await scene.answer(t2={"approved": True})
        await scene.wait_end(start)
        report = next(line for line in scene.lines.lines if line.get("name") == "subagent_turn")
        assert report["value"] == {
            "final_assistant": "all done",
            "success": True,
            "session_id": "c",
            "done": True,
            "stats": {
                "tools_succeeded": 2,
                "tools_failed": 0,
                "input_tokens": 30,
                "output_tokens": 15,
            },
        }
        assert scene.types()[-2:] == ["CUSTOM", "RUN_FINISHED"]
        await scene.turn("again", "m2")
        failed: Any = scene.lines.lines[-2]["value"]
        assert failed["success"] is False
        assert failed["error"]
        judge(scene.lines.lines)


async def test_a_turn_that_has_another_behind_it_is_not_done() -> None:
    gate = anyio.Event()
    steps = [call("Look", {"what": "a"}), says("first"), says("second")]
    tool = FakeTool(work=gate.wait)
    async with one_session(*steps, delegation=Delegation(reports=True), tool=tool) as scene:
        scene.add_tool(FakeTool("Look", effect=scene.tools["Look"].spec.effect, work=gate.wait))
        await scene.ask("one", "m1")
        await settle()
        await scene.ask("two", "m2", forwardedProps={"roost.lane": "follow_up"})
        gate.set()
        await settle()
        values: list[Any] = [
            line["value"] for line in scene.lines.lines if line["type"] == "CUSTOM"
        ]
        assert [(v["final_assistant"], v["done"]) for v in values] == [
            ("first", False),
            ("second", True),
        ]
