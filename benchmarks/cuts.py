"""Ten thousand cuts: three clients on a live run behind a proxy that cuts, stalls, splits, joins.

In the end every client has to show what was said, to the letter: 0 lost, 0 doubled.

    python -m benchmarks.cuts [cuts] [seed]
"""

import random
import sys
import tempfile
import time
from pathlib import Path

import anyio
import structlog

from benchmarks.report import machine
from tests.support.fault_proxy import FaultProxy
from tests.support.live_session import LiveWorker, canonical
from tests.support.local_scene import a_local_server

CLIENTS = 3


async def main(cuts: int, seed: int) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    print(machine())
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="roost-cuts-") as folder:
        root = Path(folder)
        async with (
            a_local_server(root) as scene,
            FaultProxy(root / "proxy.sock", scene.path, seed).serving() as proxy,
            scene.client(proxy.dial) as (_, one),
            scene.client(proxy.dial) as (_, two),
            scene.client(proxy.dial) as (_, three),
        ):
            screens = [one, two, three]
            await talk(scene.worker, proxy, cuts, random.Random(seed))
            proxy.faults = False
            with anyio.move_on_after(60):
                for screen in screens:
                    await screen.until_equal(scene.worker.model)
            truth = canonical(scene.worker.model)
            wrong = sum(canonical(screen.model) != truth for screen in screens)
            said = sum(len(str(m.get("content"))) for m in scene.worker.model.messages)
    took = time.perf_counter() - began
    print(
        f"{proxy.cuts:,} cuts of {CLIENTS} clients in {took:,.0f} s, seed {seed}:"
        f" {said:,} characters said; {wrong} of {CLIENTS} clients show anything else"
    )
    if wrong:
        sys.exit(1)


async def talk(worker: LiveWorker, proxy: FaultProxy, cuts: int, chance: random.Random) -> None:
    """One run of many messages, the last hundred of which a snapshot has to carry."""
    worker.say("RUN_STARTED", threadId="c1", runId="r1")
    worker.say("STATE_SNAPSHOT", snapshot={})
    number = 0
    while proxy.cuts < cuts:
        number += 1
        name = f"m{number % 100}-{number // 100 % 2}"
        worker.say("TEXT_MESSAGE_START", messageId=name, role="assistant")
        for word in range(chance.randrange(1, 6)):
            worker.say("TEXT_MESSAGE_CONTENT", messageId=name, delta=f"{word} ")
            worker.say("STATE_DELTA", delta=[{"op": "add", "path": f"/k{word}", "value": number}])
        worker.say("TEXT_MESSAGE_END", messageId=name)
        # Now and then in the middle of a return; mostly there is something to cut.
        await anyio.sleep(chance.random() * chance.choice((0.005, 0.05, 0.05)))
        proxy.cut()
    worker.say("RUN_FINISHED", threadId="c1", runId="r1", outcome={"type": "success"})


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    anyio.run(main, wanted, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
