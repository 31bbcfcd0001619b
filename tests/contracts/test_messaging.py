"""What every messaging service promises its channel: Telegram, and the fake second one.

The next service is one more world here.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import anyio
import pytest

from roost.channels.domain.messages import (
    ChatId,
    Chunk,
    InFile,
    MessageId,
    OutFile,
    Outgoing,
    Pressed,
    Written,
)
from roost.channels.domain.ports import ChatClosed, Messaging, Refused, TryLater, Unreachable
from roost.channels.infrastructure.telegram import Telegram
from tests.channels import fake_telegram
from tests.channels.fakes import FakeMessaging, Weather

CHAT = ChatId(1001)


@pytest.fixture
def anyio_backend() -> str:
    """aiogram runs on asyncio."""
    return "asyncio"


class World(Protocol):
    """A service, the people at its other end, and what can go wrong between."""

    @property
    def service(self) -> Messaging: ...

    def writes(self, text: str) -> int: ...
    def sends_file(self, content: bytes) -> None: ...
    def presses(self, label: str) -> None: ...
    def shown(self) -> list[tuple[int, str, list[str]]]: ...
    def trouble(self, kind: str) -> None:
        """What becomes of the next request: cut, lost (its answer), later, closed."""


class FakeWorld:
    def __init__(self) -> None:
        self.fake = FakeMessaging()
        self.service: Messaging = self.fake

    def writes(self, text: str) -> int:
        return self.fake.writes(text)

    def sends_file(self, content: bytes) -> None:
        self.fake.files["f"] = content
        self.fake.writes("", files=(InFile(id="f", name="a.txt", mime_type="text/plain"),))

    def presses(self, label: str) -> None:
        self.fake.presses(label, self.fake.last())

    def shown(self) -> list[tuple[int, str, list[str]]]:
        return [(seen.id, seen.text, seen.labels) for seen in self.fake.chats[CHAT]]

    def trouble(self, kind: str) -> None:
        if kind == "closed":
            self.fake.closed.add(CHAT)
        else:
            shares = {name: float(name == kind) for name in ("cut", "lost", "later")}
            self.fake.weather = Weather(shares["cut"], shares["lost"], shares["later"])


class TelegramWorld:
    def __init__(self, telegram: fake_telegram.FakeTelegram, url: str) -> None:
        self.telegram = telegram
        self.client = Telegram(fake_telegram.TOKEN, url, poll_timeout=1)
        self.service: Messaging = self.client

    def writes(self, text: str) -> int:
        return self.telegram.writes(text)

    def sends_file(self, content: bytes) -> None:
        self.telegram.sends_file(content, "text/plain", "a.txt")

    def presses(self, label: str) -> None:
        self.telegram.presses(label, self.telegram.chats[CHAT][-1])

    def shown(self) -> list[tuple[int, str, list[str]]]:
        return [(s.id, s.text, s.labels) for s in self.telegram.chats[CHAT]]

    def trouble(self, kind: str) -> None:
        if kind == "closed":
            self.telegram.blocked.add(CHAT)
        for method in ("sendMessage", "editMessageText", "getUpdates"):
            if kind != "closed":
                trouble = fake_telegram.too_many(3) if kind == "later" else kind
                self.telegram.troubles[method].append(trouble)


@asynccontextmanager
async def a_fake_world() -> AsyncGenerator[World]:
    yield FakeWorld()


@asynccontextmanager
async def a_telegram_world() -> AsyncGenerator[World]:
    telegram = fake_telegram.FakeTelegram()
    async with telegram.serving() as url:
        world = TelegramWorld(telegram, url)
        async with world.client.serving():
            yield world


MakeWorld = Callable[[], AbstractAsyncContextManager[World]]


@pytest.fixture(params=[a_fake_world, a_telegram_world], ids=["fake", "telegram"])
def make_world(request: pytest.FixtureRequest) -> MakeWorld:
    made: MakeWorld = request.param
    return made


def says(text: str, *labels: str) -> Outgoing:
    buttons = (tuple((label, f"name-{label}") for label in labels),) if labels else ()
    return Outgoing(chunk=Chunk(text, text), buttons=buttons)


async def received(service: Messaging, after: int | None) -> tuple[int, list[object]]:
    """The next updates and the number of the last."""
    with anyio.fail_after(60):
        while not (updates := await service.receive(after)):
            pass
    return updates[-1].number, [update.what for update in updates]


async def test_what_is_sent_is_seen_with_its_buttons(make_world: MakeWorld) -> None:
    async with make_world() as world:
        id_ = await world.service.send(CHAT, says("hello", "yes", "no"))
        assert world.shown() == [(id_, "hello", ["yes", "no"])]


async def test_an_edit_makes_it_so_also_twice(make_world: MakeWorld) -> None:
    async with make_world() as world:
        id_ = await world.service.send(CHAT, says("hello", "yes"))
        for _ in range(2):
            await world.service.edit(CHAT, id_, says("decided"))
        assert world.shown() == [(id_, "decided", [])]


async def test_a_message_that_is_gone_can_not_be_edited(make_world: MakeWorld) -> None:
    async with make_world() as world:
        with pytest.raises(Refused):
            await world.service.edit(CHAT, MessageId(9999), says("hello"))


async def test_what_people_wrote_comes_until_it_is_confirmed(make_world: MakeWorld) -> None:
    """An update that was not handled to its end must come again after a crash."""
    async with make_world() as world:
        first, second = world.writes("one"), world.writes("two")
        _, unconfirmed = await received(world.service, None)
        last, whats = await received(world.service, None)
        assert unconfirmed == whats
        assert [(w.id, w.text) for w in whats if isinstance(w, Written)] == [
            (first, "one"),
            (second, "two"),
        ]
        assert all(w.sender.chat == CHAT for w in whats if isinstance(w, Written))
        world.writes("three")
        after, whats = await received(world.service, last)
        assert after > last
        assert [w.text for w in whats if isinstance(w, Written)] == ["three"]


async def test_a_press_brings_the_name_of_its_button(make_world: MakeWorld) -> None:
    async with make_world() as world:
        id_ = await world.service.send(CHAT, says("approve?", "yes", "no"))
        world.presses("no")
        _, (press,) = await received(world.service, None)
        assert isinstance(press, Pressed)
        assert (press.name, press.message) == ("name-no", id_)
        await world.service.acknowledge(press.id, "Declined")


async def test_a_send_whose_answer_was_lost_is_found(make_world: MakeWorld) -> None:
    """Sending it again would double it; there is no other way to know."""
    async with make_world() as world:
        last = {CHAT: await world.service.send(CHAT, says("before"))}
        place = world.service.place(CHAT, last)
        world.writes("something between")
        world.trouble("lost")
        with pytest.raises(Unreachable):
            await world.service.send(CHAT, says("lost", "yes"))
        if isinstance(world, FakeWorld):
            world.fake.weather = Weather()
        found = await world.service.find(CHAT, place, says("lost", "yes"))
        assert found == world.shown()[-1][0]
        assert [text for _, text, _ in world.shown()] == ["before", "lost"]


async def test_a_send_that_never_arrived_is_not_found(make_world: MakeWorld) -> None:
    async with make_world() as world:
        last = {CHAT: await world.service.send(CHAT, says("before"))}
        place = world.service.place(CHAT, last)
        world.writes("something between")
        world.trouble("cut")
        with pytest.raises(Unreachable):
            await world.service.send(CHAT, says("lost"))
        if isinstance(world, FakeWorld):
            world.fake.weather = Weather()
        assert await world.service.find(CHAT, place, says("lost")) is None


async def test_too_many_requests_say_when_to_come_again(make_world: MakeWorld) -> None:
    async with make_world() as world:
        world.trouble("later")
        with pytest.raises(TryLater) as caught:
            await world.service.send(CHAT, says("hello"))
        assert caught.value.seconds >= 1
        assert world.shown() == []


async def test_a_chat_that_blocked_us_is_closed(make_world: MakeWorld) -> None:
    async with make_world() as world:
        world.trouble("closed")
        with pytest.raises(ChatClosed):
            await world.service.send(CHAT, says("hello"))


async def test_a_long_text_goes_in_chunks_that_are_all_taken(make_world: MakeWorld) -> None:
    async with make_world() as world:
        text = "\n\n".join(f"**{n}** " + "word `code` " * 30 for n in range(40))
        pieces = world.service.chunks(text)
        assert len(pieces) > 1
        for piece in pieces:
            await world.service.send(CHAT, Outgoing(chunk=piece))
        words = " ".join(text for _, text, _ in world.shown()).split()
        assert words == text.replace("*", "").replace("`", "").split()


async def test_files_come_and_go_with_a_limit(make_world: MakeWorld) -> None:
    async with make_world() as world:
        world.sends_file(b"content")
        _, (written,) = await received(world.service, None)
        assert isinstance(written, Written)
        assert await world.service.fetch(written.files[0], 100) == b"content"
        with pytest.raises(Refused):
            await world.service.fetch(written.files[0], 3)
        file = OutFile(name="call.txt", text="rm -rf build")
        sent = Outgoing(chunk=Chunk("see the file", "see the file"), file=file)
        id_ = await world.service.send(CHAT, sent)
        await world.service.edit(CHAT, id_, Outgoing(chunk=Chunk("done", "done"), file=file))
        assert [text for _, text, _ in world.shown()] == ["done"]


async def test_the_commands_are_offered_and_we_learn_our_name(make_world: MakeWorld) -> None:
    async with make_world() as world:
        assert await world.service.introduce([("new", "Begin anew")])
