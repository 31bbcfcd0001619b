"""A talk of one session with three clients behind a proxy that cuts: who shows what in the end.

Everything is drawn from one seed: what is said, where the limits are, when it is cut. Bounded: the
clients are mostly let back before the next cut, and everything has a deadline.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from connection.peer import PeerSettings
from tests.support.fault_proxy import FaultProxy
from tests.support.live_session import LiveWorker, Screen, canonical
from tests.support.local_scene import a_local_server

_PATIENCE = 60.0
_KEYS = 6


@dataclass
class CutStorm:
    """One session, from its first word to the comparison."""

    folder: Path
    seed: int
    wanted: int
    cuts: int = 0
    wrong: list[str] = field(default_factory=list[str])
    """What a client showed that was never said so, or did not show."""
    snapshots: int = 0
    """How often a client came back to more than the replay could give."""
    _chance: random.Random = field(init=False)
    _number: int = 0
    _run: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    async def rage(self) -> None:
        """Talk and cut, then let the clients settle and compare them with the truth."""
        pick = self._chance.choice
        limits = PeerSettings(max_events=pick((8, 1024)), chunk_bytes=pick((200, 512 * 1024)))
        async with (
            a_local_server(self.folder, settings=limits, ring_events=pick((20, 4096))) as scene,
            FaultProxy(self.folder / "proxy.sock", scene.path, self.seed).serving() as proxy,
            scene.client(proxy.dial) as (_, one),
            scene.client(proxy.dial) as (_, two),
            scene.client(proxy.dial) as (_, three),
        ):
            screens = (one, two, three)
            while proxy.cuts < self.wanted:
                self._speak(scene.worker)
                await anyio.sleep(self._chance.random() / 500)
                self._speak(scene.worker)
                outages = [screen.outages + screen.is_connected for screen in screens]
                proxy.cut()
                self._speak(scene.worker)
                if self._chance.random() < 0.7:
                    with anyio.fail_after(_PATIENCE):
                        for screen, number in zip(screens, outages, strict=True):
                            await screen.until_back(number)
                else:
                    # Cut again while it is coming back.
                    await anyio.sleep(self._chance.random() / 100)
            self._end_run(scene.worker)
            self.cuts = proxy.cuts
            proxy.faults = False
            await self._compare(screens, scene.worker)

    async def _compare(self, screens: Sequence[Screen], worker: LiveWorker) -> None:
        with anyio.move_on_after(_PATIENCE):
            for screen in screens:
                await screen.until_equal(worker.model)
        truth = canonical(worker.model)
        for number, screen in enumerate(screens, 1):
            self.snapshots += screen.snapshots
            self.wrong += [f"client {number}: {what!r}" for what in screen.violations]
            if (shown := canonical(screen.model)) != truth:
                self.wrong.append(f"client {number} shows {shown[-2000:]} and not {truth[-2000:]}")

    def _speak(self, worker: LiveWorker) -> None:
        """A few messages of a run, which now and then ends and is followed by another."""
        chance = self._chance
        if self._run == 0 or chance.random() < 0.2:
            self._end_run(worker)
            self._run += 1
            worker.say("RUN_STARTED", threadId="c1", runId=f"r{self._run}")
            worker.say("STATE_SNAPSHOT", snapshot={"run": self._run})
        for _ in range(chance.choice((1, 1, 1, 6))):
            self._number += 1
            name = f"m{self._number}"
            worker.say("TEXT_MESSAGE_START", messageId=name, role="assistant")
            for word in range(chance.randrange(1, 6)):
                worker.say("TEXT_MESSAGE_CONTENT", messageId=name, delta=f"{word} ")
                path = f"/k{chance.randrange(_KEYS)}"
                worker.say(
                    "STATE_DELTA", delta=[{"op": "add", "path": path, "value": self._number}]
                )
            worker.say("TEXT_MESSAGE_END", messageId=name)
        if chance.random() < 0.2:
            self._end_run(worker)
            self._run += 1
            worker.say("RUN_STARTED", threadId="c1", runId=f"r{self._run}")

    def _end_run(self, worker: LiveWorker) -> None:
        if self._run:
            run = {"threadId": "c1", "runId": f"r{self._run}"}
            worker.say("RUN_FINISHED", **run, outcome={"type": "success"})
