"""What an agent waits for, as a chat shows and answers it. Pure.

A `Decision` is one interrupt: an approval, or questions. All that a run waits for is answered in
one resume, so a decision that was made waits for the others of its thread; then `resume` has them
all. What was decided elsewhere closes here.
"""

import json
from collections.abc import Sequence
from typing import Any, Literal, cast

import msgspec

from roost.channels.domain.escaping import block, code, inline, shortened
from roost.channels.domain.messages import Button
from roost.channels.domain.thread_reader import Asked, Call

YES = frozenset({"yes", "y", "approve", "approved", "ok", "okay"})
# Past it a call is shown as a file: a decision must be readable without scrolling.
LONGEST_SHOWN = 1500
LONGEST_FILE = 2**20
_LONGEST_LABEL = 48
_LONGEST_LINE = 160
_LONGEST_REASON = 300

Verdict = Literal["approved", "declined", "answered", "dismissed"]


class Question(msgspec.Struct):
    """One question of an `AskUserQuestion` call."""

    header: str
    text: str
    options: list[tuple[str, str]]
    """Label and description."""
    is_multi: bool = False
    chosen: list[str] = []
    other: str = ""
    is_answered: bool = False


class Decision(msgspec.Struct, kw_only=True):
    """One interrupt, from its question to its end."""

    id: str
    number: int
    """Names it in buttons."""
    project_dir: str
    conversation_id: str
    title: str
    body: str = ""
    """What would run, in full."""
    questions: list[Question] = []
    verdict: Verdict | None = None
    by: str = ""
    reason: str = ""
    is_sent: bool = False
    """The answer is on its way."""
    is_closed: bool = False
    where: str = ""
    """Where it was decided, once it is closed."""

    @property
    def is_question(self) -> bool:
        return bool(self.questions)

    def decide(self, verdict: Verdict, by: str, reason: str = "") -> None:
        self.verdict, self.by, self.reason = verdict, by, reason

    def reopen(self) -> None:
        """The answer did not count: ask again."""
        self.verdict, self.by, self.reason, self.is_sent = None, "", "", False
        for question in self.questions:
            question.chosen, question.other, question.is_answered = [], "", False

    def close(self, where: str) -> None:
        self.is_closed, self.where = True, where

    def answered_all(self, by: str) -> None:
        if all(question.is_answered for question in self.questions):
            self.decide("answered", by)


def decision_of(asked: Asked, number: int, project_dir: str, conversation_id: str) -> Decision:
    """What an interrupt asks."""
    questions = _questions(asked.call) if asked.reason == "input_required" else []
    name = asked.call.name if asked.call else "Something"
    if asked.reason == "input_required" and not questions:
        questions = [Question("", asked.message or "The agent asks you something.", [])]
    return Decision(
        id=asked.id,
        number=number,
        project_dir=project_dir,
        conversation_id=conversation_id,
        title="The agent asks" if questions else f"{name} waits for your approval",
        body="" if questions else call_text(asked.call, asked.message),
        questions=questions,
    )


def resume(decisions: Sequence[Decision]) -> list[dict[str, Any]]:
    """The entries of the one run input that answers them all."""
    return [_entry(decision) for decision in decisions]


def _entry(decision: Decision) -> dict[str, Any]:
    entry: dict[str, Any] = {"interruptId": decision.id, "status": "cancelled"}
    match decision.verdict:
        case "approved":
            entry["status"] = "resolved"
        case "answered":
            entry["status"] = "resolved"
            entry["payload"] = {"answers": [_answer(q) for q in decision.questions]}
        case _:
            if decision.reason:
                entry["payload"] = {"reason": decision.reason}
    return entry


def _answer(question: Question) -> dict[str, Any]:
    return {
        "header": question.header,
        "question": question.text,
        "selectedLabels": question.chosen,
        "otherText": question.other or None,
    }


# What a chat shows


def ask_text(decision: Decision, heading: str = "") -> str:
    """An approval's text. A long one has its body in a file."""
    parts = [heading, f"**{decision.title}**"]
    if len(decision.body) <= LONGEST_SHOWN:
        parts.append(decision.body)
    elif decision.verdict is None and not decision.is_closed:
        parts.append("What would run is in the file.")
    parts.append(outcome_text(decision))
    return "\n\n".join(part for part in parts if part)


def question_text(decision: Decision, question: Question, heading: str = "") -> str:
    title = f"**{inline(question.header)}**" if question.header else ""
    options = [
        f"- **{inline(label)}**: {inline(description)}"
        for label, description in question.options
        if description
    ]
    shown = [heading, title, question.text, "\n".join(options)]
    if decision.is_closed or decision.verdict is not None or question.is_answered:
        answer = ", ".join([*question.chosen, *filter(None, [question.other])])
        if answer and not (decision.is_closed and decision.verdict is None):
            shown.append(f"Answer: {inline(answer)}")
        shown.append(outcome_text(decision))
    else:
        shown.append("_Reply to this message to answer in your own words._")
    return "\n\n".join(part for part in shown if part)


def outcome_text(decision: Decision) -> str:
    """What was decided, where, and whether it counts yet."""
    if decision.is_closed and decision.verdict is None:
        return f"☑️ Decided {inline(decision.where or 'elsewhere')}."
    if decision.verdict is None:
        return ""
    mark = "✅" if decision.verdict in ("approved", "answered") else "🚫"
    words = f"{mark} {decision.verdict.capitalize()}"
    if decision.by:
        words += f" by {inline(decision.by)}"
    if decision.reason:
        words += f": {inline(shortened(decision.reason, _LONGEST_REASON))}"
    if decision.is_closed:
        return f"{words}, {inline(decision.where or 'here')}."
    return (
        f"{words}. {'Telling the agent…' if decision.is_sent else 'The agent waits for the rest.'}"
    )


def buttons_of(decision: Decision, index: int = 0) -> list[list[Button]]:
    """What can be pressed now; nothing once it was decided."""
    if decision.verdict is not None or decision.is_closed:
        return []
    name = f"decide {decision.number} {index}"
    if not decision.is_question:
        return [[Button("✅ Approve", f"{name} approve"), Button("🚫 Decline", f"{name} decline")]]
    question = decision.questions[index]
    if question.is_answered:
        return []
    rows: list[list[Button]] = []
    for place, (label, _) in enumerate(question.options):
        mark = "☑️ " if label in question.chosen else ""
        rows.append([Button(mark + shortened(label, _LONGEST_LABEL), f"{name} option {place}")])
    last = [Button("Dismiss", f"{name} dismiss")]
    if question.is_multi and question.options:
        last.insert(0, Button("Done", f"{name} done"))
    return [*rows, last]


def file_text(decision: Decision) -> str | None:
    """The body as a file, when it is too long for a message."""
    if len(decision.body) <= LONGEST_SHOWN:
        return None
    if len(decision.body) <= LONGEST_FILE:
        return decision.body
    return (
        decision.body[:LONGEST_FILE]
        + "\n\n(Cut here: this is too long for a chat. Decide it at a computer.)\n"
    )


def call_text(call: Call | None, message: str = "") -> str:
    """All of a call's arguments, one below the other, long ones in blocks."""
    if call is None:
        return message or "(The agent did not say what.)"
    arguments = _arguments(call)
    if arguments is None:
        return block(call.arguments) if call.arguments else message
    return "\n\n".join(_argument(name, value) for name, value in arguments.items()) or message


def call_line(call: Call) -> str:
    """A call in one line: its name, and the first thing that it is about."""
    arguments = _arguments(call) or {}
    subject = next((value for value in arguments.values() if isinstance(value, str)), "")
    line = shortened(" ".join(subject.split()), _LONGEST_LINE)
    mark = {None: "▸", True: "✓", False: "✗"}[call.succeeded]
    return f"{mark} {inline(call.name)} {code(line)}".rstrip()


def _arguments(call: Call) -> dict[str, Any] | None:
    try:
        found: object = json.loads(call.arguments)
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _argument(name: str, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return f"{inline(name)}:\n{block(text)}"


class _Option(msgspec.Struct):
    label: str
    description: str = ""


class _Question(msgspec.Struct, rename="camel"):
    question: str = ""
    header: str = ""
    options: list[_Option] = []
    multi_select: bool = False


class _Questions(msgspec.Struct):
    questions: list[_Question]


def _questions(call: Call | None) -> list[Question]:
    """The questions of a call; none when its arguments are not what they should be."""
    try:
        found = msgspec.json.decode(call.arguments if call else "", type=_Questions)
    except msgspec.MsgspecError:
        return []
    return [
        Question(
            q.header, q.question, [(o.label, o.description) for o in q.options], q.multi_select
        )
        for q in found.questions
    ]
