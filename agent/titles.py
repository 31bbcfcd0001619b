"""A conversation's title, made by the model after the first run, in nobody's way.

A person's name for it always wins. No title is no trouble: lists show the first message then.
"""

from collections.abc import Callable

import anyio

from agent.domain.entries import Entry, Named, Responded
from agent.domain.messages import Message
from agent.domain.ports import HistoryFailed, Log, ModelFailed, ModelInput, ResponseDone, TextPiece
from agent.domain.project import title_of
from agent.equipment import Equipment
from agent.recorder import Recorder

# A title that comes later is of no use: the person has found the conversation by then.
PATIENCE = 30.0
_LONGEST_TEXT = 2_000
_INSTRUCTIONS = (
    "You name conversations. Answer with a title of at most six words for the one that begins as"
    " follows, in its language, without quotes or a full stop."
)


class Titles:
    """Names the conversation once, if nobody has."""

    def __init__(self, recorder: Recorder, new_id: Callable[[], str], log: Log) -> None:
        self._rec = recorder
        self._new_id = new_id
        self._log = log
        self._has_tried = False

    def is_due(self, equipment: Equipment | None) -> bool:
        """Is there something to name, and nobody has tried?"""
        if self._has_tried or equipment is None or not equipment.gives_titles:
            return False
        self._has_tried = self._rec.conversation.name is not None or bool(self._words())
        return self._has_tried and self._rec.conversation.name is None

    async def give(self, equipment: Equipment) -> None:
        """Ask the model, and record what it says unless a person was faster. Never raises."""
        asked = Message(id=self._new_id(), role="user", content=self._words())
        request = ModelInput(instructions=_INSTRUCTIONS, messages=[asked], responses={}, tools=[])
        text: list[str] = []
        done: ResponseDone | None = None
        try:
            with anyio.fail_after(PATIENCE):
                async with equipment.model.respond(request) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, TextPiece):
                            text.append(piece.delta)
                        elif isinstance(piece, ResponseDone):
                            done = piece
            title = title_of("".join(text).replace('"', ""))
            await self._rec.decide(lambda: self._named(title, done))
        except (ModelFailed, HistoryFailed, TimeoutError) as exc:
            self._log("info", "title_not_given", reason=str(exc) or "too slow")

    def _named(self, title: str, done: ResponseDone | None) -> list[Entry]:
        cost: list[Entry] = [Responded.spent(done)] if done is not None else []
        if not title or self._rec.conversation.name is not None:
            return cost
        return [Named(name=title, by="model"), *cost]

    def _words(self) -> str:
        """What was said first, and what the agent said to it."""
        messages = self._rec.conversation.transcript.visible()
        said = [m for m in messages if m.role in ("user", "assistant") and m.text]
        if not any(m.role == "assistant" for m in said):
            return ""
        return "\n\n".join(f"{m.role}: {m.text[:_LONGEST_TEXT]}" for m in said[:2])
