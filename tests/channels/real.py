"""A channel as the daemon runs it: aiogram, a Bot API server, the registry, scripted workers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from roost.home import RoostHome
from tests.agui.real import PATIENCE, RealDaemon, a_real_daemon
from tests.channels.fake_telegram import PERSON, TOKEN, FakeTelegram


@pytest.fixture
def anyio_backend() -> str:
    """aiogram runs on asyncio."""
    return "asyncio"


@dataclass(slots=True)
class RealChannel:
    telegram: FakeTelegram
    daemon: RealDaemon

    @property
    def project(self) -> Path:
        return self.daemon.project

    @property
    def home(self) -> RoostHome:
        return self.daemon.home


@asynccontextmanager
async def a_real_channel(
    tmp_path: Path, telegram: FakeTelegram | None = None, **settings: str
) -> AsyncGenerator[RealChannel]:
    telegram = telegram or FakeTelegram()
    async with telegram.serving() as url:
        given = {
            "ROOST_TELEGRAM__ENABLED": "true",
            "ROOST_TELEGRAM__TOKEN": TOKEN,
            "ROOST_TELEGRAM__ALLOWED_CHATS": str(PERSON),
            "ROOST_TELEGRAM__PROJECT": str(tmp_path / "project"),
            "ROOST_TELEGRAM__API_URL": url,
            "ROOST_TELEGRAM__POLL_TIMEOUT": "5s",
            **settings,
        }
        async with a_real_daemon(tmp_path, **given) as daemon, daemon.channels.serving():
            with anyio.fail_after(PATIENCE):
                await telegram.until_true(lambda: telegram.count("getUpdates") > 0, PATIENCE)
            yield RealChannel(telegram, daemon)
