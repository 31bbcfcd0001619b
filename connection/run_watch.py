"""Which run took a message, and how that run ended. Pure: events in, an outcome out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from connection.shapes import RunOutcome


class _Message(msgspec.Struct):
    id: str = ""


class _Input(msgspec.Struct):
    messages: tuple[_Message, ...] = ()


class _Outcome(msgspec.Struct):
    type: str = "success"


class _Event(msgspec.Struct):
    type: str
    runId: str | None = None
    messageId: str | None = None
    message: str | None = None
    input: _Input | None = None
    outcome: _Outcome | None = None


_decode = msgspec.json.Decoder(_Event).decode
_OUTCOMES: Mapping[str, Literal["success", "interrupt", "cancelled"]] = {
    "success": "success",
    "interrupt": "interrupt",
    "cancelled": "cancelled",
}


@dataclass(slots=True)
class RunWatch:
    """Feed it the session's events in order."""

    message_id: str
    run_id: str | None = None
    """The run that goes on."""
    is_taken: bool = False
    """That run, or one before it, has taken the message."""

    def feed(self, event: bytes) -> RunOutcome | None:
        """How the run ended that took the message, once it has."""
        told = _decode(event)
        match told.type:
            case "RUN_STARTED":
                self.run_id = told.runId
                messages = told.input.messages if told.input else ()
                self.is_taken = self.is_taken or any(m.id == self.message_id for m in messages)
            case "TEXT_MESSAGE_START":
                self.is_taken = self.is_taken or told.messageId == self.message_id
            case "RUN_FINISHED" if self.is_taken:
                kind = told.outcome.type if told.outcome else "success"
                return RunOutcome(outcome=_OUTCOMES.get(kind, "unknown"), run_id=told.runId)
            case "RUN_ERROR" if told.runId is not None and self.is_taken:
                return RunOutcome(outcome="error", run_id=told.runId, error=told.message)
            case _:
                pass
        return None
