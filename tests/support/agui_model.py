"""A small model of an AG-UI client: what it must refuse, and what it ends up showing.

Ours, from the protocol's rules; the independent verifier judges real recordings elsewhere.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

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


@dataclass
class Reducer:
    """Messages and state as a client shows them."""

    messages: list[Event] = field(default_factory=list[Event])
    state: Any = None

    def feed(self, event: Event) -> None:
        match event["type"]:
            case "MESSAGES_SNAPSHOT":
                self.messages = copy.deepcopy(event["messages"])
            case "TEXT_MESSAGE_START":
                self._message(event["messageId"], role="assistant", content="")
            case "REASONING_MESSAGE_START":
                self._message(event["messageId"], role="reasoning", content="")
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                self._message(event["messageId"])["content"] += event["delta"]
            case "TOOL_CALL_START":
                self._call(event["toolCallId"], event["toolCallName"])
            case "TOOL_CALL_ARGS":
                self._call(event["toolCallId"])["arguments"] += event["delta"]
            case "TOOL_CALL_RESULT":
                message = self._message(event["messageId"], role="tool", content="")
                message["content"] = event["content"]
            case "STATE_SNAPSHOT":
                self.state = copy.deepcopy(event["snapshot"])
            case "STATE_DELTA":
                for step in event["delta"]:
                    assert step["op"] == "add"
                    if self.state is None:
                        raise Violation("a patch without a state")
                    self.state[step["path"][1:]] = step["value"]
            case "ACTIVITY_SNAPSHOT":
                message = self._message(event["messageId"], role="activity", content={})
                message["content"] = copy.deepcopy(event["content"])
            case "ACTIVITY_DELTA":
                message = self._message(event["messageId"])
                for step in event["patch"]:
                    message["content"][step["path"][1:]] = step["value"]
            case _:
                pass

    def snapshot(self) -> Event:
        return {"type": "MESSAGES_SNAPSHOT", "messages": copy.deepcopy(self.messages)}

    def _message(self, message_id: str, **new: Any) -> Event:
        for message in self.messages:
            if message["id"] == message_id:
                return message
        if not new:
            raise Violation(f"{message_id} is unknown")
        self.messages.append({"id": message_id, **new})
        return self.messages[-1]

    def _call(self, call_id: str, name: str | None = None) -> Event:
        for message in self.messages:
            if message["id"] == call_id:
                return message
        if name is None:
            raise Violation(f"{call_id} is unknown")
        return self._message(call_id, role="call", name=name, arguments="")


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
