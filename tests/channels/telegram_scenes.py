"""A channel over the real aiogram client and a Bot API server, with an agent in this process.

Its pauses between requests are short; everything else is as the daemon builds it.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from roost.channels.channel import Channel
from roost.channels.domain.chat import ChatRules
from roost.channels.domain.ports import Limits
from roost.channels.domain.state import ChannelState
from roost.channels.infrastructure.project_files import find_file, is_folder
from roost.channels.infrastructure.registry_daemon import RegistryDaemon
from roost.channels.infrastructure.telegram import Telegram
from sessions.domain.keys import ThreadKey
from sessions.domain.settings import RegistrySettings
from sessions.registry import Registry
from tests.channels.echo_agent import EchoAgents, Talk
from tests.channels.fake_telegram import PERSON, TOKEN, FakeTelegram
from tests.channels.fakes import FakeReports, MemoryDisk

LIMITS = Limits(pause=0.02, group_pause=0.02, growth_pause=0.1)


@pytest.fixture
def anyio_backend() -> str:
    """aiogram runs on asyncio."""
    return "asyncio"


@dataclass(frozen=True, slots=True)
class TelegramScene:
    telegram: FakeTelegram
    agents: EchoAgents
    project: Path
    reports: FakeReports
    disk: MemoryDisk

    @property
    def talk(self) -> Talk:
        return self.agents.talks[ThreadKey.parse(str(self.project), f"test-{PERSON}")]


@asynccontextmanager
async def a_telegram_chat(
    project: Path,
    telegram: FakeTelegram | None = None,
    allowed: frozenset[int] = frozenset({PERSON}),
    **rules: Any,
) -> AsyncGenerator[TelegramScene]:
    telegram = telegram or FakeTelegram()
    agents, reports, disk = EchoAgents(), FakeReports(), MemoryDisk()
    registry = Registry(agents, RegistrySettings())
    given = ChatRules(
        service="test", project=str(project), find_file=find_file, is_folder=is_folder, **rules
    )
    async with telegram.serving() as url:
        service = Telegram(TOKEN, url, poll_timeout=5, limits=LIMITS)
        channel = Channel(
            service=service,
            daemon=RegistryDaemon(registry, "test"),
            keeps=disk,
            reports=reports,
            state=ChannelState(),
            allowed=allowed,
            rules=given,
        )
        async with service.serving(), registry.serving(), anyio.create_task_group() as tasks:
            tasks.start_soon(channel.serve)
            with anyio.fail_after(300):
                yield TelegramScene(telegram, agents, project, reports, disk)
            tasks.cancel_scope.cancel()
            registry.hurry()
