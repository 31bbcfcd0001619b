"""A day of bad network, in virtual time: every message arrives, once, on both sides."""

import random
from collections import Counter

import anyio
import pytest

from tests.channels.fakes import Weather
from tests.channels.scenes import Scene, a_scene
from tests.support.time import HOUR, MINUTE, virtual_time

pytestmark = virtual_time


async def _weather(scene: Scene, chance: random.Random) -> None:
    """Now and then the network is gone, once for a whole hour."""
    while True:
        await anyio.sleep(chance.uniform(20 * MINUTE, 3 * HOUR))
        scene.service.weather.is_down = True
        await anyio.sleep(chance.choice([MINUTE, 10 * MINUTE, HOUR]))
        scene.service.weather.is_down = False


async def _person(scene: Scene, chance: random.Random, written: list[str]) -> None:
    while True:
        written.append(f"message {len(written)}.")
        scene.service.writes(written[-1])
        await anyio.sleep(chance.choice([2.0, 30.0, 10 * MINUTE, 20 * MINUTE]))


@pytest.mark.parametrize("seed", range(2))
async def test_a_day_of_bad_network_ends_with_every_message_delivered_once(seed: int) -> None:
    """Requests are cut, answers are lost, the service asks for pauses, the channel is restarted."""
    chance = random.Random(seed)
    weather = Weather(cut=0.15, lost=0.15, later=0.05, slowness=2.0, random=chance)
    written: list[str] = []
    async with a_scene() as scene:
        scene.service.weather = weather
        scene.agents.slow = 6.0
        evening = anyio.current_time() + 24 * HOUR

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_person, scene, chance, written)
            tasks.start_soon(_weather, scene, chance)
            while anyio.current_time() < evening:
                async with scene.channel():
                    await anyio.sleep(chance.uniform(MINUTE, 4 * HOUR))
            tasks.cancel_scope.cancel()
        scene.service.weather = Weather()
        async with scene.channel():
            await anyio.sleep(2 * HOUR)
            taken = scene.talk().taken
            shown = [text for text in scene.service.texts() if text.startswith("answer")]
        assert len(written) > 100
        assert taken == written
        assert Counter(shown) == Counter(f"answer to {text}" for text in written)
        assert shown == [f"answer to {text}" for text in written]
