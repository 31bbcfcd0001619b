"""A small model of an AG-UI client: what it must refuse, and what it holds in the end.

Ours, from the protocol's rules; the independent verifier judges real recordings elsewhere.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agui.stream.documents import Documents
from agui.stream.reducer import Reducer

Event = dict[str, Any]

_OPENERS = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "REASONING_MESSAGE_START": ("reasoning", "messageId"),
    "REASONING_START": ("span", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
    "STEP_STARTED": ("step", "stepName"),
}
_NEEDERS = {
    "TEXT_MESSAGE_CONTENT": ("text", "messageId", False),
    "TEXT_MESSAGE_END": ("text", "messageId", True),
    "REASONING_MESSAGE_CONTENT": ("reasoning", "messageId", False),
    "REASONING_MESSAGE_END": ("reasoning", "messageId", True),
    "REASONING_END": ("span", "messageId", True),
    "TOOL_CALL_ARGS": ("call", "toolCallId", False),
    "TOOL_CALL_END": ("call", "toolCallId", True),
    "STEP_FINISHED": ("step", "stepName", True),
}


class Violation(AssertionError):
    """The stream breaks a rule of the protocol."""


@dataclass
class Verifier:
    """The order rules of a stream: one run at a time, nothing without its opener."""

    run: str | None = None
    after_error: bool = False
    open: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def feed(self, event: Event) -> None:
        kind = event["type"]
        if kind == "RUN_STARTED":
            self._check(self.run is None, "a run in a run")
            self.run, self.open = event["runId"], set()
            return
        self._check(self.run is not None, f"{kind} outside a run")
        if kind in ("RUN_FINISHED", "RUN_ERROR"):
            if kind == "RUN_FINISHED":
                self._check(event["runId"] == self.run, "another run's end")
                self._check(not self.open, f"{self.open} open at the end")
            self.run = None
        elif kind in _OPENERS:
            item, name = _OPENERS[kind]
            self._check((item, event[name]) not in self.open, f"{event} is open already")
            self.open.add((item, event[name]))
        elif kind in _NEEDERS:
            item, name, closes = _NEEDERS[kind]
            self._check((item, event[name]) in self.open, f"{event} is not open")
            if closes:
                self.open.discard((item, event[name]))

    def _check(self, holds: bool, what: str) -> None:
        if not holds:
            raise Violation(what)


def nothing_held() -> Reducer:
    """A holder that was told nothing yet: not even an empty state, so that no patch applies."""
    return Reducer(documents=Documents(state=None))


def snapshot_of(held: Reducer) -> Event:
    """What a worker that holds this answers an open with."""
    return {"type": "MESSAGES_SNAPSHOT", "messages": held.messages}


def judged(events: Iterable[Event]) -> list[Event]:
    """The part of one follower's recording that is a run's stream (see docs, "Judging")."""
    kept: list[Event] = []
    is_open = False
    for event in events:
        kind = event["type"]
        if kind == "RUN_STARTED":
            is_open = True
        elif not is_open:
            continue
        kept.append(event)
        if kind in ("RUN_FINISHED", "RUN_ERROR"):
            is_open = False
    return kept
