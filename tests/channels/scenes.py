"""A channel with a fake service, the real registry and an agent in this process."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from roost.channels.channel import Channel
from roost.channels.domain.chat import ChatRules
from roost.channels.domain.ports import Line, Receive, Views
from roost.channels.domain.state import ChannelState, decoded
from roost.channels.infrastructure.registry_daemon import RegistryDaemon
from sessions.domain.keys import ThreadKey
from sessions.domain.settings import RegistrySettings
from sessions.registry import Registry
from tests.channels.echo_agent import EchoAgents, Talk
from tests.channels.fakes import PERSON, FakeMessaging, FakeReports, MemoryDisk, Seen
from tests.support.fakes import FakeClient
from tests.support.scenes import line

PROJECT = "/work/project"
# The longest that anything takes when the network is well: pauses between requests add up.
SETTLED = 60.0


@dataclass(slots=True)
class Scene:
    service: FakeMessaging
    registry: Registry
    agents: EchoAgents
    rules: ChatRules
    daemon: "ForgetfulDaemon"
    allowed: frozenset[int]
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    reports: FakeReports = field(default_factory=FakeReports)

    @asynccontextmanager
    async def channel(self) -> AsyncGenerator[Channel]:
        """The channel, from what was kept of an earlier one. Leaving is a crash or a stop."""
        content = self.disk.content
        channel = Channel(
            service=self.service,
            daemon=self.daemon,
            keeps=self.disk,
            reports=self.reports,
            state=ChannelState() if content is None else decoded(content),
            allowed=self.allowed,
            rules=self.rules,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(channel.serve)
            yield channel
            tasks.cancel_scope.cancel()

    def talk(self, conversation_id: str = f"test-{PERSON}") -> Talk:
        return self.agents.talks[ThreadKey.parse(PROJECT, conversation_id)]

    async def settles(self, seconds: float = SETTLED) -> None:
        """Let everything happen that was begun."""
        await anyio.sleep(seconds)

    async def says(self, text: str, **more: Any) -> Seen:
        """The person writes; the last thing that is shown then."""
        self.service.writes(text, **more)
        await self.settles()
        return self.service.last()

    async def presses(self, label: str, seen: Seen) -> None:
        self.service.presses(label, seen)
        await self.settles()

    def seen(self, part: str, chat: int = PERSON) -> Seen:
        found = [seen for seen in self.service.chats[chat] if part in seen.text]
        assert found, (part, self.service.texts(chat))
        return found[-1]

    async def elsewhere(self, conversation_id: str = f"test-{PERSON}") -> "Elsewhere":
        """Another client of the same daemon, on a thread."""
        client = FakeClient("the terminal")
        opening = line("resume_conversation", project_dir=PROJECT, id=conversation_id)
        self.registry.handle(client, opening)
        await anyio.sleep(1)
        return Elsewhere(client, lambda frame: self.registry.handle(client, frame))


@dataclass(slots=True)
class ForgetfulDaemon:
    """The registry's, whose views may be old, as those of a daemon in another process are."""

    here: RegistryDaemon
    old: Views | None = None
    """Told instead of what is so now."""
    _watchers: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    def follow(self, thread: ThreadKey, receive: Receive) -> Line:
        return self.here.follow(thread, receive)

    def views(self) -> Views:
        return self.old or self.here.views()

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        self._watchers.append(changed)
        return self.here.watch(changed)

    def looks_away(self) -> None:
        self.old = self.here.views()

    def looks_again(self) -> None:
        self.old = None
        for changed in self._watchers:
            changed()


@dataclass(frozen=True, slots=True)
class Elsewhere:
    client: FakeClient
    sends: Callable[[bytes], None]


@asynccontextmanager
async def a_scene(
    service: FakeMessaging | None = None,
    allowed: frozenset[int] = frozenset({PERSON}),
    **rules: Any,
) -> AsyncGenerator[Scene]:
    """Without a channel yet."""
    agents = EchoAgents()
    registry = Registry(agents, RegistrySettings(idle_timeout=600))
    given = replace(ChatRules(service="test", project=PROJECT), **rules)
    async with registry.serving():
        daemon = ForgetfulDaemon(RegistryDaemon(registry, "Telegram"))
        yield Scene(service or FakeMessaging(), registry, agents, given, daemon, allowed)
        registry.hurry()


@asynccontextmanager
async def a_chat(**given: Any) -> AsyncGenerator[Scene]:
    """With one that is connected."""
    async with a_scene(**given) as scene, scene.channel():
        await anyio.sleep(5)
        yield scene
