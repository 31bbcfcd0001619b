"""The end of the daemon: workers get their grace, however the end comes, and no longer."""

import anyio
import pytest

from sessions.domain.settings import RegistrySettings
from sessions.registry import Registry
from tests.support.fakes import FakeClient, FakeLauncher
from tests.support.scenes import PROJECT, Scene, line, message
from tests.support.time import virtual_time

pytestmark = virtual_time


async def test_a_cancelled_daemon_still_gives_its_workers_the_grace() -> None:
    launcher = FakeLauncher()
    registry = Registry(launcher, RegistrySettings())
    began = anyio.current_time()
    with anyio.CancelScope() as scope:
        async with registry.serving():
            scene = Scene(registry, launcher)
            await scene.follows(FakeClient())
            launcher.worker.obeys_stop = False
            scope.cancel()
            await anyio.sleep_forever()
    assert launcher.worker.stops == [25.0]
    # The grace, SIGTERM's two seconds and a margin; then its task is cancelled.
    assert anyio.current_time() - began == pytest.approx(30.0)


async def test_workers_are_stopped_in_parallel_and_waited_for() -> None:
    launcher = FakeLauncher()
    registry = Registry(launcher, RegistrySettings())
    async with registry.serving():
        scene = Scene(registry, launcher)
        for number in range(5):
            await scene.follows(FakeClient(), f"c{number}")
        began = anyio.current_time()
    assert [worker.stops for worker in launcher.workers] == [[25.0]] * 5
    assert anyio.current_time() == began


async def test_a_hurry_before_or_in_the_end_shortens_the_grace_to_nothing() -> None:
    for before in (True, False):
        launcher = FakeLauncher()
        registry = Registry(launcher, RegistrySettings())

        async def hurries(registry: Registry = registry) -> None:
            await anyio.sleep(3)
            registry.hurry()

        async with anyio.create_task_group() as tasks:
            async with registry.serving():
                scene = Scene(registry, launcher)
                await scene.follows(FakeClient())
                launcher.worker.obeys_stop = False
                if before:
                    registry.hurry()
                    assert launcher.worker.stops == []
                tasks.start_soon(hurries)
                began = anyio.current_time()
            assert launcher.worker.stops == ([0.0] if before else [25.0, 0.0])
            assert anyio.current_time() - began == pytest.approx(0.0 if before else 3.0)


async def test_frames_that_come_while_the_daemon_ends_start_nothing_and_say_so() -> None:
    launcher = FakeLauncher()
    registry = Registry(launcher, RegistrySettings())
    client, other = FakeClient(), FakeClient("other")

    async def sends_late() -> None:
        await anyio.sleep(1)
        registry.handle(client, message())
        registry.handle(client, line("command", id="1", name="x", args={}))
        registry.handle(other, line("new_session", project_dir=PROJECT))
        registry.handle(other, line("list_models", project_dir=PROJECT))
        registry.hurry()

    async with anyio.create_task_group() as tasks, registry.serving():
        scene = Scene(registry, launcher)
        await scene.follows(client)
        launcher.worker.obeys_stop = False
        tasks.start_soon(sends_late)
    error, result = client.take()
    assert "shutting down" in error["message"]
    assert (result["type"], result["success"]) == ("command_result", False)
    assert [("shutting down" in e["message"]) for e in other.take()] == [True, True]
    assert len(launcher.workers) == 1
