"""What waits for the person, and the answer that is made of what they chose. Pure.

All open decisions of a run are answered at once, so each is kept here until the last is made.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from connection.shapes import Answer

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question with the answers to choose from; words of one's own are always possible."""

    text: str
    header: str = ""
    options: tuple[tuple[str, str], ...] = ()
    """Label and description."""
    allows_several: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An approval, or questions."""

    interrupt_id: str
    call_id: str
    tool: str
    arguments: str
    message: str = ""
    questions: tuple[Question, ...] = ()

    @property
    def is_question(self) -> bool:
        return bool(self.questions)


@dataclass(slots=True)
class Deciding:
    """The decisions of one suspended run, made one after the other."""

    decisions: tuple[Decision, ...]
    _made: list[Answer] = field(default_factory=list[Answer])
    _replies: list[Json] = field(default_factory=list[Json])

    @property
    def current(self) -> Decision | None:
        """What is to be decided next; None when all is."""
        made = len(self._made)
        return self.decisions[made] if made < len(self.decisions) else None

    @property
    def question(self) -> Question | None:
        """The question that is to be answered next."""
        current = self.current
        if current is None or not current.is_question:
            return None
        return current.questions[len(self._replies)]

    @property
    def place(self) -> str:
        """Such as `2 of 3`; empty when there is one only."""
        count = len(self.decisions)
        return f"{len(self._made) + 1} of {count}" if count > 1 else ""

    def approve(self, *, all_left: bool = False) -> None:
        """Approve what is asked for now, or everything that is left but questions."""
        while (current := self.current) is not None and not current.is_question:
            self._made.append(Answer(interrupt_id=current.interrupt_id, approved=True))
            if not all_left:
                return

    def decline(self, reason: str = "") -> None:
        """Decline what is asked for now; a question is dismissed."""
        current = self.current
        if current is None:
            return
        payload = {"approved": False, "reason": reason} if reason else None
        self._replies = []
        answer = Answer(interrupt_id=current.interrupt_id, approved=False, payload=payload)
        self._made.append(answer)

    def reply(self, chosen: Sequence[str], words: str = "") -> None:
        """Answer the question that is asked now."""
        current, question = self.current, self.question
        if current is None or question is None:
            return
        self._replies.append(
            {
                "header": question.header,
                "question": question.text,
                "selectedLabels": list(chosen),
                "otherText": words or None,
            }
        )
        if len(self._replies) == len(current.questions):
            payload = {"answers": self._replies}
            self._replies = []
            answer = Answer(interrupt_id=current.interrupt_id, approved=True, payload=payload)
            self._made.append(answer)

    def answers(self) -> list[Answer] | None:
        """All of them, once all are made."""
        return list(self._made) if self.current is None else None


def decisions_of(
    interrupts: Sequence[Json], names: Mapping[str, str], arguments: Mapping[str, str]
) -> tuple[Decision, ...]:
    """What the interrupts of a run ask for; the calls were streamed before."""
    return tuple(_decision(interrupt, names, arguments) for interrupt in interrupts)


def _decision(interrupt: Json, names: Mapping[str, str], arguments: Mapping[str, str]) -> Decision:
    interrupt_id = str(interrupt.get("id", ""))
    call_id = str(interrupt.get("toolCallId") or interrupt_id)
    questions: tuple[Question, ...] = ()
    if interrupt.get("reason") == "input_required":
        message = str(interrupt.get("message") or "")
        questions = _questions(arguments.get(call_id, "")) or (Question(text=message),)
    return Decision(
        interrupt_id=interrupt_id,
        call_id=call_id,
        tool=names.get(call_id, ""),
        arguments=arguments.get(call_id, ""),
        message=str(interrupt.get("message") or ""),
        questions=questions,
    )


def _questions(arguments: str) -> tuple[Question, ...]:
    try:
        asked: object = json.loads(arguments)["questions"]
    except (ValueError, KeyError, TypeError):
        return ()
    if not isinstance(asked, list):
        return ()
    return tuple(_question(one) for one in cast(list[Json], asked))


def _question(asked: Json) -> Question:
    options = cast(list[Json], asked.get("options") or [])
    return Question(
        text=str(asked.get("question", "")),
        header=str(asked.get("header", "")),
        options=tuple((str(o.get("label", "")), str(o.get("description", ""))) for o in options),
        allows_several=bool(asked.get("multiSelect")),
    )
