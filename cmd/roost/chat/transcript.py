"""What the chat shows of a conversation, row by row: AG-UI messages and events in, rows out. Pure.

A snapshot is the truth and replaces everything; events then change single rows. Who draws the rows
asks `take_changes` what to draw anew.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, cast

from roost.chat.decisions import Decision, decisions_of

Kind = Literal["user", "answer", "thought", "call", "notice", "error"]
Json = dict[str, Any]

# What a running tool printed is kept to its end; the result brings all of it.
_OUTPUT_KEPT = 16_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a tool call ended."""

    success: bool
    output: str
    error: str


@dataclass(slots=True, kw_only=True)
class Row:
    """One thing on the screen. `text` is what was said, or a call's arguments as JSON."""

    id: str
    kind: Kind
    text: str = ""
    name: str = ""
    """Of a call: the tool."""
    output: str = ""
    """Of a call that runs: what it has printed."""
    result: Result | None = None
    is_open: bool = False
    """It still grows."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What to draw anew: everything, or these rows."""

    everything: bool
    rows: tuple[str, ...]


@dataclass(slots=True)
class Transcript:
    """The rows in order, the open run, the shared state, and what waits for the person."""

    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    run_id: str | None = None
    state: Json = field(default_factory=dict[str, Any])
    decisions: tuple[Decision, ...] = ()
    _changed: dict[str, None] = field(default_factory=dict[str, None])
    _is_new: bool = True
    _notices: int = 0

    def show(
        self, messages: Iterable[bytes], events: Iterable[bytes], state: Json | None = None
    ) -> None:
        """Begin anew with a snapshot: its messages and state, then the events that lead to now."""
        self.rows, self.run_id, self.state, self.decisions = {}, None, dict(state or {}), ()
        self._is_new = True
        for message in messages:
            self._message(json.loads(message))
        for event in events:
            self.feed(event)

    def earlier(self, messages: Iterable[bytes]) -> None:
        """Put older messages in front."""
        shown, self.rows = self.rows, {}
        for message in messages:
            self._message(json.loads(message))
        self.rows |= shown
        self._is_new = True

    def feed(self, event: bytes) -> None:
        """One AG-UI event, in its order. What is unknown changes nothing."""
        decoded: Json = json.loads(event)
        take = self._EVENTS.get(decoded.get("type", ""))
        if take is not None:
            take(self, decoded)

    def notice(self, text: str, kind: Literal["notice", "error"] = "notice") -> None:
        """Something the chat itself has to say, at the end."""
        self._notices += 1
        self._put(Row(id=f"notice-{self._notices}", kind=kind, text=text))

    def take_changes(self) -> Changes:
        """What has changed since the last time."""
        changes = Changes(self._is_new, tuple(self._changed))
        self._is_new, self._changed = False, {}
        return changes

    def said_by_user(self) -> list[str]:
        """The person's messages, oldest first."""
        return [row.text for row in self.rows.values() if row.kind == "user" and row.text]

    def call(self, call_id: str) -> Row | None:
        """The row of a tool call."""
        row = self.rows.get(call_id)
        return row if row is not None and row.kind == "call" else None

    # Messages of a snapshot

    def _message(self, message: Json) -> None:
        message_id, role = str(message.get("id", "")), message.get("role")
        text = _text_of(message.get("content"))
        if role == "user":
            self._put(Row(id=message_id, kind="user", text=text))
        elif role == "reasoning":
            self._put(Row(id=message_id, kind="thought", text=text))
        elif role == "activity":
            self._activity(message_id, message.get("content"))
        elif role == "tool":
            self._result(str(message.get("toolCallId", "")), text)
        elif role == "assistant":
            if text:
                self._put(Row(id=message_id, kind="answer", text=text))
            for call in message.get("toolCalls") or ():
                function = call.get("function", {})
                name, arguments = str(function.get("name", "")), str(function.get("arguments", ""))
                self._put(Row(id=str(call["id"]), kind="call", name=name, text=arguments))

    # Events

    def _on_run_started(self, event: Json) -> None:
        self.run_id, self.decisions = str(event.get("runId", "")), ()
        sent: Json = event.get("input") or {}
        messages: list[Json] = sent.get("messages") or []
        for message in messages:
            if message.get("role") == "user" and message.get("id") not in self.rows:
                self._message(message)

    def _on_run_finished(self, event: Json) -> None:
        self.run_id = None
        self._close_all()
        outcome: Json = event.get("outcome") or {}
        if outcome.get("type") == "interrupt":
            calls = {row.id: row.text for row in self.rows.values() if row.kind == "call"}
            names = {row.id: row.name for row in self.rows.values() if row.kind == "call"}
            interrupts: list[Json] = outcome.get("interrupts") or []
            self.decisions = decisions_of(interrupts, names, calls)
            for decision in self.decisions:
                self._changed[decision.call_id] = None
        elif outcome.get("type") == "cancelled":
            self.notice("stopped")

    def _on_run_error(self, event: Json) -> None:
        if event.get("runId") in (self.run_id, None) and event.get("runId"):
            self.run_id = None
            self._close_all()
        self.notice(str(event.get("message", "something failed")), "error")

    def _on_messages(self, event: Json) -> None:
        run_id, state = self.run_id, self.state
        self.show([], [])
        for message in event.get("messages") or ():
            self._message(message)
        self.run_id, self.state = run_id, state

    def _on_text_started(self, event: Json) -> None:
        kind: Kind = "user" if event.get("role") == "user" else "answer"
        self._open(str(event["messageId"]), kind)

    def _on_thought_started(self, event: Json) -> None:
        self._open(str(event["messageId"]), "thought")

    def _on_text(self, event: Json) -> None:
        self._grow(str(event["messageId"]), str(event.get("delta", "")))

    def _on_text_ended(self, event: Json) -> None:
        self._close(str(event["messageId"]))

    def _on_call_started(self, event: Json) -> None:
        row = self._open(str(event["toolCallId"]), "call")
        row.name = str(event.get("toolCallName", row.name))

    def _on_call_arguments(self, event: Json) -> None:
        self._grow(str(event["toolCallId"]), str(event.get("delta", "")))

    def _on_call_ended(self, event: Json) -> None:
        self._close(str(event["toolCallId"]))

    def _on_call_result(self, event: Json) -> None:
        self._result(str(event["toolCallId"]), _text_of(event.get("content")))

    def _on_state(self, event: Json) -> None:
        self.state = dict(event.get("snapshot") or {})

    def _on_state_delta(self, event: Json) -> None:
        """Whole keys, and members of objects in them: what our workers patch."""
        for step in event.get("delta") or ():
            *parents, key = _unescaped(str(step.get("path", "")))
            target: Any = self.state
            for parent in parents:
                target = _members(target).get(parent)
            if not isinstance(target, dict):
                continue
            members = _members(cast(object, target))
            if step.get("op") == "remove":
                members.pop(key, None)
            else:
                members[key] = step.get("value")

    def _on_activity(self, event: Json) -> None:
        self._activity(str(event["messageId"]), event.get("content"))

    def _on_custom(self, event: Json) -> None:
        value = event.get("value")
        if event.get("name") == "roost.tool_output" and isinstance(value, dict):
            printed = cast(Json, value)
            row = self.call(str(printed.get("toolCallId")))
            if row is not None:
                row.output = (row.output + str(printed.get("text", "")))[-_OUTPUT_KEPT:]
                self._changed[row.id] = None

    # Smaller steps

    def _put(self, row: Row) -> None:
        self.rows[row.id] = row
        self._changed[row.id] = None

    def _open(self, row_id: str, kind: Kind) -> Row:
        """A row that grows. One that a snapshot brought goes on from what it has."""
        row = self.rows.get(row_id) or Row(id=row_id, kind=kind)
        row.is_open = True
        self._put(row)
        return row

    def _grow(self, row_id: str, delta: str) -> None:
        if (row := self.rows.get(row_id)) is not None:
            row.text += delta
            self._changed[row_id] = None

    def _close(self, row_id: str) -> None:
        if (row := self.rows.get(row_id)) is not None and row.is_open:
            row.is_open = False
            self._changed[row_id] = None

    def _close_all(self) -> None:
        for row_id in self.rows:
            self._close(row_id)

    def _activity(self, row_id: str, content: object) -> None:
        text = cast(Json, content).get("text") if isinstance(content, dict) else None
        if isinstance(text, str) and text:
            self._put(Row(id=row_id, kind="notice", text=text))

    def _result(self, call_id: str, content: str) -> None:
        row = self.call(call_id)
        if row is None:
            return
        row.result, row.is_open, row.output = _result_of(content), False, ""
        self._changed[call_id] = None

    _EVENTS: ClassVar[dict[str, Callable[["Transcript", Json], None]]] = {
        "RUN_STARTED": _on_run_started,
        "RUN_FINISHED": _on_run_finished,
        "RUN_ERROR": _on_run_error,
        "MESSAGES_SNAPSHOT": _on_messages,
        "TEXT_MESSAGE_START": _on_text_started,
        "TEXT_MESSAGE_CONTENT": _on_text,
        "TEXT_MESSAGE_END": _on_text_ended,
        "REASONING_MESSAGE_START": _on_thought_started,
        "REASONING_MESSAGE_CONTENT": _on_text,
        "REASONING_MESSAGE_END": _on_text_ended,
        "TOOL_CALL_START": _on_call_started,
        "TOOL_CALL_ARGS": _on_call_arguments,
        "TOOL_CALL_END": _on_call_ended,
        "TOOL_CALL_RESULT": _on_call_result,
        "STATE_SNAPSHOT": _on_state,
        "STATE_DELTA": _on_state_delta,
        "ACTIVITY_SNAPSHOT": _on_activity,
        "CUSTOM": _on_custom,
    }


def _members(value: object) -> Json:
    """An object's own members, to be changed in place; none where it is no object."""
    return cast(Json, value) if isinstance(value, dict) else {}


def _unescaped(path: str) -> list[str]:
    """The keys of a JSON pointer."""
    return [key.replace("~1", "/").replace("~0", "~") for key in path.removeprefix("/").split("/")]


def _text_of(content: object) -> str:
    """The words of a message; what else is in it is named."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts: list[str] = []
    for part in cast(list[Json], content):
        if part.get("type") == "text":
            parts.append(str(part.get("text", "")))
        else:
            parts.append(f"[{part.get('filename') or part.get('mimeType') or part.get('type')}]")
    return "\n".join(parts)


def _result_of(content: str) -> Result:
    """Our workers answer `{success, output, error}`; what another one says is its output."""
    try:
        decoded: object = json.loads(content)
    except ValueError:
        decoded = None
    if not isinstance(decoded, dict) or "success" not in decoded:
        return Result(success=True, output=content, error="")
    said = cast(Json, decoded)
    output = said.get("output")
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    failed = said.get("error")
    return Result(
        success=bool(said["success"]),
        output="" if output is None else text,
        error="" if failed is None else str(failed),
    )
