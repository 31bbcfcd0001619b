"""What happens in a followed thread, as far as a chat tells it: events in, news out. Pure.

Follows the rules of the binding: a stream begins with a snapshot; an opener with a known id means
that what is there stays and grows. Members and types that it does not know are ignored.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

Event = Mapping[str, Any]
# A text that is longer is of no use in a chat while it grows.
_MOST_CALLS = 500


@dataclass(slots=True)
class Call:
    """A tool call: what it is, what it is to do, what came of it."""

    id: str
    name: str
    arguments: str = ""
    succeeded: bool | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """One thing that a suspended run waits for."""

    id: str
    reason: str
    message: str
    call: Call | None


@dataclass(frozen=True, slots=True)
class Joined:
    """The whole conversation: (message id, role, text) in order. What came before is in it."""

    messages: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """The agent has these messages of people."""

    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Began:
    """A run began. What was asked before is decided."""

    messages: frozenset[str]


@dataclass(frozen=True, slots=True)
class Said:
    """The agent's words so far, and whether they are all."""

    id: str
    text: str
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call goes on (`succeeded` None) or ended."""

    call: Call


@dataclass(frozen=True, slots=True)
class Ended:
    """The run ended: success, cancelled or interrupt. Then `asked` is what it waits for."""

    outcome: str
    asked: tuple[Asked, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """An error. `run_id`: that run ended with it. Without: none did."""

    message: str
    code: str
    run_id: str | None


@dataclass(frozen=True, slots=True)
class Replied:
    """The answer to a panel request: `conversations`, `models` or `mode`."""

    kind: str
    frame: Event


News = Joined | Taken | Began | Said | Called | Ended | Failed | Replied


@dataclass(slots=True)
class ThreadReader:
    """One stream, from its snapshot on."""

    is_joined: bool = False
    run_id: str | None = None
    heard_at: float = -math.inf
    """When it last said something."""
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    _texts: dict[str, str] = field(default_factory=dict[str, str])
    _people: dict[str, str] = field(default_factory=dict[str, str])
    """Messages of people that come inside a run, while they come."""

    def take(self, frame: bytes, now: float) -> list[News]:
        """Never raises: a frame that makes no sense tells nothing."""
        self.heard_at = now
        try:
            event: object = msgspec.json.decode(frame)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return []
        if not isinstance(event, dict):
            return []
        return list(self._news(cast(Event, event)))

    def _news(self, event: Event) -> Iterator[News]:
        match event.get("type"):
            case "MESSAGES_SNAPSHOT":
                yield from self._joined(_dicts(event.get("messages")))
            case "RUN_STARTED":
                self.run_id = _text(event.get("runId"))
                given = _dict(event.get("input")).get("messages")
                yield Began(frozenset(_text(m.get("id")) for m in _dicts(given)))
            case "STATE_SNAPSHOT":
                yield from _queued(_dict(event.get("snapshot")).get("queue"))
            case "STATE_DELTA":
                for change in _dicts(event.get("delta")):
                    if change.get("path") == "/queue":
                        yield from _queued(change.get("value"))
            case "RUN_FINISHED":
                self.run_id = None
                yield self._ended(_dict(event.get("outcome")))
            case "RUN_ERROR":
                run_id = _text(event.get("runId")) or None
                if run_id:
                    self.run_id = None
                yield Failed(_text(event.get("message")), _text(event.get("code")), run_id)
            case "conversations" | "models" | "mode":
                yield Replied(_text(event.get("type")), event)
            case str(kind) if kind.startswith("TEXT_MESSAGE_"):
                yield from self._text_event(kind, event)
            case str(kind) if kind.startswith("TOOL_CALL_"):
                yield from self._call_event(kind, event)
            case _:
                pass

    def _joined(self, messages: Sequence[Event]) -> Iterator[News]:
        self.is_joined = True
        self.run_id = None
        self._texts.clear()
        self._people.clear()
        self.calls.clear()
        told: list[tuple[str, str, str]] = []
        people: set[str] = set()
        for message in messages:
            id_, role = _text(message.get("id")), _text(message.get("role"))
            text = _content(message.get("content"))
            told.append((id_, role, text))
            if role == "user":
                people.add(id_)
            elif role == "assistant":
                self._texts[id_] = text
                for call in _dicts(message.get("toolCalls")):
                    function = _dict(call.get("function"))
                    self._remember(
                        Call(
                            _text(call.get("id")),
                            _text(function.get("name")),
                            _text(function.get("arguments")),
                        )
                    )
            elif role == "tool":
                self._result(_text(message.get("toolCallId")), text)
        yield Taken(frozenset(people))
        yield Joined(tuple(told))

    def _text_event(self, kind: str, event: Event) -> Iterator[News]:
        id_ = _text(event.get("messageId"))
        of_people = event.get("role") == "user" or id_ in self._people
        texts = self._people if of_people else self._texts
        match kind:
            case "TEXT_MESSAGE_START":
                texts.setdefault(id_, "")
                if of_people:
                    yield Taken(frozenset({id_}))
            case "TEXT_MESSAGE_CONTENT":
                texts[id_] = texts.get(id_, "") + _text(event.get("delta"))
                if not of_people:
                    yield Said(id_, texts[id_], is_whole=False)
            case "TEXT_MESSAGE_END":
                text = texts.pop(id_, "")
                if not of_people and text:
                    yield Said(id_, text, is_whole=True)
            case _:
                pass

    def _call_event(self, kind: str, event: Event) -> Iterator[News]:
        id_ = _text(event.get("toolCallId"))
        match kind:
            case "TOOL_CALL_START":
                known = self.calls.get(id_)
                if known is None:
                    self._remember(Call(id_, _text(event.get("toolCallName"))))
            case "TOOL_CALL_ARGS" if id_ in self.calls:
                self.calls[id_].arguments += _text(event.get("delta"))
            case "TOOL_CALL_END" if id_ in self.calls:
                yield Called(self.calls[id_])
            case "TOOL_CALL_RESULT" if id_ in self.calls:
                self._result(id_, _text(event.get("content")))
                yield Called(self.calls[id_])
            case _:
                pass

    def _remember(self, call: Call) -> None:
        self.calls[call.id] = call
        if len(self.calls) > _MOST_CALLS:
            del self.calls[next(iter(self.calls))]

    def _result(self, id_: str, content: str) -> None:
        call = self.calls.get(id_)
        if call is None:
            return
        try:
            result: object = msgspec.json.decode(content.encode(errors="replace"))
        except msgspec.MsgspecError:
            result = None
        told = _dict(result)
        call.succeeded = told.get("success") is not False
        call.error = "" if call.succeeded else _text(told.get("error"))

    def _ended(self, outcome: Event) -> Ended:
        asked = tuple(
            Asked(
                _text(entry.get("id")),
                _text(entry.get("reason")),
                _text(entry.get("message")),
                self.calls.get(_text(entry.get("toolCallId")))
                or self.calls.get(_text(entry.get("id"))),
            )
            for entry in _dicts(outcome.get("interrupts"))
        )
        return Ended(_text(outcome.get("type")) or "success", asked)


def _queued(value: object) -> Iterator[News]:
    ids = frozenset(_text(entry.get("id")) for entry in _dicts(value))
    if ids:
        yield Taken(ids)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _dicts(value: object) -> list[Event]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [found for item in items if (found := _dict(item))]


def _content(value: object) -> str:
    """A message's text, also when it is made of parts."""
    if isinstance(value, str):
        return value
    return "\n".join(_text(part.get("text")) for part in _dicts(value) if part.get("text"))
