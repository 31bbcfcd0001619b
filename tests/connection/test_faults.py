"""Cut connections, slow clients, lost daemons: what a client shows in the end is what was said."""

import json
import random
import socket
import tracemalloc
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from connection.daemon import DaemonConnection, Wishes
from connection.events import ConnectionStatus, SessionEvent, SessionReplaced, SessionResynced
from connection.failures import CommandRefused, ConnectionFailure, Disconnected
from connection.in_process import InProcessConnection
from connection.local_stream import LocalStream
from connection.peer import PeerSettings
from sessions.registry import Registry
from tests.support.cut_storm import CutStorm
from tests.support.fault_proxy import FaultProxy
from tests.support.live_session import LiveLauncher, Screen
from tests.support.local_scene import KEY, a_local_server
from tests.support.scenes import line

PATIENCE = 180.0


@pytest.mark.parametrize("seed", range(2))
async def test_three_clients_over_many_cuts_lose_nothing_and_double_nothing(
    tmp_path: Path, seed: int
) -> None:
    """Ten thousand of them are in benchmarks/cuts.py."""
    storm = CutStorm(tmp_path, seed, 20)
    with anyio.fail_after(PATIENCE):
        await storm.rage()
    assert storm.wrong == []
    assert storm.cuts >= 20


async def test_a_client_that_shows_a_window_has_the_end_of_the_same_conversation(
    tmp_path: Path,
) -> None:
    chance = random.Random(1)
    with anyio.fail_after(PATIENCE):
        async with (
            a_local_server(tmp_path) as scene,
            FaultProxy(tmp_path / "proxy.sock", scene.path, 1).serving() as proxy,
            scene.client(proxy.dial, last_messages=5) as (_, screen),
        ):
            worker = scene.worker
            worker.say("RUN_STARTED", threadId="c1", runId="r1")
            worker.say("STATE_SNAPSHOT", snapshot={})
            for cut in range(15):
                worker.say("TEXT_MESSAGE_START", messageId=f"m{cut}", role="assistant")
                for word in range(chance.randrange(1, 20)):
                    worker.say("TEXT_MESSAGE_CONTENT", messageId=f"m{cut}", delta=f"{word} ")
                    worker.say(
                        "STATE_DELTA",
                        delta=[{"op": "add", "path": f"/k{word}", "value": cut}],
                    )
                    if word % 5 == 0:
                        await anyio.lowlevel.checkpoint()
                if chance.random() < 0.7:
                    proxy.cut()
                worker.say("TEXT_MESSAGE_END", messageId=f"m{cut}")
                await anyio.lowlevel.checkpoint()
            worker.say("RUN_FINISHED", threadId="c1", runId="r1", outcome={"type": "success"})
            proxy.faults = False
            await screen.until(lambda: screen.model.messages[-1:] == worker.model.messages[-1:])
            shown = {m["id"]: m for m in worker.model.messages}
            assert all(shown[m["id"]] == m for m in screen.model.messages)
            assert proxy.cuts >= 1
            assert screen.outages


async def test_the_events_of_an_outage_come_in_their_order(tmp_path: Path) -> None:
    """reconnecting, one resync, what was missed, connected."""
    with anyio.fail_after(PATIENCE):
        async with (
            a_local_server(tmp_path) as scene,
            FaultProxy(tmp_path / "p.sock", scene.path, 0).serving() as proxy,
            scene.client(proxy.dial) as (_, screen),
        ):
            scene.worker.say("TEXT_MESSAGE_START", messageId="m", role="assistant")
            await screen.until_equal(scene.worker.model)
            screen.told.clear()
            proxy.cut()
            scene.worker.say("TEXT_MESSAGE_CONTENT", messageId="m", delta="missed")
            await screen.until_equal(scene.worker.model)
            await screen.until(lambda: ConnectionStatus("connected") in screen.told)
            kinds = [type(e) for e in screen.told if not isinstance(e, SessionEvent)]
            kinds = [kind for kind in kinds if kind in (ConnectionStatus, SessionResynced)]
            assert kinds == [ConnectionStatus, SessionResynced, ConnectionStatus]
            (resynced,) = [e for e in screen.told if isinstance(e, SessionResynced)]
            # All that was missed was still there, so the screen kept what it showed.
            assert (resynced.snapshot, resynced.replay.status) == (None, "complete")


async def test_what_is_missed_beyond_the_ring_comes_as_a_snapshot(tmp_path: Path) -> None:
    with anyio.fail_after(PATIENCE):
        async with (
            a_local_server(tmp_path, ring_events=3) as scene,
            FaultProxy(tmp_path / "p.sock", scene.path, 0).serving() as proxy,
            scene.client(proxy.dial) as (_, screen),
        ):
            scene.worker.say("TEXT_MESSAGE_START", messageId="m", role="assistant")
            await screen.until_equal(scene.worker.model)
            screen.told.clear()
            proxy.cut()
            for number in range(9):
                scene.worker.say("TEXT_MESSAGE_CONTENT", messageId="m", delta=f"{number} ")
            await screen.until(lambda: any(isinstance(e, SessionResynced) for e in screen.told))
            (resynced,) = [e for e in screen.told if isinstance(e, SessionResynced)]
            assert resynced.snapshot is not None
            await screen.until_equal(scene.worker.model)


async def test_a_client_that_does_not_keep_up_gets_one_catch_up_and_slows_nobody(
    tmp_path: Path,
) -> None:
    limits = PeerSettings(max_events=10, max_bytes=100_000)
    with anyio.fail_after(PATIENCE):
        async with (
            a_local_server(tmp_path, settings=limits) as scene,
            scene.client() as (_, screen),
        ):
            scene.worker.say("TEXT_MESSAGE_START", messageId="m", role="assistant")
            await screen.until_equal(scene.worker.model)
            screen.told.clear()
            for number in range(500):
                # In one turn of the loop, so that nothing can be written in between.
                scene.worker.say("TEXT_MESSAGE_CONTENT", messageId="m", delta=f"{number} ")
            await screen.until_equal(scene.worker.model)
            resyncs = [e for e in screen.told if isinstance(e, SessionResynced)]
            assert len(resyncs) == 1
            assert len([e for e in screen.told if isinstance(e, SessionEvent)]) <= 10


async def test_a_history_that_was_replaced_among_what_was_dropped_makes_a_replacement(
    tmp_path: Path,
) -> None:
    """A screen that keeps its place over a resync would show the end of another history."""
    limits = PeerSettings(max_events=10, max_bytes=100_000)
    with anyio.fail_after(PATIENCE):
        async with (
            a_local_server(tmp_path, settings=limits) as scene,
            scene.client() as (_, screen),
        ):
            scene.worker.say("TEXT_MESSAGE_START", messageId="m", role="assistant")
            await screen.until_equal(scene.worker.model)
            screen.told.clear()
            for number in range(100):
                scene.worker.say("TEXT_MESSAGE_CONTENT", messageId="m", delta=f"{number} ")
            scene.worker.say("MESSAGES_SNAPSHOT", messages=[])
            for number in range(100):
                scene.worker.say("CUSTOM", name="x", value=number)
            await screen.until(lambda: any(isinstance(e, SessionReplaced) for e in screen.told))
            await screen.until_equal(scene.worker.model)
            assert not any(isinstance(e, SessionResynced) for e in screen.told)
            assert sum(isinstance(e, SessionReplaced) for e in screen.told) == 1


async def test_a_session_that_is_closed_while_somebody_attaches_is_not_attached_to(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path) as scene, scene.client() as (killer, _):
            scene.worker.silent = frozenset({"get_state"})
            failures: list[ConnectionFailure] = []

            async def attach() -> None:
                try:
                    async with DaemonConnection(scene.dial).attached(KEY):
                        pass
                except ConnectionFailure as exc:
                    failures.append(exc)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(attach)
                await scene.worker.asked.wait()
                await killer.kill_session(KEY.conversation_id)
            (failure,) = failures
            assert isinstance(failure, CommandRefused)
            assert "was stopped" in str(failure)
            await until_followers(scene.registry, 0)


async def test_who_hangs_up_while_it_attaches_keeps_no_worker_alive(tmp_path: Path) -> None:
    """A worker that somebody follows is never idle: one that is gone would keep it for ever."""
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path) as scene, scene.client():
            scene.worker.silent = frozenset({"get_state"})
            key = {"projectDir": KEY.project_dir, "sessionId": KEY.conversation_id}
            async with await scene.dial() as gone:
                await gone.send(_envelope("attach", **key))
                await scene.worker.asked.wait()
                assert followers(scene.registry) == 2
            await until_followers(scene.registry, 1)


async def test_a_move_that_is_given_up_leaves_the_connection_where_it_was(tmp_path: Path) -> None:
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path) as scene, scene.client():
            connection = InProcessConnection(scene.registry, scene.saved)
            await connection.attach(KEY)
            scene.launcher.silent = frozenset({"get_state"})
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(connection.new_session)
                while len(scene.launcher.workers) < 2:
                    await anyio.lowlevel.checkpoint()
                await scene.worker.asked.wait()
                tasks.cancel_scope.cancel()
            scene.launcher.silent = frozenset()
            assert (await connection.get_state()).session_id == KEY.conversation_id
            assert sum(view.followers for view in scene.registry.views()) == 2
            await connection.aclose()


def followers(registry: Registry) -> int:
    view = registry.view(KEY)
    return 0 if view is None else view.followers


async def until_followers(registry: Registry, count: int) -> None:
    while followers(registry) != count:  # noqa: ASYNC110 (a connection's end is no event here)
        await anyio.sleep(0.01)


async def test_who_closes_while_the_daemon_is_looked_for_looks_no_longer(tmp_path: Path) -> None:
    dialled = 0
    looks, found = anyio.Event(), anyio.Event()
    with anyio.fail_after(PATIENCE):
        async with (
            a_local_server(tmp_path) as scene,
            FaultProxy(tmp_path / "p.sock", scene.path, 0).serving() as proxy,
        ):

            async def dial() -> LocalStream:
                nonlocal dialled
                if dialled:
                    looks.set()
                    await found.wait()
                dialled += 1
                return await proxy.dial()

            async with scene.client(dial) as (connection, screen):
                proxy.cut()
                await looks.wait()
                screen.told.clear()
                await connection.aclose()
                found.set()
                await anyio.wait_all_tasks_blocked()
                assert (dialled, screen.told) == (1, [])
                with pytest.raises(Disconnected):
                    await connection.get_state()


async def test_a_snapshot_that_never_ends_fails_the_attach_in_its_time(tmp_path: Path) -> None:
    hello = {
        "type": "daemon_hello",
        "protocol": {"name": "roost.daemon", "version": 1},
        "schemaRevision": 2,
        "schemaId": "s",
        "appVersion": "1",
        "generation": "g",
        "pid": 1,
        "clientId": "c",
    }
    state = {"activeSessionId": "a", "sessionId": "c1", "projectDir": "/p", "status": "idle"}
    ours, theirs = socket.socketpair()

    async def half_a_daemon() -> None:
        async with LocalStream(theirs) as stream:
            await stream.send(json.dumps(hello).encode() + b"\n")
            asked = json.loads(await stream.receive())
            attached = {
                "activeSessionId": "a",
                "client": {"id": asked["clientId"]},
                "replay": {"status": "complete"},
                "state": state,
                "snapshotStream": {"id": "s", "messageCount": 3},
            }
            answer = {"type": "response", "id": asked["id"], "command": "attach", "success": True}
            begin = {
                "type": "session_snapshot_begin",
                "activeSessionId": "a",
                "snapshotId": "s",
                "purpose": "attach",
                "head": {"state": state},
                "messageCount": 3,
            }
            for record in ({**answer, "data": attached}, begin):
                await stream.send(json.dumps(record).encode() + b"\n")
            with suppress(anyio.EndOfStream):
                await stream.receive()

    async def dial() -> LocalStream:
        return LocalStream(ours)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(half_a_daemon)
            connection = DaemonConnection(dial, None, Wishes(transfer_timeout=0.2))
            with pytest.raises(Disconnected, match="did not come in time"):
                async with connection.attached(KEY):
                    pass


async def test_a_client_that_reads_nothing_costs_little_and_still_learns_of_the_end(
    tmp_path: Path,
) -> None:
    """A hundred megabytes are said to it: dropped but for its limit, and it hears of the kill."""
    limits = PeerSettings(max_events=100, max_bytes=1_000_000, write_timeout=PATIENCE)
    said = b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"%s"}' % (b"x" * 100_000)
    with anyio.fail_after(PATIENCE):
        async with (
            a_local_server(tmp_path, settings=limits) as scene,
            await scene.dial() as frozen,
        ):
            other = DaemonConnection(scene.dial)
            key = {"projectDir": KEY.project_dir, "sessionId": KEY.conversation_id}
            await frozen.send(_envelope("attach", **key))
            while b'"command":"attach"' not in await frozen.receive():
                pass
            tracemalloc.start()
            try:
                for _ in range(1000):
                    scene.worker.says(said)
                    await anyio.lowlevel.checkpoint()
                _, most = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert most < 30_000_000
            async with other.attached(None):
                await other.kill_session(KEY.conversation_id)
            read = b""
            while b'"session_closed"' not in read:
                read = read[-100:] + await frozen.receive()


def _envelope(name: str, **fields: object) -> bytes:
    command = {"type": name, **fields}
    sent = {"type": "command", "id": "1", "clientId": "c", "command": command}
    return json.dumps({**sent, "protocol": {"name": "roost.daemon", "version": 1}}).encode() + b"\n"


async def test_a_snapshot_that_can_never_be_made_ends_the_connection_with_the_reason(
    tmp_path: Path,
) -> None:
    """Each failure is tried again by a new connection, but not for ever."""
    limits = PeerSettings(max_events=5)
    with anyio.fail_after(PATIENCE):
        async with (
            a_local_server(tmp_path, settings=limits, ring_events=100_000) as scene,
            scene.client() as (_, screen),
        ):
            worker = scene.worker
            worker.say("TEXT_MESSAGE_START", messageId="m", role="assistant")
            await screen.until_equal(worker.model)
            worker.refuses = "it takes no more"
            while screen.closed is None:
                if screen.is_connected:
                    worker.says(*[line("TEXT_MESSAGE_CONTENT", messageId="m", delta=".")] * 50)
                await anyio.lowlevel.checkpoint()
            assert screen.closed.reason == "failed"
            assert "again and again" in screen.closed.message
            assert screen.outages == 2


async def test_a_daemon_that_ends_on_purpose_is_not_chased(tmp_path: Path) -> None:
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path) as scene:
            screen = Screen()
            ready = anyio.Event()

            async def follow() -> None:
                async with scene.client(screen=screen):
                    ready.set()
                    await screen.until(lambda: screen.closed is not None)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                await ready.wait()
                scene.end()
            assert screen.closed is not None
            assert screen.closed.reason == "shutdown"
            assert not any(isinstance(e, ConnectionStatus) for e in screen.told)


async def test_a_daemon_that_does_not_come_back_closes_the_connection_once(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(PATIENCE):
        async with (
            a_local_server(tmp_path) as scene,
            FaultProxy(tmp_path / "p.sock", scene.path, 0).serving() as proxy,
            scene.client(proxy.dial, reconnect_budget=0.3) as (connection, screen),
        ):
            (tmp_path / "p.sock").unlink()
            proxy.cut()
            await screen.until(lambda: screen.closed is not None)
            assert screen.closed is not None
            assert screen.closed.reason == "lost"
            assert "did not come back" in screen.closed.message
            with pytest.raises(Disconnected):
                await connection.get_queue()


async def test_a_command_of_an_outage_is_sent_when_the_daemon_is_back_and_done_once(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(PATIENCE):
        async with (
            a_local_server(tmp_path) as scene,
            FaultProxy(tmp_path / "p.sock", scene.path, 0).serving() as proxy,
            scene.client(proxy.dial) as (connection, _),
        ):
            proxy.cut()
            for number in range(20):
                if number % 3 == 0:
                    proxy.cut()
                assert (await connection.prompt(f"text {number}")).admission == "started"
            assert scene.worker.effects == {f"text {n}": 1 for n in range(20)}


async def test_a_result_that_was_lost_with_the_connection_is_not_made_twice(
    tmp_path: Path,
) -> None:
    """The worker has done it; the answer comes after the connection was cut."""
    launcher = LiveLauncher()
    admitted: list[str] = []
    with anyio.fail_after(PATIENCE):
        async with (
            a_local_server(tmp_path, launcher) as scene,
            FaultProxy(tmp_path / "p.sock", scene.path, 0).serving() as proxy,
            scene.client(proxy.dial) as (connection, _),
            anyio.create_task_group() as tasks,
        ):
            worker = scene.worker
            worker.answers_prompts = False

            async def prompt() -> None:
                admitted.append((await connection.prompt("once")).admission)

            tasks.start_soon(prompt)
            await worker.asked.wait()
            proxy.cut()
            await anyio.wait_all_tasks_blocked()
            worker.answer_prompts_now()
        assert admitted == ["started"]
        assert launcher.live.effects == {"once": 1}
