"""The commands on messages that wait: each is decided in its turn, on what waits then."""

from collections.abc import Callable, Mapping

from agent.commands import Command, CommandFailed
from agent.domain.entries import Entry, QueueDeleted, QueueEdited, QueueMoved
from agent.domain.queue import Queue
from agent.recorder import Recorder


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
        def decision() -> list[Entry]:
            ids = [waiting.message.id for waiting in self._queue]
            return [QueueDeleted(message_ids=ids)] if ids else []

        return await self._change(decision)

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
