"""The turns of browser commands, with time as a number: who runs, who waits, who is told what."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agui.browser_turns import MOST_PER_SOURCE, MOST_WAITING, BrowserTurns, Errand


@dataclass(eq=False)
class FakeExtension:
    got: list[bytes] = field(default_factory=list[bytes])

    def send(self, frame: bytes) -> None:
        self.got.append(frame)

    @property
    def ids(self) -> list[str]:
        return [json.loads(frame)["id"] for frame in self.got]


def command(id_: str, **members: Any) -> bytes:
    return json.dumps({"type": "browser_command", "id": id_, "action": "read", **members}).encode()


def result(id_: str, **members: Any) -> bytes:
    return json.dumps({"type": "browser_result", "id": id_, "content": "x", **members}).encode()


class Story:
    """Turns with an extension attached, and what each command was answered."""

    def __init__(self, *, attached: bool = True, longest_result: int = 1000) -> None:
        self.turns = BrowserTurns(longest_result, "connect it to port 7")
        self.extension = FakeExtension()
        self.answers: dict[str, list[dict[str, Any]]] = {}
        if attached:
            self.turns.attach(self.extension)

    def submits(
        self, id_: str, source: object = None, now: float = 0, **members: Any
    ) -> Errand | None:
        answers = self.answers.setdefault(id_, [])

        def answer(frame: bytes) -> None:
            answers.append(json.loads(frame))

        return self.turns.submit(command(id_, **members), source or object(), answer, now)

    def errors(self, id_: str) -> list[str]:
        return [answer["error"] for answer in self.answers[id_]]


def test_a_command_reaches_the_extension_as_it_came_and_its_result_comes_back_as_it_is() -> None:
    story = Story()
    story.submits("a", url="https://x", extra={"deep": [1]})
    assert story.extension.got == [command("a", url="https://x", extra={"deep": [1]})]
    assert story.turns.result(story.extension, result("a", error=""))
    assert story.answers["a"] == [json.loads(result("a", error=""))]


def test_the_second_goes_out_only_after_the_first_was_answered() -> None:
    story = Story()
    story.submits("a")
    story.submits("b")
    assert story.extension.ids == ["a"]
    story.turns.result(story.extension, result("a"))
    assert story.extension.ids == ["a", "b"]


def test_sources_take_turns() -> None:
    """An agent that sends many at once must not keep another one's single command waiting."""
    story = Story()
    for n in range(3):
        story.submits(f"many-{n}", source="many")
    story.submits("one", source="one")
    for id_ in ("many-0", "many-1", "one", "many-2"):
        assert story.extension.ids[-1] == id_
        story.turns.result(story.extension, result(id_))


def test_without_an_extension_the_answer_says_how_to_connect_one() -> None:
    story = Story(attached=False)
    assert story.submits("a") is None
    assert story.errors("a") == ["no browser extension is connected: connect it to port 7"]


def test_an_error_has_the_full_shape_of_a_result() -> None:
    """Readers take every member for granted."""
    story = Story(attached=False)
    story.submits("a")
    (answer,) = story.answers["a"]
    assert answer.pop("error")
    empty: dict[str, Any] = {"url": "", "title": "", "content": "", "events": []}
    assert answer == {"type": "browser_result", "id": "a", **empty}


@pytest.mark.parametrize(
    ("members", "seconds"),
    [
        ({}, 35),
        ({"timeout_ms": 2000}, 7),
        ({"timeout_ms": 0}, 35),
        ({"timeout_ms": -5}, 35),
        ({"timeout_ms": None}, 35),
        ({"timeout_ms": 10**12}, 605),
    ],
)
def test_silence_ends_with_an_error_that_names_the_action(
    members: dict[str, Any], seconds: float
) -> None:
    story = Story()
    story.submits("a", now=100, **members)
    story.turns.expire(100 + seconds - 0.01)
    assert story.answers["a"] == []
    assert story.turns.next_deadline == 100 + seconds
    story.turns.expire(100 + seconds)
    assert story.errors("a") == [f"read: the browser did not answer within {seconds} seconds"]


def test_waiting_counts_against_the_deadline() -> None:
    story = Story()
    story.submits("slow", timeout_ms=60_000)
    story.submits("quick", timeout_ms=1000)
    story.turns.expire(6)
    assert story.errors("quick") == ["read: the browser was busy with other commands for 6 seconds"]
    story.turns.result(story.extension, result("slow"))
    assert story.extension.ids == ["slow"]


def test_one_that_gave_up_keeps_the_turn_until_its_deadline() -> None:
    """The browser is still at it; a second command would meet it in the middle of the first."""
    story = Story()
    errand = story.submits("a")
    story.submits("b", timeout_ms=60_000)
    assert errand is not None
    story.turns.give_up(errand)
    assert story.extension.ids == ["a"]
    story.turns.expire(35)
    assert story.extension.ids == ["a", "b"]
    assert story.answers["a"] == []


def test_a_result_for_one_that_gave_up_ends_the_turn_early() -> None:
    story = Story()
    errand = story.submits("a")
    story.submits("b")
    assert errand is not None
    story.turns.give_up(errand)
    assert story.turns.result(story.extension, result("a"))
    assert story.extension.ids == ["a", "b"]
    assert story.answers["a"] == []


def test_one_that_gave_up_while_it_waited_is_never_sent() -> None:
    story = Story()
    story.submits("a")
    waiting = story.submits("b")
    assert waiting is not None
    story.turns.give_up(waiting)
    story.turns.result(story.extension, result("a"))
    assert story.extension.ids == ["a"]
    assert story.turns.next_deadline is None


def test_a_late_answer_is_not_taken_for_that_of_another_command_with_the_same_id() -> None:
    story = Story()
    story.submits("1", timeout_ms=1000)
    story.turns.expire(6)
    story.submits("1", now=7)
    assert story.extension.ids == ["1"]
    assert "take a fresh id" in story.errors("1")[1]
    assert not story.turns.result(story.extension, result("1"))
    story.submits("1", now=8)
    assert story.extension.ids == ["1", "1"]


def test_another_browser_owes_no_answers() -> None:
    story = Story()
    story.submits("1", timeout_ms=1000)
    story.turns.expire(6)
    second = FakeExtension()
    story.turns.attach(second)
    story.submits("1", now=7)
    assert second.ids == ["1"]


@pytest.mark.parametrize("frame", [result("z"), b'{"type":"browser_result"}', b"no json"])
def test_a_result_that_answers_nothing_changes_nothing(frame: bytes) -> None:
    story = Story()
    story.submits("a")
    assert not story.turns.result(story.extension, frame)
    assert not story.turns.result(FakeExtension(), result("a"))
    assert story.answers["a"] == []


def test_a_replacement_fails_what_runs_and_takes_over_what_waits() -> None:
    story = Story()
    story.submits("a")
    story.submits("b")
    second = FakeExtension()
    assert story.turns.attach(second) is story.extension
    assert "replaced" in story.errors("a")[0]
    assert second.ids == ["b"]
    assert not story.turns.result(story.extension, result("b"))
    assert story.turns.detach(story.extension) is False
    assert story.turns.result(second, result("b"))


def test_an_extension_that_leaves_fails_everything_at_once() -> None:
    story = Story()
    story.submits("a")
    story.submits("b")
    assert story.turns.detach(story.extension)
    assert "disconnected" in story.errors("a")[0]
    assert "no browser extension" in story.errors("b")[0]
    assert story.turns.next_deadline is None


@pytest.mark.parametrize(
    ("frame", "id_"),
    [
        (b'{"type":"browser_command","id":"a"}', "a"),
        (b'{"type":"browser_command","action":"read"}', ""),
        (b'{"type":"browser_command","id":7,"action":"read"}', ""),
        (b'{"type":"browser_command","id":"a","action":"read","timeout_ms":"x"}', "a"),
    ],
)
def test_a_command_that_makes_no_sense_is_answered_all_the_same(frame: bytes, id_: str) -> None:
    story = Story()
    answers: list[bytes] = []
    assert story.turns.submit(frame, object(), answers.append, 0) is None
    (answer,) = map(json.loads, answers)
    assert answer["id"] == id_
    assert answer["error"].startswith("browser_command: ")


def test_a_result_too_large_for_its_reader_becomes_an_error() -> None:
    """A worker's line has a limit; without an answer its tool would wait for ever."""
    story = Story(longest_result=100)
    story.submits("a")
    assert story.turns.result(story.extension, result("a", content="x" * 200))
    assert "100 fit" in story.errors("a")[0]


def test_what_waits_is_bounded_for_each_source_and_in_all() -> None:
    story = Story()
    for n in range(MOST_PER_SOURCE + 1):
        story.submits(f"a{n}", source="a")
    assert story.submits("one too many", source="a") is None
    assert "too many" in story.errors("one too many")[0]
    for n in range(MOST_WAITING):
        story.submits(f"b{n}")
    assert story.submits("much too many") is None


steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(0, 3)),
        st.tuples(st.just("result"), st.integers(0, 40)),
        st.tuples(st.just("give up"), st.integers(0, 40)),
        st.tuples(st.just("attach"), st.just(0)),
        st.tuples(st.just("detach"), st.just(0)),
        st.tuples(st.just("wait"), st.integers(1, 20)),
    ),
    max_size=60,
)


@given(steps)
def test_whatever_happens_each_command_is_answered_exactly_once_and_one_runs_at_a_time(
    steps: list[tuple[str, int]],
) -> None:
    turns = BrowserTurns(1000)
    now = 0.0
    answers: dict[str, int] = {}
    errands: dict[str, Errand] = {}
    gave_up: set[str] = set()
    busy: dict[str, float] = {}  # what the browser works on, by its deadline

    class Watching(FakeExtension):
        def send(self, frame: bytes) -> None:
            assert not busy, "two at a time"
            id_ = json.loads(frame)["id"]
            busy[id_] = now + 35
            super().send(frame)

    def submit(source: int) -> None:
        id_ = f"c{len(answers)}"
        answers[id_] = 0

        def answer(frame: bytes) -> None:
            answers[id_] += 1
            busy.pop(id_, None)

        errand = turns.submit(command(id_), source, answer, now)
        if errand is not None:
            errands[id_] = errand

    for step, n in steps:
        if step == "submit":
            submit(n)
        elif step == "wait":
            now += n
            for id_ in [id_ for id_, deadline in busy.items() if deadline <= now]:
                del busy[id_]
            turns.expire(now)
        elif step == "attach":
            busy.clear()
            turns.attach(Watching())
        elif step == "detach" and turns.extension is not None:
            busy.clear()
            turns.detach(turns.extension)
        elif step == "result" and turns.extension is not None:
            busy.pop(f"c{n}", None) if f"c{n}" in busy else None
            turns.result(turns.extension, result(f"c{n}"))
        elif step == "give up" and f"c{n}" in errands and not answers[f"c{n}"]:
            gave_up.add(f"c{n}")
            turns.give_up(errands[f"c{n}"])
    busy.clear()
    while (deadline := turns.next_deadline) is not None:
        now = max(now, deadline)
        busy.clear()
        turns.expire(now)
    for id_, count in answers.items():
        assert count == (0 if id_ in gave_up else 1), id_
