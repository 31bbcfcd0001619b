"""The answer that is made of what a person chose, one decision after the other."""

import json

from connection.shapes import Answer
from roost.chat.decisions import Deciding, Decision, Question, decisions_of

APPROVAL = Decision(interrupt_id="i1", call_id="c1", tool="Bash", arguments="{}")
ANOTHER = Decision(interrupt_id="i2", call_id="c2", tool="Write", arguments="{}")
TWO = Decision(
    interrupt_id="q",
    call_id="q",
    tool="AskUserQuestion",
    arguments="",
    questions=(
        Question(text="Which?", header="W", options=(("a", ""), ("b", ""))),
        Question(text="Why?"),
    ),
)


def test_nothing_is_answered_before_the_last_decision_is_made() -> None:
    deciding = Deciding((APPROVAL, ANOTHER))
    assert deciding.place == "1 of 2"
    deciding.approve()
    assert deciding.answers() is None
    assert deciding.current is ANOTHER
    deciding.decline("too risky")
    assert deciding.answers() == [
        Answer(interrupt_id="i1", approved=True),
        Answer(
            interrupt_id="i2", approved=False, payload={"approved": False, "reason": "too risky"}
        ),
    ]


def test_approving_all_stops_at_a_question() -> None:
    deciding = Deciding((APPROVAL, ANOTHER, TWO, APPROVAL))
    deciding.approve(all_left=True)
    assert deciding.current is TWO


def test_questions_are_answered_in_their_order_and_shape() -> None:
    deciding = Deciding((TWO,))
    deciding.reply(["b"])
    assert deciding.answers() is None
    deciding.reply([], "because")
    (answer,) = deciding.answers() or []
    assert answer.payload == {
        "answers": [
            {"header": "W", "question": "Which?", "selectedLabels": ["b"], "otherText": None},
            {"header": "", "question": "Why?", "selectedLabels": [], "otherText": "because"},
        ]
    }


def test_a_dismissed_question_forgets_its_half_answer() -> None:
    deciding = Deciding((TWO, APPROVAL))
    deciding.reply(["b"])
    deciding.decline()
    deciding.approve()
    assert [a.approved for a in deciding.answers() or []] == [False, True]


def test_questions_are_read_from_the_call() -> None:
    options = [{"label": "x", "description": "the first"}]
    asked = {"questions": [{"question": "Which?", "options": options, "multiSelect": True}]}
    interrupts = [{"id": "q", "reason": "input_required", "toolCallId": "q", "message": "one line"}]
    (decision,) = decisions_of(interrupts, {"q": "AskUserQuestion"}, {"q": json.dumps(asked)})
    (question,) = decision.questions
    assert question.options == (("x", "the first"),)
    assert question.allows_several


def test_a_question_whose_call_is_unknown_still_can_be_answered() -> None:
    interrupts = [{"id": "q", "reason": "input_required", "message": "Which way?"}]
    (decision,) = decisions_of(interrupts, {}, {})
    assert decision.questions == (Question(text="Which way?"),)
