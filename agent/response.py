"""One model response: its pieces out as events, its whole messages into the history.

Whatever ends it, `close` leaves nothing open and everything that was streamed on the disk.
"""

from collections.abc import AsyncIterator

import anyio.lowlevel

from agent.domain.entries import Called, Entry, Responded, Said
from agent.domain.events import (
    Event,
    ReasoningMessageEnd,
    TextMessageEnd,
)
from agent.domain.framing import Framing
from agent.domain.messages import ToolCall
from agent.domain.ports import (
    ArgumentsPiece,
    CallBegan,
    Piece,
    ReasoningPiece,
    ResponseDone,
    Retrying,
    TextPiece,
)
from agent.say import Say

# A model that never waits must not keep the reader of stdin, and the writer, from their turns.
_TOGETHER = 16


class Response:
    """A response that is being streamed, or was."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._rec = say.recorder
        self._transcript = say.recorder.conversation.transcript
        self._framing = Framing(say.new_id)
        self.done: ResponseDone | None = None
        self._closed = False
        self._has_own_ids = False
        self._retries = False

    @property
    def has_begun(self) -> bool:
        """Did anything come of it?"""
        return bool(self._framing.message_ids)

    async def stream(self, pieces: AsyncIterator[Piece]) -> None:
        """Say every piece as it comes. Raises what the model raises; `close` anyway."""
        told = 0
        async for piece in pieces:
            if isinstance(piece, ResponseDone):
                self.done = piece
                continue
            self._tell_retry(piece)
            for event in self._events(piece):
                await self._tell(event)
            await self._say.wait_writable()
            told += 1
            if told % _TOGETHER == 0:
                await anyio.lowlevel.checkpoint()

    async def close(self) -> list[ToolCall]:
        """End what is open, record the response, return its calls. Raises HistoryFailed."""
        if self._closed:
            return []
        self._closed = True
        closing = self._framing.close()
        entries: list[Entry] = [
            Said(message=self._transcript.message(event.message_id))
            for event in closing
            if isinstance(event, TextMessageEnd | ReasoningMessageEnd)
        ]
        entries += self._called()
        if self.done is not None:
            entries.append(self._responded(self.done))
        self._rec.forget_growth()
        try:
            if entries:
                await self._rec.record(*entries)
        finally:
            for event in closing:
                self._say(event)
        if self._retries:
            self._retries = False
            self._say.state("retry", None)
        if self.done is not None:
            self._say.state("usage", self._rec.conversation.usage_rows())
        return self.calls()

    def calls(self) -> list[ToolCall]:
        """The calls so far, with what has arrived of their arguments."""
        wanted = set(self._framing.call_ids)
        return [
            call
            for message_id in self._framing.message_ids
            for call in self._transcript.message(message_id).tool_calls or ()
            if call.id in wanted
        ]

    def _events(self, piece: Piece) -> list[Event]:
        match piece:
            case TextPiece(delta):
                return self._framing.text(delta)
            case ReasoningPiece(delta):
                return self._framing.reasoning(delta)
            case CallBegan(part, call_id, name):
                return self._framing.call(part, self._own(call_id), name)
            case ArgumentsPiece(part, delta):
                return self._framing.arguments(part, delta)
            case Retrying() | ResponseDone():
                return []

    def _tell_retry(self, piece: Piece) -> None:
        """Who waits sees why; and that it is over."""
        if isinstance(piece, Retrying):
            self._retries = True
            value = {"attempt": piece.attempt, "seconds": piece.delay, "reason": piece.reason}
            self._say.state("retry", value)
        elif self._retries:
            self._retries = False
            self._say.state("retry", None)

    def _own(self, call_id: str) -> str:
        """The call's id, or another if the conversation has it: some servers count from zero."""
        if (
            call_id
            and call_id not in self._rec.conversation.calls
            and call_id not in self._framing.call_ids
        ):
            return call_id
        self._has_own_ids = True
        return f"{call_id or 'call'}-{self._say.new_id()}"

    async def _tell(self, event: Event) -> None:
        if isinstance(event, TextMessageEnd | ReasoningMessageEnd):
            self._rec.forget_growth()
            await self._rec.record(Said(message=self._transcript.message(event.message_id)))
        self._say(event)

    def _called(self) -> list[Entry]:
        wanted = set(self._framing.call_ids)
        return [
            Called(message_id=message_id, calls=calls)
            for message_id in self._framing.message_ids
            if (
                calls := [
                    call
                    for call in self._transcript.message(message_id).tool_calls or ()
                    if call.id in wanted
                ]
            )
        ]

    def _responded(self, done: ResponseDone) -> Responded:
        return Responded(
            message_ids=list(self._framing.message_ids),
            provider=done.provider,
            model=done.model,
            input_tokens=done.input_tokens,
            output_tokens=done.output_tokens,
            cached_input_tokens=done.cached_input_tokens,
            cost=done.cost,
            # The provider's own copy has its own ids, which the results would not fit.
            opaque=None if self._has_own_ids else done.opaque,
        )
