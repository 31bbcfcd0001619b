"""Messages that wait: which of them a run takes next, and how a person puts them in order.

Two lanes. Steering messages are taken by the run that goes on, after the calls of its current turn;
follow-ups, and commands for the shell, only begin a run of their own. Changes name a message by its
id; one that is not waiting any more changes nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from agent.domain.messages import ATTACHMENTS, HIDDEN, Message
from agent.domain.offer import Offer

MOST_SHOWN = 100
LONGEST_SHOWN = 500

Lane = Literal["steering", "follow_up"]


def shell_command(message: Message) -> str | None:
    """What stands behind a leading `!`: a command for the shell, not for the model."""
    if not message.text.startswith("!"):
        return None
    if message.is_marked(HIDDEN) or message.is_marked(ATTACHMENTS):
        return None
    return message.text[1:].strip() or None


@dataclass(frozen=True, slots=True)
class Waiting:
    """One message that waits, and the input it came in."""

    message: Message
    input_id: str = ""
    run_id: str | None = None
    wanted: Lane = "steering"
    offer: Offer | None = None

    @property
    def lane(self) -> Lane:
        return "follow_up" if shell_command(self.message) is not None else self.wanted


class Queue:
    """What waits, in order."""

    def __init__(self) -> None:
        self._items: list[Waiting] = []

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, message_id: str) -> bool:
        return any(item.message.id == message_id for item in self._items)

    def add(self, items: Iterable[Waiting]) -> None:
        self._items += items

    def steering(self) -> list[Waiting]:
        """What a run that goes on takes: all that may join it."""
        return [item for item in self._items if item.lane == "steering"]

    def next(self) -> list[Waiting]:
        """What the next run begins with: one shell command, one input's follow-ups, or steering."""
        if not self._items:
            return []
        first = self._items[0]
        if first.lane == "steering":
            return self.steering()
        if shell_command(first.message) is not None:
            return [first]
        return [
            item
            for item in self._items
            if item.input_id == first.input_id
            and item.lane == "follow_up"
            and shell_command(item.message) is None
        ]

    def of_input(self, input_id: str) -> list[Waiting]:
        return [item for item in self._items if item.input_id == input_id]

    def take(self, message_ids: Sequence[str]) -> list[Waiting]:
        """Take these out, in the order they wait in."""
        wanted = set(message_ids)
        taken = [item for item in self._items if item.message.id in wanted]
        self._items = [item for item in self._items if item.message.id not in wanted]
        return taken

    def move(self, message_id: str, place: int) -> None:
        """Put a message at a place, counted from 0; beyond the ends is at the end."""
        for item in self.take([message_id]):
            self._items.insert(max(0, place), item)

    def edit(self, message_id: str, text: str, lane: Lane | None = None) -> None:
        """Other words, under the same id, with what was attached; another lane if one is given."""
        self._items = [
            replace(
                item,
                message=msgspec.structs.replace(item.message, content=text),
                wanted=lane or item.wanted,
            )
            if item.message.id == message_id
            else item
            for item in self._items
        ]

    def in_lane(self, lane: Lane) -> list[tuple[int, Waiting]]:
        """What a person sees in a lane, each with its place among all."""
        return [
            (place, item)
            for place, item in enumerate(self._items)
            if item.lane == lane and not item.message.is_marked(HIDDEN)
        ]

    def listed(self) -> list[dict[str, object]]:
        """All that waits, whole. A prompt that nobody wrote is not in it."""
        return [
            {"id": item.message.id, "text": item.message.text, "lane": item.lane}
            for item in self._items
            if not item.message.is_marked(HIDDEN)
        ]

    def shown(self) -> list[dict[str, object]]:
        """For the state, which is told again with each change: the first ones, long texts cut."""
        return [{**row, "text": _cut(str(row["text"]))} for row in self.listed()[:MOST_SHOWN]]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"
