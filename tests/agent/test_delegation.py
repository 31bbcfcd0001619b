"""Which tasks may be given on, as which threads: pure decisions, and what is known of a child."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agent.domain.approval import Effect, Mode
from agent.domain.children import Child, Note
from agent.domain.delegation import LONGEST_TEXT, Parent, Refused, label_of, plan
from agent.domain.lineage import ChildThread, Lineage
from agent.domain.subagents import (
    Ask,
    Asked,
    Began,
    Broke,
    Delegation,
    Limits,
    Preset,
    Settled,
    Task,
    Turned,
    TurnReport,
)
from tests.agent.support.fake_children import FakeChildren
from tests.agent.support.fakes import counting_ids

TOOLS = {
    "Read": Effect.READS,
    "TodoWrite": Effect.NOTES,
    "WebFetch": Effect.FETCHES,
    "AskUserQuestion": Effect.ASKS,
    "Agent": Effect.DELEGATES,
    "Write": Effect.CHANGES,
    "Bash": Effect.RUNS,
}
READ_ONLY = ["AskUserQuestion", "Read", "TodoWrite", "WebFetch"]
EVERYTHING = sorted(TOOLS.keys() - {"Agent"})


def no_model(name: str) -> None:
    raise ValueError(f"There is no model {name!r}.")


def outside(path: str) -> str:
    raise ValueError(f"{path} is outside of the folders that may be used.")


def parent(**more: Any) -> Parent:
    values: dict[str, Any] = {
        "conversation_id": "p",
        "project_dir": "/project",
        "delegation": Delegation(open_child=FakeChildren()),
        "limits": Limits(),
        "mode": "standard",
        "model": "demo:scripted",
        "tools": TOOLS,
        "at_work": 0,
    }
    return Parent(**{**values, **more})


def planned(task: Task, **more: Any) -> ChildThread:
    (thread,) = plan([task], parent(**more), counting_ids())
    return thread


def tools(task: Task, **more: Any) -> list[str]:
    return planned(task, **more).lineage.tools


def test_it_is_read_only_until_more_is_asked_for() -> None:
    assert tools(Task(prompt="x")) == READ_ONLY
    assert tools(Task(prompt="x", kind="ReadWrite")) == EVERYTHING


def test_a_parent_in_plan_mode_gives_no_more_than_reading() -> None:
    assert tools(Task(prompt="x", kind="ReadWrite"), mode="plan") == READ_ONLY


def test_a_list_narrows_and_may_come_out_empty() -> None:
    assert tools(Task(prompt="x", tools=("Read", "Bash"))) == ["Read"]
    assert tools(Task(prompt="x", tools=("Bash",))) == []
    assert tools(Task(prompt="x", tools=())) == []


def test_a_tool_that_the_parent_has_not_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="no tool Sudo"):
        plan([Task(prompt="x", tools=("Read", "Sudo"))], parent(), counting_ids())


def test_a_preset_lists_what_it_needs_and_what_it_never_gets() -> None:
    preset = Preset(
        name="fixer",
        description="",
        scope="user",
        instructions="Fix it.",
        model="a:b",
        tools=("Read", "Write", "Elsewhere"),
        disallowed=("Read",),
    )
    thread = planned(Task(prompt="x", preset="fixer"), presets=[preset])
    assert thread.lineage.tools == ["Write"], "a preset that lists its tools was asked for"
    assert (thread.instructions, thread.model) == ("Fix it.", "a:b")
    narrow = Task(prompt="x", preset="fixer", kind="ReadOnly", model="c:d")
    assert planned(narrow, presets=[preset]).lineage.tools == []
    assert planned(narrow, presets=[preset]).model == "c:d"
    with pytest.raises(Refused, match=r"no agent 'nobody'. Known: fixer"):
        plan([Task(prompt="x", preset="nobody")], parent(presets=[preset]), counting_ids())


def test_a_child_that_may_open_some_itself_gets_the_tools_for_it() -> None:
    assert "Agent" in tools(Task(prompt="x"), limits=Limits(max_depth=2))
    assert "Agent" not in tools(Task(prompt="x"), limits=Limits(max_depth=1))


def test_one_that_nobody_can_answer_gets_no_questions_to_ask() -> None:
    kept = Delegation(open_child=FakeChildren(children_last=False))
    assert "AskUserQuestion" not in tools(Task(prompt="x"), delegation=kept)


@pytest.mark.parametrize(
    ("has", "wants", "gets"),
    [
        ("standard", None, "standard"),
        ("auto", None, "auto"),
        ("auto", "plan", "plan"),
        ("auto-with-judge", "standard", "standard"),
        ("standard", "auto", None),
        ("plan", "standard", None),
        ("standard", "auto-with-judge", None),
        ("auto", "nonsense", None),
    ],
)
def test_a_mode_is_given_on_and_never_one_that_allows_more(
    has: Mode, wants: str | None, gets: str | None
) -> None:
    """A model could else help itself to what its person did not allow."""
    task = Task(prompt="x", mode=wants)
    if gets is None:
        with pytest.raises(Refused):
            plan([task], parent(mode=has), counting_ids())
    else:
        assert planned(task, mode=has).mode == gets


@pytest.mark.parametrize(
    ("tasks", "more", "names"),
    [
        ([], {}, "no task"),
        ([Task(prompt="ok"), Task(prompt=" \n")], {}, "a prompt must have"),
        ([Task(prompt="x" * (LONGEST_TEXT + 1))], {}, "a prompt must have"),
        ([Task(prompt="x")] * 50, {}, "subagents.max_parallel"),
        ([Task(prompt="x", model="a:b")], {"check_model": no_model}, "no model 'a:b'"),
        ([Task(prompt="x", directory="/etc")], {"place": outside}, "outside"),
        ([Task(prompt="x")], {"at_work": 8}, "subagents.max_parallel"),
        ([Task(prompt="x")] * 9, {}, "subagents.max_parallel"),
        ([Task(prompt="x", max_turns=51)], {}, "subagents.max_turns"),
        ([Task(prompt="x", max_turns=0)], {}, "subagents.max_turns"),
        ([Task(prompt="x")], {"limits": Limits(max_depth=0)}, "subagents.max_depth"),
        ([Task(prompt="x")], {"conversation_id": "p" * 250}, "too long"),
        ([Task(prompt="ok"), Task(prompt="x", mode="auto")], {}, "allows more"),
    ],
)
def test_a_refusal_says_which_limit_or_name_it_was(
    tasks: list[Task], more: dict[str, Any], names: str
) -> None:
    with pytest.raises(Refused, match=names):
        plan(tasks, parent(**more), counting_ids())


def test_a_label_is_short_and_one_line() -> None:
    assert label_of(Task(prompt="read\n it", label="")) == "read it"
    assert len(label_of(Task(prompt="x" * 500))) == 60
    assert label_of(Task(prompt="x", label="müde\t🐙\u2028 子")) == "müde 🐙 子"


REPORTS = st.builds(
    TurnReport, text=st.sampled_from(["", "said"]), success=st.booleans(), done=st.booleans()
)


class ChildMachine(RuleBasedStateMachine):
    """Whatever comes in whatever order: what is told is what happened."""

    def __init__(self) -> None:
        super().__init__()
        lineage = Lineage(parent="p")
        thread = ChildThread(
            conversation_id="subagent-p-1", project_dir="/", label="one", lineage=lineage
        )
        self.child = Child(thread)
        self.now = 0.0
        self.turns = 0

    def takes(self, news: Any) -> Note | None:
        self.now += 1
        return self.child.take(news, self.now)

    @rule()
    def begins(self) -> None:
        assert self.takes(Began()) is None
        assert self.child.status == "running"

    @rule(report=REPORTS)
    def turns_end(self, report: TurnReport) -> None:
        note = self.takes(Turned(report))
        assert note is not None
        assert note.how == ("Completed" if report.success else "Failed")
        assert note.wakes
        assert self.child.is_at_work != report.done
        self.turns += 1

    @rule()
    def breaks(self) -> None:
        note = self.takes(Broke("It ended."))
        assert note is not None
        assert note.how == "Failed"
        assert not self.child.is_at_work
        self.turns += 1

    @rule(name=st.sampled_from(["i", "j"]))
    def asks(self, name: str) -> None:
        was = self.child.asks
        note = self.takes(Asked((Ask(id=name),)))
        assert (note is None) == (was == (Ask(id=name),))
        assert note is None or not note.wakes
        assert self.child.status == "waiting"

    @rule()
    def is_found_idle(self) -> None:
        was_at_work = self.child.is_at_work
        note = self.takes(Settled("said"))
        self.turns += note is not None
        assert (note is not None) == was_at_work
        assert not self.child.is_at_work

    @rule()
    def is_sent_more(self) -> None:
        self.child.sent()
        assert self.child.is_at_work

    @rule()
    def is_lost(self) -> None:
        status = self.child.status
        note = self.child.lost("It ended.")
        assert (note is not None) == (status in ("starting", "running"))
        assert self.child.status == "closed"

    @rule()
    def is_closed(self) -> None:
        self.child.close()
        assert not self.child.is_open

    @invariant()
    def the_row_tells_it(self) -> None:
        row = self.child.row()
        assert row["status"] == self.child.status
        assert row["turns"] == self.turns
        if self.child.status in ("idle", "running"):
            assert row["interrupts"] == []
        assert (self.child.resting_since is not None) == (self.child.status in ("idle", "waiting"))


ChildMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
test_what_is_known_of_a_child = ChildMachine.TestCase
