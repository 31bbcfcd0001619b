"""Fakes of a channel's ports: a messaging service, the disk, whoever is told how it is.

Features of `FakeMessaging`: one row of ids for all its chats, edits, buttons and files, or any of
them missing; requests that take time, fail before or after they were done, or are to come later;
a network that is down; chats that are closed. It is in the contract suite beside Telegram.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import anyio

from roost.channels.domain.condition import Condition
from roost.channels.domain.markdown import render
from roost.channels.domain.messages import (
    ChatId,
    Chunk,
    InFile,
    MessageId,
    Outgoing,
    Pressed,
    Sender,
    Update,
    Written,
)
from roost.channels.domain.ports import ChatClosed, Limits, Refused, TryLater, Unreachable
from roost.channels.domain.spans import plain, split

PERSON = ChatId(1001)


@dataclass(slots=True)
class Seen:
    """A message as a person sees it."""

    id: int
    message: Outgoing

    @property
    def text(self) -> str:
        return self.message.chunk.plain

    @property
    def labels(self) -> list[str]:
        return [label for row in self.message.buttons for label, _ in row]


@dataclass(slots=True)
class Weather:
    """How bad the network is: shares of requests, and seconds."""

    cut: float = 0.0
    lost: float = 0.0
    later: float = 0.0
    slowness: float = 0.0
    random: Random = field(default_factory=lambda: Random(7))
    is_down: bool = False


class FakeMessaging:
    """A second service: plain text, and what else it is told to have."""

    def __init__(self, limits: Limits | None = None, longest: int = 500) -> None:
        self.limits = limits or Limits(pause=1.0, group_pause=3.0, growth_pause=2.5)
        self.weather = Weather()
        self.longest = longest
        self.chats: dict[int, list[Seen]] = defaultdict(list)
        self.closed: set[int] = set()
        self.acknowledged: list[tuple[str, str]] = []
        self.introduced: list[tuple[str, str]] = []
        self.files: dict[str, bytes] = {}
        self.refuses: set[str] = set()
        self.requests = 0
        self.repeats = 0
        """So often it tells again what was confirmed already."""
        self._updates: list[Update] = []
        self._last_id = 10
        self._last_update = 500
        self._changed = anyio.Event()

    # What people do

    def writes(
        self,
        text: str,
        *,
        chat: ChatId = PERSON,
        person: int | None = None,
        reply_to: int | None = None,
        files: tuple[InFile, ...] = (),
        unsupported: str | None = None,
    ) -> int:
        self._last_id += 1
        written = Written(
            sender=self._sender(chat, person),
            id=MessageId(self._last_id),
            text=text,
            reply_to=None if reply_to is None else MessageId(reply_to),
            files=files,
            unsupported=unsupported,
        )
        self._add(written)
        return self._last_id

    def presses(self, label: str, seen: Seen, *, chat: ChatId = PERSON) -> None:
        name = next(n for row in seen.message.buttons for text, n in row if label in text)
        self._add(
            Pressed(
                sender=self._sender(chat, None),
                id=f"press-{self._last_update}",
                message=MessageId(seen.id),
                name=name,
            )
        )

    def _sender(self, chat: ChatId, person: int | None) -> Sender:
        is_group = chat < 0
        return Sender(chat=chat, person=person or abs(chat), name="Ada", is_group=is_group)

    def _add(self, what: Written | Pressed) -> None:
        self._last_update += 1
        self._updates.append(Update(self._last_update, what))
        self._stir()

    def _stir(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    # What a test sees

    @property
    def next_id(self) -> int:
        """The id of the next message."""
        return self._last_id + 1

    def texts(self, chat: int = PERSON) -> list[str]:
        return [seen.text for seen in self.chats[chat]]

    def last(self, chat: int = PERSON) -> Seen:
        return self.chats[chat][-1]

    # The port

    async def receive(self, after: int | None) -> Sequence[Update]:
        await self._weathered()
        if self.repeats:
            self.repeats -= 1
        else:
            self._updates = [u for u in self._updates if after is None or u.number > after]
        with anyio.move_on_after(30):
            while not self._updates:
                await self._changed.wait()
        found = list(self._updates)
        await self._weathered(done=True)
        return found

    async def fetch(self, file: InFile, largest: int) -> bytes:
        await self._weathered()
        content = self.files.get(file.id)
        if content is None or len(content) > largest:
            raise Refused("no such file, or too large")
        return content

    async def send(self, chat: ChatId, message: Outgoing) -> MessageId:
        await self._weathered()
        self._check(chat, message)
        self._last_id += 1
        sent = Seen(self._last_id, message)
        self.chats[chat].append(sent)
        await self._weathered(done=True)
        return MessageId(sent.id)

    async def edit(self, chat: ChatId, message_id: MessageId, message: Outgoing) -> None:
        await self._weathered()
        self._check(chat, message)
        if not self.limits.edits:
            raise AssertionError("it was told that there are no edits")
        found = next((seen for seen in self.chats[chat] if seen.id == message_id), None)
        if found is None:
            raise Refused("there is no such message")
        found.message = message
        await self._weathered(done=True)

    async def find(self, chat: ChatId, place: int, message: Outgoing) -> MessageId | None:
        await self._weathered()
        ids = (seen.id for seen in self.chats[chat] if seen.id > place)
        found = min(ids, default=None)
        await self._weathered(done=True)
        return None if found is None else MessageId(found)

    def chunks(self, markdown: str) -> Sequence[Chunk]:
        pieces = [plain(piece) for piece in split(render(markdown).spans, self.longest)]
        return [Chunk(piece, piece) for piece in pieces if piece.strip()]

    def place(self, chat: ChatId, last: Mapping[ChatId, int]) -> int:
        return max(last.values(), default=0)

    async def acknowledge(self, press: str, words: str) -> None:
        self.acknowledged.append((press, words))

    async def introduce(self, commands: Sequence[tuple[str, str]]) -> str:
        await self._weathered()
        self.introduced = list(commands)
        return "roost_bot"

    def _check(self, chat: int, message: Outgoing) -> None:
        if chat in self.closed:
            raise ChatClosed("the person blocked us")
        if message.buttons and not self.limits.buttons:
            raise AssertionError("it was told that there are no buttons")
        if any(words in message.chunk.plain for words in self.refuses):
            raise Refused("we do not like it")

    async def _weathered(self, *, done: bool = False) -> None:
        """What the network does to a request before it is done, or to its answer."""
        weather = self.weather
        self.requests += not done
        await anyio.sleep(weather.random.uniform(0, weather.slowness))
        if weather.is_down or weather.random.random() < (weather.lost if done else weather.cut):
            raise Unreachable("no network")
        if not done and weather.random.random() < weather.later:
            raise TryLater(weather.random.uniform(1, 30))


class MemoryDisk:
    """Keeps what was saved; may be full."""

    def __init__(self) -> None:
        self.content: bytes | None = None
        self.is_full = False
        self.saves = 0

    async def save(self, content: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        if self.is_full:
            raise OSError(28, "No space left on device")
        self.saves += 1
        self.content = content


class FakeReports:
    def __init__(self) -> None:
        self.conditions: list[Condition] = []
        self._news = anyio.Event()

    async def report(self, condition: Condition) -> None:
        self.conditions.append(condition)
        news, self._news = self._news, anyio.Event()
        news.set()

    async def until(self, status: str) -> None:
        while not any(condition.status == status for condition in self.conditions):
            await self._news.wait()

    @property
    def last(self) -> Condition:
        return self.conditions[-1]
