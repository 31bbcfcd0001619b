"""The commands by which somebody speaks to the agent, or stops it.

The result of a prompt is its admission: what it became, before anything came of it. An admitted
message is on the disk.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from agent.commands import Command, CommandFailed
from agent.inputs import FOLLOW_UP, LANE, RunInput

Args = Mapping[str, object]
STEERING = "steering"


class Floor(Protocol):
    """Who admits messages to the conversation, and ends its runs."""

    @property
    def is_busy(self) -> bool:
        """Would a message that comes now have to wait?"""
        ...

    async def read_input(self, value: object) -> RunInput:
        """A run input, checked, without the messages that are known. Raises BadInput."""
        ...

    async def accept(self, found: RunInput) -> str:
        """Queue what a run input asks for, and say how. Raises BadInput, HistoryFailed."""
        ...

    def interrupt(self) -> bool:
        """End the open run as cancelled. Was there one?"""
        ...


class PromptCommands:
    """`clear` takes back what waits, and tells what that was."""

    def __init__(self, floor: Floor, clear: Callable[[], Awaitable[dict[str, object]]]) -> None:
        self._floor = floor
        self._clear = clear
        self.known: dict[str, Command] = {
            "prompt": self._prompt,
            "steer": self._steer,
            "follow_up": self._follow_up,
            "abort": self._abort,
            "abort_and_clear_queue": self._abort_and_clear,
        }

    async def _prompt(self, args: Args) -> object:
        text, message_id = args.get("text"), args.get("messageId")
        lane, if_busy = args.get("lane", STEERING), args.get("ifBusy", "queue")
        if not isinstance(text, str) or not text.strip():
            raise CommandFailed("bad_arguments", "text must be a string that is not empty.")
        if message_id is not None and not isinstance(message_id, str):
            raise CommandFailed("bad_arguments", "messageId must be a string.")
        if lane not in (STEERING, FOLLOW_UP):
            raise CommandFailed("bad_arguments", "lane must be 'steering' or 'follow_up'.")
        if if_busy not in ("queue", "refuse"):
            raise CommandFailed("bad_arguments", "ifBusy must be 'queue' or 'refuse'.")
        message = {"id": message_id, "role": "user", "content": text}
        value = {"messages": [message], "forwardedProps": {LANE: lane}}
        found = await self._floor.read_input(value)
        # Nothing waits between this look and the queue: who is refused, is refused rightly.
        if if_busy == "refuse" and found.messages and self._floor.is_busy:
            raise CommandFailed("busy", "A run goes on, or waits for a decision.")
        admission = await self._floor.accept(found)
        admitted = found.messages[0].id if found.messages else message_id
        return {"admission": admission, "messageId": admitted, "lane": lane}

    async def _steer(self, args: Args) -> object:
        return await self._prompt({**args, "lane": STEERING})

    async def _follow_up(self, args: Args) -> object:
        return await self._prompt({**args, "lane": FOLLOW_UP})

    async def _abort(self, _: Args) -> object:
        return {"aborted": self._floor.interrupt()}

    async def _abort_and_clear(self, _: Args) -> object:
        # In this order: the run that ends makes place for none of what is taken back.
        removed = await self._clear()
        return {**removed, "aborted": self._floor.interrupt()}
