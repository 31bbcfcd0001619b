"""Decision 10: when a thread may lose its worker. Minutes pass on a virtual clock."""

from contextlib import nullcontext

import anyio

from sessions.domain.kept import Kept, Note, encode_note
from sessions.domain.keys import ConversationId, ThreadKey
from sessions.domain.ports import Survivor
from sessions.domain.settings import RegistrySettings
from sessions.registry import Registry
from tests.support.fakes import FakeClient, FakeLauncher, FakeWorker
from tests.support.scenes import (
    PROJECT,
    a_followed_thread,
    line,
    run_asked,
    run_finished,
    run_started,
)
from tests.support.time import HOUR, MINUTE, virtual_time

pytestmark = virtual_time


def jobs(running: int) -> bytes:
    value: dict[str, object] = {"running": running, "jobs": []}
    return line("STATE_DELTA", delta=[{"op": "add", "path": "/backgroundTasks", "value": value}])


async def test_a_follower_keeps_an_idle_worker_for_ever() -> None:
    async with a_followed_thread() as (scene, _):
        await anyio.sleep(48 * HOUR)
        assert scene.worker.stops == []


async def test_ten_minutes_after_the_last_follower_left_the_worker_is_stopped_once() -> None:
    async with a_followed_thread() as (scene, desktop):
        scene.registry.detach(desktop)
        await anyio.sleep(9.9 * MINUTE)
        assert scene.worker.stops == []
        await anyio.sleep(0.2 * MINUTE)
        assert scene.worker.stops == [25.0]
        assert scene.registry.views() == []


async def test_a_run_nobody_watches_goes_on_and_the_ten_minutes_start_when_it_ends() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started())
        scene.registry.detach(desktop)
        await anyio.sleep(3 * HOUR)
        assert scene.worker.stops == []
        await scene.worker_says(run_finished())
        await anyio.sleep(9.9 * MINUTE)
        assert scene.worker.stops == []
        await anyio.sleep(0.2 * MINUTE)
        assert scene.worker.stops == [25.0]


async def test_coming_back_starts_the_ten_minutes_anew() -> None:
    async with a_followed_thread() as (scene, desktop):
        scene.registry.detach(desktop)
        await anyio.sleep(9 * MINUTE)
        await scene.follows(desktop)
        await anyio.sleep(9 * MINUTE)
        scene.registry.detach(desktop)
        await anyio.sleep(9 * MINUTE)
        assert scene.worker.stops == []
        await anyio.sleep(2 * MINUTE)
        assert scene.worker.stops == [25.0]


async def test_a_run_that_waits_for_a_person_keeps_its_worker_a_day() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), run_asked("t1"))
        await anyio.sleep(5 * HOUR)
        scene.registry.detach(desktop)
        await anyio.sleep(23.9 * HOUR)
        assert scene.worker.stops == []
        await anyio.sleep(0.2 * HOUR)
        assert scene.worker.stops == [25.0]


async def test_a_background_job_keeps_the_worker_until_it_is_done() -> None:
    async with a_followed_thread() as (scene, desktop):
        started = line("STATE_SNAPSHOT", snapshot={"backgroundTasks": {"running": 1, "jobs": []}})
        await scene.worker_says(run_started(), started, run_finished())
        scene.registry.detach(desktop)
        await anyio.sleep(3 * HOUR)
        assert scene.worker.stops == []
        await scene.worker_says(jobs(0))
        await anyio.sleep(9.9 * MINUTE)
        assert scene.worker.stops == []
        await anyio.sleep(0.2 * MINUTE)
        assert scene.worker.stops == [25.0]


async def test_a_job_that_began_later_counts_too() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), jobs(2), run_finished())
        scene.registry.detach(desktop)
        await anyio.sleep(HOUR)
        assert scene.worker.stops == []


async def test_an_answer_that_somebody_waits_for_keeps_the_worker() -> None:
    async with a_followed_thread(snapshot_timeout=HOUR) as (scene, desktop):
        other = FakeClient("other")
        scene.opens(other)
        scene.registry.detach(desktop)
        await anyio.sleep(30 * MINUTE)
        assert scene.worker.stops == []


async def test_a_client_that_moves_to_another_thread_leaves_the_first_to_idle() -> None:
    async with a_followed_thread() as (scene, desktop):
        first = scene.worker
        await scene.follows(desktop, "c2")
        await anyio.sleep(10.1 * MINUTE)
        assert first.stops == [25.0]
        assert scene.worker.stops == []


async def test_the_idle_clock_goes_on_under_the_next_daemon() -> None:
    """Else a daemon that is restarted every nine minutes would keep every worker for ever."""
    now = anyio.current_time()
    note = Note(generation="g", token="t")
    kept = Kept(
        worker_pid=1,
        note=encode_note(note),
        sequence=0,
        has_announced=True,
        retold=[],
        lost=[],
        running_jobs=0,
        is_answering=False,
        ring=[],
        ring_begins_after=0,
        openings=0,
        replies=[],
        approvals=[],
        browsing=[],
        idle_since=now - 9 * MINUTE,
        is_stopping=False,
    )
    worker = FakeWorker(1)
    key = ThreadKey(PROJECT, ConversationId("c1"))

    async def survivors() -> list[Survivor]:
        return [Survivor(key, kept, note, nullcontext(worker))]

    registry = Registry(FakeLauncher(), RegistrySettings(), survivors=survivors)
    async with registry.serving():
        await anyio.sleep(0.9 * MINUTE)
        assert worker.stops == []
        await anyio.sleep(0.2 * MINUTE)
        assert worker.stops == [25.0]
