"""Decision 7: a worker's browser commands go through the relay, and clients never see them."""

import json

import anyio
from anyio import wait_all_tasks_blocked

from sessions.domain.settings import RegistrySettings
from sessions.registry import Registry
from tests.support.fakes import FakeClient, FakeLauncher
from tests.support.scenes import Scene, a_followed_thread, line, text


class FakeRelay:
    """Answers when the test says so, in any order."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []
        self._answers: dict[str, anyio.Event] = {}

    async def forward(self, command: bytes) -> bytes:
        self.commands.append(command)
        command_id = json.loads(command)["id"]
        self._answers[command_id] = anyio.Event()
        await self._answers[command_id].wait()
        return line("browser_result", id=command_id, error="")

    async def answers(self, command_id: str) -> None:
        self._answers[command_id].set()
        await wait_all_tasks_blocked()


def command(id_: str) -> bytes:
    return line("browser_command", id=id_, action="read")


async def test_the_result_goes_to_the_worker_that_asked_and_to_no_client() -> None:
    relay = FakeRelay()
    launcher = FakeLauncher()
    registry = Registry(launcher, RegistrySettings(), relay)
    async with registry.serving():
        scene, desktop, other = Scene(registry, launcher), FakeClient(), FakeClient("other")
        await scene.follows(desktop)
        first = scene.worker
        await scene.follows(other, "c2")
        first.says(command("b1"))
        await wait_all_tasks_blocked()
        await scene.worker_says(command("b2"), text("goes on"))
        assert relay.commands == [command("b1"), command("b2")]
        assert desktop.frames == []
        assert other.frames == [text("goes on")]
        await relay.answers("b2")
        assert scene.worker.sent[-1] == line("browser_result", id="b2", error="")
        await relay.answers("b1")
        assert first.sent[-1] == line("browser_result", id="b1", error="")
        for worker in launcher.workers:
            worker.exit("exited with code 0")


async def test_a_result_for_a_worker_that_is_gone_is_dropped() -> None:
    relay = FakeRelay()
    launcher = FakeLauncher()
    registry = Registry(launcher, RegistrySettings(), relay)
    async with registry.serving():
        scene, desktop = Scene(registry, launcher), FakeClient()
        await scene.follows(desktop)
        await scene.worker_says(command("b1"))
        await scene.worker_dies()
        await scene.follows(desktop)
        sent = len(scene.worker.sent)
        await relay.answers("b1")
        assert len(scene.worker.sent) == sent
        scene.worker.exit("exited with code 0")


async def test_a_worker_that_floods_the_relay_gets_results_that_say_so() -> None:
    relay = FakeRelay()
    launcher = FakeLauncher()
    registry = Registry(launcher, RegistrySettings(max_browser_commands=2), relay)
    async with registry.serving():
        scene, desktop = Scene(registry, launcher), FakeClient()
        await scene.follows(desktop)
        await scene.worker_says(command("b1"), command("b2"), command("b3"))
        refused = json.loads(scene.worker.sent[-1])
        assert (refused["type"], refused["id"]) == ("browser_result", "b3")
        assert "2 browser commands" in refused["error"]
        await relay.answers("b1")
        await scene.worker_says(command("b4"))
        assert len(relay.commands) == 3
        await relay.answers("b2")
        await relay.answers("b4")
        scene.worker.exit("exited with code 0")


async def test_without_a_relay_a_browser_command_is_a_line_like_any() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(command("b1"))
        assert desktop.frames == [command("b1")]
