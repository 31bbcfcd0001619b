"""Making room in a long conversation: the model itself tells in short what was said.

A request of its own, without tools. What comes of it is recorded before anything changes, so that
a failure, a stop or a full disk leaves the conversation as it was. The tree keeps everything.
"""

from collections.abc import Callable
from typing import Literal

from agent.domain.compaction import ACTIVITY, Cut, read_by_model, tokens_of
from agent.domain.entries import Compacted, Entry, Responded
from agent.domain.messages import Message
from agent.domain.ports import ModelFailed, ModelInput, ResponseDone, TextPiece
from agent.equipment import Equipment
from agent.recorder import Recorder

Reason = Literal["manual", "threshold", "overflow"]
_INSTRUCTIONS = """\
You summarize the work of an agent with its user, so that the agent can go on from your words alone.
Keep what was asked and decided, what was done and found out (files, commands, results, errors),
what is open, and what the user wants to be heeded. Leave out what no longer matters. Plain words,
no introduction."""
_REQUEST = "Summarize this conversation."


class Compaction:
    """Shortens what a model reads. One at a time."""

    def __init__(self, recorder: Recorder, new_id: Callable[[], str]) -> None:
        self._rec = recorder
        self._new_id = new_id

    async def compact(
        self, cut: Cut, equipment: Equipment, reason: Reason, wishes: str = ""
    ) -> tuple[Compacted, ResponseDone | None]:
        """Summarize up to the cut, and tell what it cost.

        Raises ModelFailed, HistoryFailed: then nothing has changed.
        """
        text, done = await self._summary(cut, equipment, wishes)
        message = Message(
            id=self._new_id(), role="activity", activity_type=ACTIVITY, content={"text": text}
        )
        compacted = Compacted(
            message=message, kept_from=cut.kept_from, asked=cut.asked, reason=reason
        )
        entries: list[Entry] = [compacted, *([Responded.spent(done)] if done is not None else [])]

        def decision() -> list[Entry]:
            # Somebody may have gone to another branch meanwhile: the summary is not of that.
            if any(each.id not in self._rec.conversation.transcript for each in cut.summarized):
                raise ModelFailed("The conversation is at another place now.", "compaction")
            return entries

        await self._rec.decide(decision)
        return compacted, done

    async def _summary(
        self, cut: Cut, equipment: Equipment, wishes: str
    ) -> tuple[str, ResponseDone | None]:
        request = " ".join(part for part in (_REQUEST, wishes) if part)
        asked = Message(id=self._new_id(), role="user", content=request)
        done: ResponseDone | None = None
        parts: list[str] = []
        async with equipment.model.respond(
            ModelInput(
                instructions=_INSTRUCTIONS,
                messages=[*cut.summarized, asked],
                responses=self._rec.conversation.responses,
                tools=[],
            )
        ) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextPiece):
                    parts.append(piece.delta)
                elif isinstance(piece, ResponseDone):
                    done = piece
        text = "".join(parts).strip()
        if not text:
            raise ModelFailed("The model gave no summary; nothing was changed.", "compaction")
        return text, done

    def tokens(self) -> int:
        """About how much of its window a model's next request fills."""
        conversation = self._rec.conversation
        messages = read_by_model(conversation)
        # The last count of the model itself is better than a guess, if it counted all of this.
        summary = conversation.compacted.message.id if conversation.compacted else None
        for place in range(len(messages) - 1, -1, -1):
            if messages[place].id == summary:
                break
            response = conversation.responses.get(messages[place].id)
            if response is not None and response.input_tokens:
                counted = response.input_tokens + response.output_tokens
                return counted + tokens_of(messages[place + 1 :])
        return tokens_of(messages)


async def window_of(equipment: Equipment) -> int | None:
    """How many tokens fit, if that is known."""
    return equipment.context_window or await equipment.model.context_window()
