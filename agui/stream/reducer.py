"""What a client holds of a thread: its messages and its state, after each event. Pure.

The rules are those of the published client, against which a property test holds this. Whoever
shows a thread and has no reducer of its own begins with a snapshot's messages and state, and takes
every event in its order; a stream with a gap shows as an event that has nothing to go to.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from agui.stream.chunks import BadChunk, ChunkExpander
from agui.stream.documents import Documents
from agui.stream.events import (
    ActivityDelta,
    ActivitySnapshot,
    BadEvent,
    MessagesSnapshot,
    Metadata,
    ReasoningEncryptedValue,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    RunStarted,
    StateDelta,
    StateSnapshot,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
    read_event,
)
from agui.stream.json_patch import BadPatch, Json, decoded

Held = dict[str, Any]
"""A message, or a call in one, as the protocol's JSON has it."""

# A snapshot that has none of these is silent about them: the holder keeps its own.
_KEPT = ("activity", "reasoning")


class Unplaceable(ValueError):
    """The event can't be read, or has nothing to go to: something before it is missing."""


@dataclass(slots=True)
class Reducer:
    """One holder of one thread."""

    messages: list[Held] = field(default_factory=list[Held])
    documents: Documents = field(default_factory=Documents)
    _expander: ChunkExpander = field(default_factory=ChunkExpander)
    _by_id: dict[str, Held] = field(default_factory=dict[str, Held])
    _calls: dict[str, Held] = field(default_factory=dict[str, Held])

    def __post_init__(self) -> None:
        self._index()

    @property
    def state(self) -> Json:
        """The shared state. Not to be changed: patches share parts of it."""
        return self.documents.state

    @classmethod
    def beginning_with(cls, messages: Iterable[bytes | Raw], state: Json) -> "Reducer":
        """From a snapshot's messages, as JSON texts, and its state; None: it is not known yet."""
        return cls([msgspec.json.decode(message) for message in messages], Documents(state))

    def take(self, line: bytes) -> None:
        """One event. What the protocol does not know changes nothing. Raises Unplaceable."""
        try:
            event = read_event(line)
            for part in [] if event is None else self._expander.expand(event):
                if (apply := self._RULES.get(type(part))) is not None:
                    apply(self, part)
        except (BadEvent, BadChunk, BadPatch) as exc:
            raise Unplaceable(str(exc)) from exc

    # Messages

    def _on_run_started(self, event: RunStarted) -> None:
        if event.input is not UNSET:
            for message in map(_object, event.input.messages):
                if message["id"] not in self._by_id:
                    self._add(message)

    def _on_text_start(self, event: TextMessageStart) -> None:
        role = "assistant" if event.role is UNSET else event.role
        named: Held = {} if event.name is UNSET else {"name": event.name}
        self._begin(event, named | {"id": event.message_id, "role": role, "content": ""})

    def _on_reasoning_start(self, event: ReasoningMessageStart) -> None:
        self._begin(event, {"id": event.message_id, "role": "reasoning", "content": ""})

    def _begin(self, event: TextMessageStart | ReasoningMessageStart, new: Held) -> None:
        message = self._by_id.get(event.message_id)
        if message is None:
            message = self._add(_owned(new, event.subagent_run_id))
        _merge(message, event.metadata)

    def _on_content(self, event: TextMessageContent | ReasoningMessageContent) -> None:
        message = self._message(event.message_id)
        before = message.get("content")
        # What is no text (an image, say) was told in a snapshot; text that follows replaces it.
        message["content"] = (before if isinstance(before, str) else "") + event.delta
        _merge(message, event.metadata)

    def _on_message_end(self, event: TextMessageEnd | ReasoningMessageEnd) -> None:
        _merge(self._message(event.message_id), event.metadata)

    def _on_snapshot(self, event: MessagesSnapshot) -> None:
        told = [_object(raw) for raw in event.messages]
        by_id = {message["id"]: message for message in told}
        silent_about = {role for role in _KEPT if all(m["role"] != role for m in told)}
        kept = [
            by_id.get(message["id"], message)
            for message in self.messages
            if message["id"] in by_id or message["role"] in silent_about
        ]
        known = {message["id"] for message in kept}
        self.messages = [*kept, *(m for m in told if m["id"] not in known)]
        self._index()

    # Calls

    def _on_call_start(self, event: ToolCallStart) -> None:
        call = self._calls.get(event.tool_call_id)
        if call is None:
            function = {"name": event.tool_call_name, "arguments": ""}
            call = Held(id=event.tool_call_id, type="function", function=function)
            self._calls[event.tool_call_id] = call
            self._holder(event).setdefault("toolCalls", []).append(call)
        call["function"]["name"] = event.tool_call_name
        _merge(call, event.metadata)

    def _holder(self, event: ToolCallStart) -> Held:
        """The message that a new call is in; one is made when it is in none yet."""
        parent = event.parent_message_id
        named = None if parent is UNSET else self._by_id.get(parent)
        if named is not None and named["role"] == "assistant":
            return named
        own_id = event.tool_call_id if parent is UNSET or named is not None else parent
        return self._add(_owned({"id": own_id, "role": "assistant"}, event.subagent_run_id))

    def _on_call_args(self, event: ToolCallArgs) -> None:
        call = self._call(event.tool_call_id)
        call["function"]["arguments"] += event.delta
        _merge(call, event.metadata)

    def _on_call_end(self, event: ToolCallEnd) -> None:
        _merge(self._call(event.tool_call_id), event.metadata)

    def _on_call_result(self, event: ToolCallResult) -> None:
        given = event.content
        content = given if isinstance(given, str) else [_object(part) for part in given]
        about = {"id": event.message_id, "toolCallId": event.tool_call_id, "role": "tool"}
        result = _owned({**about, "content": content}, event.subagent_run_id)
        _merge(result, event.metadata)
        self.messages.insert(self._place_of_result(event.tool_call_id), result)
        self._by_id.setdefault(event.message_id, result)

    def _place_of_result(self, call_id: str) -> int:
        """Behind the message with the call, and the results that are there already."""
        for place, message in enumerate(self.messages):
            if any(call["id"] == call_id for call in message.get("toolCalls", ())):
                place += 1
                while place < len(self.messages) and self.messages[place]["role"] == "tool":
                    place += 1
                return place
        return len(self.messages)

    def _on_encrypted(self, event: ReasoningEncryptedValue) -> None:
        is_call = event.subtype == "tool-call"
        found = (self._calls if is_call else self._by_id).get(event.entity_id)
        if found is not None and found.get("role") != "activity":
            found["encryptedValue"] = event.encrypted_value

    # State and activities

    def _on_state(self, event: StateSnapshot) -> None:
        self.documents.set_state(event.snapshot)

    def _on_state_delta(self, event: StateDelta) -> None:
        self.documents.patch_state(event.delta)

    def _on_activity(self, event: ActivitySnapshot) -> None:
        name, replaces = event.message_id, event.replace is not False
        is_new = self.documents.set_activity(name, event.content, replaces=replaces)
        message = self._by_id.get(name)
        if message is None:
            message = self._add({"id": name, "role": "activity"})
        if is_new or replaces:
            message["activityType"] = event.activity_type
            message["content"] = self.documents.activities[name]
            message.pop("subagentRunId", None)
            _owned(message, event.subagent_run_id)
        _merge(message, event.metadata)

    def _on_activity_delta(self, event: ActivityDelta) -> None:
        message = self._message(event.message_id)
        self.documents.patch_activity(event.message_id, event.patch)
        message["activityType"] = event.activity_type
        message["content"] = self.documents.activities[event.message_id]
        _merge(message, event.metadata)

    # Smaller steps

    def _add(self, message: Held) -> Held:
        self.messages.append(message)
        self._by_id[message["id"]] = message
        return message

    def _index(self) -> None:
        """Of two with one id the first counts."""
        self._by_id, self._calls = {}, {}
        for message in self.messages:
            self._by_id.setdefault(message["id"], message)
            for call in message.get("toolCalls", ()):
                self._calls.setdefault(call["id"], call)
        activities = (m for m in self._by_id.values() if m["role"] == "activity")
        self.documents.activities = {m["id"]: m["content"] for m in activities}

    def _message(self, message_id: str) -> Held:
        if message_id not in self._by_id:
            raise Unplaceable("an event is about a message that is not here")
        return self._by_id[message_id]

    def _call(self, call_id: str) -> Held:
        if call_id not in self._calls:
            raise Unplaceable("an event is about a call that is not here")
        return self._calls[call_id]

    _RULES: ClassVar[Mapping[type, Callable[..., None]]] = {
        RunStarted: _on_run_started,
        TextMessageStart: _on_text_start,
        TextMessageContent: _on_content,
        TextMessageEnd: _on_message_end,
        ReasoningMessageStart: _on_reasoning_start,
        ReasoningMessageContent: _on_content,
        ReasoningMessageEnd: _on_message_end,
        MessagesSnapshot: _on_snapshot,
        ToolCallStart: _on_call_start,
        ToolCallArgs: _on_call_args,
        ToolCallEnd: _on_call_end,
        ToolCallResult: _on_call_result,
        ReasoningEncryptedValue: _on_encrypted,
        StateSnapshot: _on_state,
        StateDelta: _on_state_delta,
        ActivitySnapshot: _on_activity,
        ActivityDelta: _on_activity_delta,
    }
    """What an event changes; one of another type changes nothing that is held."""


def _object(raw: Raw) -> Held:
    """An object that was checked before. Raises BadPatch for numbers beyond all bounds."""
    return cast(Held, decoded(raw))


def _owned(message: Held, owner: str | UnsetType) -> Held:
    if owner is not UNSET:
        message["subagentRunId"] = owner
    return message


def _merge(target: Held, metadata: Metadata) -> None:
    """Key by key, the last one counts."""
    if metadata is not UNSET:
        known: Held = target.get("metadata", {})
        target["metadata"] = known | {key: decoded(value) for key, value in metadata.items()}
