"""Questions to the person: what a model may ask, what counts as an answer, and what it is told.

The answers are held against the questions of the call itself, which is in the history, so that an
answer after a crash or a week is judged as one right away.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from agent.domain.conversation import CallRecord
from agent.domain.messages import result_text

INPUT_REQUIRED = "input_required"
TOOL = "AskUserQuestion"
DISMISSED = "The user dismissed the question without an answer."


class BadAnswer(ValueError):
    """The payload does not fit the questions. The message is for its sender."""


class Option(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One answer to choose."""

    label: Annotated[str, Meta(description="The answer in a few words.", min_length=1)]
    description: Annotated[str, Meta(description="What choosing it means.")] = ""


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """One question with the answers to choose from. An answer in own words is always possible."""

    question: Annotated[str, Meta(description="The whole question.", min_length=1)]
    header: Annotated[str, Meta(description="What it is about, in a word or two.")] = ""
    options: Annotated[list[Option], Meta(description="The answers to choose.", max_length=8)] = []
    multiSelect: Annotated[bool, Meta(description="More than one may be chosen.")] = False


class Questions(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of the tool."""

    questions: Annotated[
        list[Question], Meta(description="What to ask, at once.", min_length=1, max_length=6)
    ]


class _Answered(msgspec.Struct, rename="camel"):
    selected_labels: list[str] = []
    other_text: str | None = None
    question: str | None = None


class _Payload(msgspec.Struct):
    answers: list[_Answered]


def questions_of(arguments: str) -> list[Question]:
    """The questions of a call whose arguments were checked when it was made."""
    return msgspec.json.decode(arguments, type=Questions).questions


def response_schema(questions: list[Question]) -> dict[str, object]:
    """What an answer looks like: one entry a question, in their order."""
    entries: list[dict[str, object]] = []
    for question in questions:
        labels: dict[str, object] = {"type": "string"}
        if question.options:
            labels["enum"] = [option.label for option in question.options]
        selected: dict[str, object] = {"type": "array", "items": labels, "uniqueItems": True}
        if not question.multiSelect:
            selected["maxItems"] = 1
        properties: dict[str, object] = {
            "header": {"type": "string"},
            "question": {"type": "string", "const": question.question},
            "selectedLabels": selected,
            "otherText": {"type": ["string", "null"]},
        }
        entries.append({"type": "object", "properties": properties, "required": ["selectedLabels"]})
    count = len(questions)
    answers = {"type": "array", "minItems": count, "maxItems": count, "prefixItems": entries}
    return {"type": "object", "properties": {"answers": answers}, "required": ["answers"]}


def answer_text(questions: list[Question], payload: object) -> str:
    """What the model is told. Raises BadAnswer when the payload is no answer to the questions."""
    try:
        answers = msgspec.convert(payload, _Payload).answers
    except msgspec.ValidationError as exc:
        raise BadAnswer(f"The answer does not fit the question: {exc}.") from exc
    if len(answers) != len(questions):
        raise BadAnswer(
            f"The answer does not fit the question: {len(questions)} answers are needed, in the"
            f" order of the questions; {len(answers)} came."
        )
    pairs = zip(questions, answers, strict=True)
    return "\n".join(f"{question.question} {_words(question, given)}" for question, given in pairs)


def answered(record: CallRecord, payload: object) -> str:
    """The result of a question that was answered, as the tool message carries it."""
    questions = questions_of(record.call.function.arguments)
    return result_text(success=True, output=answer_text(questions, payload))


def _words(question: Question, given: _Answered) -> str:
    if given.question is not None and given.question != question.question:
        raise BadAnswer("The answers must come in the order of the questions.")
    known = {option.label for option in question.options}
    if unknown := [label for label in given.selected_labels if label not in known]:
        raise BadAnswer(
            f"{unknown[0][:80]!r} is no answer to {question.question!r}; what is none of the"
            " options goes into otherText."
        )
    if len(given.selected_labels) > 1 and not question.multiSelect:
        raise BadAnswer(f"Only one answer to {question.question!r} can be chosen.")
    words = [*given.selected_labels, *filter(None, [(given.other_text or "").strip()])]
    if not words:
        raise BadAnswer(f"{question.question!r} has no answer: choose one or write otherText.")
    return "- " + "; ".join(words)
