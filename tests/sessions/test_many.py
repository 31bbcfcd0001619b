"""Many of everything: a thread with a thousand followers, two hundred threads with workers."""

from anyio import wait_all_tasks_blocked

from sessions.workers import MAX_STARTING
from tests.support.fakes import FakeClient
from tests.support.scenes import READY, a_registry, line, run_finished, run_started, snapshot, text


async def test_a_thousand_followers_get_the_same_object_each() -> None:
    async with a_registry() as scene:
        clients = [FakeClient(str(number)) for number in range(1000)]
        for client in clients:
            scene.opens(client)
        await wait_all_tasks_blocked()
        await scene.worker_says(READY, *[snapshot()] * 1000)
        assert all(client.frames == [snapshot()] for client in clients)
        await scene.worker_says(run_started(), text("a"), run_finished())
        for client in clients:
            assert len(client.frames) == 4
            assert all(
                a is b for a, b in zip(client.frames[1:], clients[0].frames[1:], strict=True)
            )
        assert len(scene.launcher.workers) == 1
        for client in clients:
            scene.registry.detach(client)
        (view,) = scene.registry.views()
        assert view.followers == 0


async def test_two_hundred_threads_do_not_hear_of_each_other() -> None:
    async with a_registry() as scene:
        clients = [FakeClient(str(number)) for number in range(200)]
        for number, client in enumerate(clients):
            scene.opens(client, f"c{number}")
        begun = 0
        while begun < 200:
            await wait_all_tasks_blocked()
            fresh = scene.launcher.workers[begun:]
            assert 0 < len(fresh) <= MAX_STARTING, "starts are few at a time"
            begun += len(fresh)
            for worker in fresh:
                custom = line("CUSTOM", name="x", value=worker.pid)
                worker.says(READY, snapshot(str(worker.pid)), custom)
        await wait_all_tasks_blocked()
        said = [client.events[1]["value"] for client in clients]
        assert len(set(said)) == 200
        for client in clients:
            assert client.types == ["MESSAGES_SNAPSHOT", "CUSTOM"]
        assert len(scene.registry.views()) == 200


async def test_a_worker_that_nobody_waits_for_when_its_turn_comes_is_not_started() -> None:
    """A client that pages through its threads must not start a worker for each."""
    async with a_registry() as scene:
        client = FakeClient()
        for number in range(60):
            scene.opens(client, f"c{number}")
        await wait_all_tasks_blocked()
        for _ in range(10):
            for worker in scene.launcher.workers:
                worker.says(READY)
            await wait_all_tasks_blocked()
        assert len(scene.launcher.workers) <= MAX_STARTING + 1
        assert scene.launcher.launches[-1][0].conversation_id == "c59"
        await scene.worker_says(snapshot())
        assert client.frames == [snapshot()]
        assert len(scene.registry.views()) <= MAX_STARTING + 1
