"""What a model streams, as AG-UI events in legal order: one framing a model response.

Text, reasoning and calls come in as pieces of numbered parts; out come events with ids, and at the
end nothing is open. It decides which message a piece belongs to; it writes and stores nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.domain.events import (
    Event,
    ReasoningEnd,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallStart,
)


@dataclass(slots=True)
class Framing:
    """Open items of one model response. Every method returns the events to write, in order."""

    new_id: Callable[[], str]
    call_ids: list[str] = field(default_factory=list[str])
    """The calls of this response, in order."""
    message_ids: list[str] = field(default_factory=list[str])
    """The text and reasoning messages of this response, in order."""
    _text: str | None = None
    _reasoning: str | None = None
    _parent: str | None = None
    _open_calls: dict[int, str] = field(default_factory=dict[int, str])

    def text(self, delta: str) -> list[Event]:
        """A piece of the answer's text."""
        if not delta:
            return []
        events: list[Event] = []
        if self._text is None:
            events += [*self.close_reasoning(), *self._begin_text()]
        assert self._text is not None
        events.append(TextMessageContent(message_id=self._text, delta=delta))
        return events

    def reasoning(self, delta: str) -> list[Event]:
        """A piece of what the model thinks before it answers."""
        if not delta:
            return []
        events: list[Event] = []
        if self._reasoning is None:
            events += self.close_text()
            # What follows is a message of its own: calls hang on the last message, whatever it is.
            self._parent = None
            self._reasoning = self.new_id()
            self.message_ids.append(self._reasoning)
            events.append(ReasoningStart(message_id=self._reasoning))
            events.append(ReasoningMessageStart(message_id=self._reasoning, role="reasoning"))
        events.append(ReasoningMessageContent(message_id=self._reasoning, delta=delta))
        return events

    def call(self, part: int, call_id: str, name: str) -> list[Event]:
        """A call begins. Its message is announced first, with no text if there was none."""
        events = [*self.close_reasoning(), *self.close_text()]
        if self._parent is None:
            events += [*self._begin_text(), *self.close_text()]
        assert self._parent is not None
        self._open_calls[part] = call_id
        self.call_ids.append(call_id)
        events.append(
            ToolCallStart(tool_call_id=call_id, tool_call_name=name, parent_message_id=self._parent)
        )
        return events

    def arguments(self, part: int, delta: str) -> list[Event]:
        """A piece of a call's arguments."""
        if not delta or part not in self._open_calls:
            return []
        return [ToolCallArgs(tool_call_id=self._open_calls[part], delta=delta)]

    def close_text(self) -> list[Event]:
        if self._text is None:
            return []
        ended, self._text = self._text, None
        return [TextMessageEnd(message_id=ended)]

    def close_reasoning(self) -> list[Event]:
        if self._reasoning is None:
            return []
        ended, self._reasoning = self._reasoning, None
        return [ReasoningMessageEnd(message_id=ended), ReasoningEnd(message_id=ended)]

    def close(self) -> list[Event]:
        """Close all that is open, innermost first. Idempotent."""
        events = [*self.close_reasoning(), *self.close_text()]
        events += [ToolCallEnd(tool_call_id=call_id) for call_id in self._open_calls.values()]
        self._open_calls.clear()
        return events

    @property
    def is_open(self) -> bool:
        return bool(self._text or self._reasoning or self._open_calls)

    def _begin_text(self) -> list[Event]:
        self._text = self._parent = self.new_id()
        self.message_ids.append(self._text)
        return [TextMessageStart(message_id=self._text, role="assistant")]
