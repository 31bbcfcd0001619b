"""The messages and the state that a client ends with, folded from a stream's events. Pure.

It follows the published client's own reducer, and is held to it by a test: what it ends with is
what front ends show. Chunks are expanded and bad events are refused before (`agui.stream.guard`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

import msgspec
from msgspec import UNSET

from agui.stream.documents import Documents
from agui.stream.events import (
    ActivityDelta,
    ActivitySnapshot,
    AnyEvent,
    MessagesSnapshot,
    ReasoningMessageContent,
    ReasoningMessageStart,
    RunStarted,
    StateDelta,
    StateSnapshot,
    TextMessageContent,
    TextMessageStart,
    ToolCallArgs,
    ToolCallResult,
    ToolCallStart,
    encode,
)

Json = dict[str, object]
_KEPT = frozenset({"activity", "reasoning"})
"""Roles that a snapshot without any of them leaves as they are."""


@dataclass(slots=True)
class Reduced:
    """What a client holds. Messages are in the protocol's shape."""

    messages: list[Json] = field(default_factory=list[Json])
    documents: Documents = field(default_factory=Documents)

    def apply(self, event: AnyEvent) -> None:
        """Take one event that a guard let through. Raises BadPatch when a patch does not fit."""
        match event:
            case RunStarted() if event.input is not UNSET:
                for told in map(_plain, event.input.messages):
                    if self._message(str(told["id"])) is None:
                        self.messages.append(told)
            case TextMessageStart():
                role = "assistant" if event.role is UNSET else event.role
                self._begin(event.message_id, role)
            case ReasoningMessageStart():
                self._begin(event.message_id, "reasoning")
            case TextMessageContent() | ReasoningMessageContent():
                message = self._message(event.message_id)
                if message is not None:
                    message["content"] = f"{message.get('content', '')}{event.delta}"
            case ToolCallStart():
                parent = event.parent_message_id
                self._call(event, event.tool_call_id if parent is UNSET else parent)
            case ToolCallArgs():
                self._grow_call(event)
            case ToolCallResult():
                self._result(event)
            case MessagesSnapshot():
                self._restate([_plain(raw) for raw in event.messages])
            case StateSnapshot():
                self.documents.set_state(event.snapshot)
            case StateDelta():
                self.documents.patch_state(event.delta)
            case ActivitySnapshot():
                self._activity(event)
            case ActivityDelta():
                self.documents.patch_activity(event.message_id, event.patch)
                self._show_activity(event.message_id, event.activity_type)
            case _:
                pass

    def _message(self, name: str) -> Json | None:
        return next((message for message in self.messages if message["id"] == name), None)

    def _begin(self, name: str, role: str) -> None:
        if self._message(name) is None:
            self.messages.append({"id": name, "role": role, "content": ""})

    def _call(self, event: ToolCallStart, holder: str) -> None:
        if self._find_call(event.tool_call_id) is not None:
            return
        message = self._message(holder)
        if message is None:
            message = {"id": holder, "role": "assistant"}
            self.messages.append(message)
        calls = cast("list[Json]", message.setdefault("toolCalls", []))
        function = {"name": event.tool_call_name, "arguments": ""}
        calls.append({"id": event.tool_call_id, "type": "function", "function": function})

    def _grow_call(self, event: ToolCallArgs) -> None:
        call = self._find_call(event.tool_call_id)
        if call is not None:
            function = cast("dict[str, str]", call["function"])
            function["arguments"] += event.delta

    def _result(self, event: ToolCallResult) -> None:
        """Behind the message with the call, and behind the results that are there already."""
        content = event.content
        result: Json = {
            "id": event.message_id,
            "role": "tool",
            "toolCallId": event.tool_call_id,
            "content": content if isinstance(content, str) else _parts(content),
        }
        place = len(self.messages)
        for index, message in enumerate(self.messages):
            calls = cast("list[Json]", message.get("toolCalls", []))
            if any(call["id"] == event.tool_call_id for call in calls):
                place = index + 1
                while place < len(self.messages) and self.messages[place]["role"] == "tool":
                    place += 1
                break
        self.messages.insert(place, result)

    def _find_call(self, name: str) -> Json | None:
        for message in self.messages:
            for call in cast("list[Json]", message.get("toolCalls", [])):
                if call["id"] == name:
                    return call
        return None

    def _restate(self, told: list[Json]) -> None:
        """In place by id, new ones behind; what is not told any more is gone."""
        by_id = {message["id"]: message for message in told}
        roles = {message["role"] for message in told}
        kept: list[Json] = []
        for message in self.messages:
            restated = by_id.pop(message["id"], None)
            if restated is not None:
                kept.append(restated)
            elif message["role"] in _KEPT and message["role"] not in roles:
                kept.append(message)
        self.messages = [*kept, *by_id.values()]
        for message in told:
            if message["role"] == "activity":
                content = cast("Json", message["content"])
                self.documents.activities[str(message["id"])] = content

    def _activity(self, event: ActivitySnapshot) -> None:
        replaces = event.replace is not False
        name = event.message_id
        if self.documents.set_activity(name, event.content, replaces=replaces) or replaces:
            self._show_activity(name, event.activity_type)

    def _show_activity(self, name: str, kind: str) -> None:
        message = self._message(name)
        if message is None:
            message = {"id": name, "role": "activity"}
            self.messages.append(message)
        message["activityType"] = kind
        message["content"] = self.documents.activities[name]


def reduced(events: Iterable[AnyEvent]) -> Reduced:
    """What a client holds after these events, having held nothing."""
    held = Reduced()
    for event in events:
        held.apply(event)
    return held


def _plain(raw: msgspec.Raw) -> Json:
    return msgspec.json.decode(raw, type=dict[str, object])


def _parts(parts: object) -> object:
    return msgspec.json.decode(encode(parts))
