"""Chunk events made into the openers, contents and ends that they stand for. Pure.

A chunk means something only behind the chunks before it: the first of an item names it, the ones
after may leave the name out, and the item ends with the next event that is not of it. Items of
different subagents run side by side, each in a lane of its own.
"""

from dataclasses import dataclass, field
from typing import cast, get_args

import msgspec
from msgspec import UNSET, UnsetType

from agui.stream.events import (
    ActivityDelta,
    ActivitySnapshot,
    AnyEvent,
    MessagesSnapshot,
    RawEvent,
    ReasoningEncryptedValue,
    ReasoningMessageChunk,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    RunError,
    RunFinished,
    RunStarted,
    SubagentError,
    SubagentFinished,
    SubagentStarted,
    TextMessageChunk,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
)


class BadChunk(ValueError):
    """The chunk can't be placed, or contradicts the one that began its item."""


Chunk = TextMessageChunk | ToolCallChunk | ReasoningMessageChunk
_CHUNKS = frozenset(get_args(Chunk))
Opener = TextMessageStart | ToolCallStart | ReasoningMessageStart
Lane = str | UnsetType
"""A subagent, or UNSET for the agent itself."""


@dataclass(slots=True)
class ChunkExpander:
    """The lanes of one stream, and what is open in each."""

    _lanes: dict[Lane, Opener] = field(default_factory=dict[Lane, Opener])

    def expand(self, event: AnyEvent) -> list[AnyEvent]:
        """What the event stands for. Raises BadChunk."""
        if type(event) in _CHUNKS:
            return self._chunk(cast(Chunk, event))
        if not self._lanes:
            return [event]
        match event:
            case RunStarted() | RunFinished() | RunError() | MessagesSnapshot():
                closed = [_end(opener) for opener in self._lanes.values()]
                self._lanes.clear()
                return [*closed, event]
            case (
                RawEvent()
                | ActivitySnapshot()
                | ActivityDelta()
                | ReasoningEncryptedValue()
                | SubagentStarted()
            ):
                return [event]
            case SubagentFinished() | SubagentError():
                return [*self._close(event.subagent_run_id), event]
            case _:
                return [*self._close(event.subagent_run_id), event]

    def _chunk(self, chunk: Chunk) -> list[AnyEvent]:
        lane = self._lane_of(chunk)
        opener = self._lanes.get(lane)
        found: list[AnyEvent] = []
        if opener is None or not _continues(chunk, opener):
            found += self._close(lane)
            opener = self._lanes[lane] = _opener(chunk)
            found.append(opener)
        else:
            _check_agreement(chunk, opener)
        if chunk.delta is not UNSET or chunk.raw_event is not UNSET or not found:
            found.append(_content(chunk, opener))
        return found

    def _close(self, lane: Lane) -> list[AnyEvent]:
        opener = self._lanes.pop(lane, None)
        return [] if opener is None else [_end(opener)]

    def _lane_of(self, chunk: Chunk) -> Lane:
        name, tag = _name(chunk), chunk.subagent_run_id
        same_kind = [lane for lane, opener in self._lanes.items() if _is_same_kind(chunk, opener)]
        if name is not UNSET:
            for lane in same_kind:
                if _name(self._lanes[lane]) == name:
                    if tag is not UNSET and tag != lane:
                        raise BadChunk("a chunk names another subagent than its item began with")
                    return lane
            return tag
        if tag is not UNSET or UNSET in same_kind or not same_kind:
            return tag
        if len(same_kind) > 1:
            raise BadChunk("a chunk names neither its item nor its subagent, and several are open")
        return same_kind[0]


def _name(event: Chunk | Opener) -> str | UnsetType:
    if isinstance(event, ToolCallChunk | ToolCallStart):
        return event.tool_call_id
    return event.message_id


def _is_same_kind(chunk: Chunk, opener: Opener) -> bool:
    match chunk:
        case TextMessageChunk():
            return isinstance(opener, TextMessageStart)
        case ToolCallChunk():
            return isinstance(opener, ToolCallStart)
        case ReasoningMessageChunk():
            return isinstance(opener, ReasoningMessageStart)


def _continues(chunk: Chunk, opener: Opener) -> bool:
    name = _name(chunk)
    return _is_same_kind(chunk, opener) and (name is UNSET or name == _name(opener))


def _check_agreement(chunk: Chunk, opener: Opener) -> None:
    """Raises BadChunk when a later chunk says otherwise of its item than the first."""
    pairs: list[tuple[object, object]] = []
    if isinstance(chunk, TextMessageChunk) and isinstance(opener, TextMessageStart):
        pairs = [(chunk.role, opener.role), (chunk.name, opener.name)]
    elif isinstance(chunk, ToolCallChunk) and isinstance(opener, ToolCallStart):
        pairs = [
            (chunk.tool_call_name, opener.tool_call_name),
            (chunk.parent_message_id, opener.parent_message_id),
        ]
    if any(said is not UNSET and said != begun for said, begun in pairs):
        raise BadChunk("a chunk contradicts the one that began its item")


def _opener(chunk: Chunk) -> Opener:
    name = _name(chunk)
    if name is UNSET:
        raise BadChunk("the first chunk of an item does not name it")
    opener: Opener
    match chunk:
        case TextMessageChunk():
            role = "assistant" if chunk.role is UNSET else chunk.role
            opener = TextMessageStart(message_id=name, role=role, name=chunk.name)
        case ToolCallChunk():
            if chunk.tool_call_name is UNSET:
                raise BadChunk("the first chunk of a call does not name its tool")
            opener = ToolCallStart(
                tool_call_id=name,
                tool_call_name=chunk.tool_call_name,
                parent_message_id=chunk.parent_message_id,
            )
        case ReasoningMessageChunk():
            opener = ReasoningMessageStart(message_id=name, role="reasoning")
    return msgspec.structs.replace(
        opener, subagent_run_id=chunk.subagent_run_id, metadata=chunk.metadata
    )


def _content(chunk: Chunk, opener: Opener) -> AnyEvent:
    delta = "" if chunk.delta is UNSET else chunk.delta
    content: TextMessageContent | ToolCallArgs | ReasoningMessageContent
    match opener:
        case TextMessageStart():
            content = TextMessageContent(message_id=opener.message_id, delta=delta)
        case ToolCallStart():
            content = ToolCallArgs(tool_call_id=opener.tool_call_id, delta=delta)
        case ReasoningMessageStart():
            content = ReasoningMessageContent(message_id=opener.message_id, delta=delta)
    return msgspec.structs.replace(
        content,
        subagent_run_id=opener.subagent_run_id,
        metadata=chunk.metadata,
        raw_event=chunk.raw_event,
        timestamp=chunk.timestamp,
    )


def _end(opener: Opener) -> AnyEvent:
    match opener:
        case TextMessageStart():
            end: AnyEvent = TextMessageEnd(message_id=opener.message_id)
        case ToolCallStart():
            end = ToolCallEnd(tool_call_id=opener.tool_call_id)
        case ReasoningMessageStart():
            end = ReasoningMessageEnd(message_id=opener.message_id)
    return msgspec.structs.replace(end, subagent_run_id=opener.subagent_run_id)
