"""The commands on messages that wait: each is decided in its turn, on what waits then."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from agent.commands import Command, CommandFailed
from agent.domain.entries import Entry, QueueDeleted, QueueEdited, QueueMoved
from agent.domain.queue import Lane, Queue, Waiting
from agent.recorder import Recorder


class _Mutation(msgspec.Struct):
    kind: Literal["delete", "move", "replace"]
    by: int = 0
    text: str | None = None
    lane: Lane | None = None


class _Mutate(msgspec.Struct):
    lane: Lane
    index: int
    expectedText: str
    mutation: _Mutation


class QueueCommands:
    """`tell` is called after each change."""

    def __init__(self, recorder: Recorder, tell: Callable[[], None]) -> None:
        self._rec = recorder
        self._tell = tell
        self.known: dict[str, Command] = {
            "list_queue": self._list,
            "move_queued": self._move,
            "edit_queued": self._edit,
            "delete_queued": self._delete,
            "clear_queue": self._clear,
            "mutate_queued_message": self._mutate,
        }

    @property
    def _queue(self) -> Queue:
        return self._rec.conversation.queue

    async def _list(self, _: Mapping[str, object]) -> object:
        return {"queue": self._queue.listed()}

    async def _move(self, args: Mapping[str, object]) -> object:
        message_id, place = args.get("id"), args.get("place")
        if not isinstance(place, int) or isinstance(place, bool) or place < 0:
            raise CommandFailed("bad_arguments", "place must be a number from 0 on.")
        return await self._change(
            lambda: [QueueMoved(message_id=self._waiting(message_id), place=place)]
        )

    async def _edit(self, args: Mapping[str, object]) -> object:
        message_id, text = args.get("id"), args.get("text")
        if not isinstance(text, str) or not text.strip():
            raise CommandFailed("bad_arguments", "text must be a string that is not empty.")
        return await self._change(
            lambda: [QueueEdited(message_id=self._waiting(message_id), text=text)]
        )

    async def _delete(self, args: Mapping[str, object]) -> object:
        message_id = args.get("id")
        return await self._change(lambda: [QueueDeleted(message_ids=[self._waiting(message_id)])])

    async def _clear(self, _: Mapping[str, object]) -> object:
        return {**(await self.clear()), "queue": self._queue.listed()}

    async def clear(self) -> dict[str, object]:
        """Take all back, and tell what that was. Raises HistoryFailed."""
        removed: list[dict[str, object]] = []

        def decision() -> list[Entry]:
            removed.extend(self._queue.listed())
            ids = [waiting.message.id for waiting in self._queue]
            return [QueueDeleted(message_ids=ids)] if ids else []

        await self._change(decision)
        return {"removed": removed}

    async def _mutate(self, args: Mapping[str, object]) -> object:
        """Change the message that the caller sees at a place, if it still is the one there."""
        try:
            wanted = msgspec.convert(args, _Mutate)
        except msgspec.ValidationError as exc:
            raise CommandFailed("bad_arguments", f"The arguments do not fit: {exc}.") from exc
        outcome = "rejected"

        def decision() -> list[Entry]:
            nonlocal outcome
            lane = self._queue.in_lane(wanted.lane)
            if not 0 <= wanted.index < len(lane):
                return []
            if lane[wanted.index][1].message.text != wanted.expectedText:
                return []
            entry = _mutation(wanted, lane)
            outcome = "invalid" if entry is None else "applied"
            return [] if entry is None else [entry]

        await self._change(decision)
        return {"outcome": outcome}

    async def _change(self, decision: Callable[[], list[Entry]]) -> object:
        if await self._rec.decide(decision):
            self._tell()
        return {"queue": self._queue.listed()}

    def _waiting(self, message_id: object) -> str:
        if not isinstance(message_id, str) or message_id not in self._queue:
            raise CommandFailed(
                "unknown_message",
                "No message with this id waits: a run has taken it, or it was deleted.",
            )
        return message_id


def _mutation(wanted: _Mutate, lane: Sequence[tuple[int, Waiting]]) -> Entry | None:
    """The entry that does it; None for what can't be done to this message."""
    mutation = wanted.mutation
    message = lane[wanted.index][1].message
    match mutation.kind:
        case "delete":
            return QueueDeleted(message_ids=[message.id])
        case "move":
            target = wanted.index + mutation.by
            if mutation.by not in (-1, 1) or not 0 <= target < len(lane):
                return None
            return QueueMoved(message_id=message.id, place=lane[target][0])
        case "replace":
            text = message.text if mutation.text is None else mutation.text
            if not text.strip():
                return None
            return QueueEdited(message_id=message.id, text=text, lane=mutation.lane)
