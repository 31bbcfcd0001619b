"""The one way out of a run: an event changes the transcript and leaves as a line, in one step.

Plain functions without a wait inside, so that a snapshot taken by anybody at any moment is the
state after exactly the lines written before it.
"""

from collections.abc import Callable

import msgspec

from agent.domain.events import (
    Event,
    Growth,
    StateDelta,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
)
from agent.domain.messages import HIDDEN, Message
from agent.domain.ports import Lines
from agent.recorder import Recorder

encode_line = msgspec.json.Encoder().encode


class Say:
    """Tells clients. What must be on disk first, the caller has recorded."""

    def __init__(self, recorder: Recorder, lines: Lines, new_id: Callable[[], str]) -> None:
        self.recorder = recorder
        self.new_id = new_id
        self._lines = lines

    def __call__(self, event: Event) -> None:
        self.recorder.conversation.transcript.apply(event)
        if isinstance(event, Growth):
            self.recorder.note_growth(event)
        self._write(event)

    def message(self, message: Message) -> None:
        """Tell a user's message that the transcript has: a run took it in while it goes on."""
        if message.is_marked(HIDDEN):
            return
        self._write(TextMessageStart(message_id=message.id, role="user"))
        if message.text:
            self._write(TextMessageContent(message_id=message.id, delta=message.text))
        self._write(TextMessageEnd(message_id=message.id))

    def state(self, key: str, value: object) -> None:
        """Replace one key of the shared state. Only while a run is open on the wire."""
        self(StateDelta(delta=[{"op": "add", "path": f"/{key}", "value": value}]))

    async def wait_writable(self) -> None:
        """Slow down for a reader that does not keep up."""
        await self._lines.wait_writable()

    def _write(self, event: Event) -> None:
        self._lines.write(encode_line(event))
