"""The wire of the local protocol: who speaks first, what is refused how, old and new together."""

import json
import os
import random
import socket
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from connection.execution import SavedSession
from connection.failures import (
    AdmissionFailed,
    CapabilityUnavailable,
    Disconnected,
    HandshakeRefused,
)
from connection.local_stream import LocalStream
from connection.negotiation import ADDED, REVISION, SCHEMA_ID, Offer, proved, shapes_of
from connection.peer import PeerSettings
from connection.server import LONGEST_PATH, SocketUnusable, listen, peer_of, sweep
from connection.shapes import Answer
from connection.transport import Transport
from tests.support.local_scene import KEY, LocalScene, a_local_server

PATIENCE = 60.0
GOLDEN = Path(__file__).parents[1] / "golden" / "local-protocol.json"


class Raw:
    """A client that writes lines as it likes."""

    def __init__(self, stream: LocalStream) -> None:
        self.stream = stream
        self._buffer = b""

    async def line(self) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            self._buffer += await self.stream.receive()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return dict(json.loads(line))

    async def until(self, kind: str) -> dict[str, Any]:
        while (record := await self.line())["type"] != kind:
            pass
        return record

    async def send(self, line: bytes | dict[str, Any]) -> None:
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        await self.stream.send(data + b"\n")

    async def command(self, type_: str, id_: str = "1", version: int = 1, **fields: Any) -> None:
        protocol = {"name": "roost.daemon", "version": version}
        await self.send(
            {
                "type": "command",
                "id": id_,
                "protocol": protocol,
                "clientId": "raw",
                "command": {"type": type_, **fields},
            }
        )


async def raw(scene: LocalScene) -> Raw:
    stream = await scene.dial()
    assert isinstance(stream, LocalStream)
    return Raw(stream)


async def test_the_daemon_speaks_first_and_says_who_it_is(tmp_path: Path) -> None:
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path) as scene:
            client = await raw(scene)
            async with client.stream:
                hello = await client.line()
    assert hello["type"] == "daemon_hello"
    assert hello["protocol"] == {"name": "roost.daemon", "version": 1}
    assert (hello["schemaRevision"], hello["schemaId"]) == (REVISION, SCHEMA_ID)
    assert "chunked_snapshot" in hello["serverCapabilities"]


@pytest.mark.parametrize(
    ("line", "id_", "error"),
    [
        (b'{"type":"list","id":"7"}', "7", "commands travel in envelopes"),
        (b'{"id":"8","nonsense":', "", "not a JSON object"),
        (b'{"id":"9","type":"command"}', "9", "this envelope is not one"),
        (b"\xff\xfe", "", "not a JSON object"),
    ],
)
async def test_a_line_that_is_no_envelope_is_answered_with_the_id_it_had(
    tmp_path: Path, line: bytes, id_: str, error: str
) -> None:
    """Whoever wrote it sees a failure rather than a timeout."""
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path) as scene:
            client = await raw(scene)
            async with client.stream:
                await client.send(line)
                answer = await client.until("response")
                assert (answer["id"], answer["success"]) == (id_, False)
                assert error in answer["error"]
                # Nothing else was lost.
                await client.command("list", id_="next")
                assert (await client.until("response"))["id"] == "next"


async def test_another_version_and_an_unknown_command_are_refused_by_name(tmp_path: Path) -> None:
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path) as scene:
            client = await raw(scene)
            async with client.stream:
                await client.command("list", version=0)
                assert "version 1, not 0" in (await client.until("response"))["error"]
                await client.command("fly")
                answer = await client.until("response")
                assert answer["error"] == "Unknown daemon command: fly"
                assert answer["errorInfo"]["code"] == "unknown_command"
                await client.command("get_state", activeSessionId="none")
                assert (await client.until("response"))["errorInfo"]["code"] == "not_attached"


async def test_a_line_past_the_limit_ends_that_connection_only(tmp_path: Path) -> None:
    limits = PeerSettings(max_line_bytes=10_000)
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path, settings=limits) as scene, scene.client() as (good, _):
            client = await raw(scene)
            async with client.stream:
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await client.stream.send(b"x" * 200_000)
                    while True:
                        await client.line()
            assert (await good.get_state()).status == "idle"


async def test_a_new_client_never_sends_an_old_daemon_what_it_does_not_know(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(PATIENCE):
        async with (
            a_local_server(tmp_path, revision=0) as scene,
            scene.client(last_messages=3) as (client, screen),
        ):
            scene.worker.say("TEXT_MESSAGE_START", messageId="m", role="assistant")
            await screen.until_equal(scene.worker.model)
            with pytest.raises(CapabilityUnavailable) as lacking:
                await client.get_earlier_messages(5)
            assert lacking.value.capability == "history_window"
            with pytest.raises(AdmissionFailed) as failed:
                await client.prompt("hello", cancel=anyio.Event())
            assert failed.value.status == "unsupported"
            assert (await client.prompt("hello")).admission == "started"
            sent = b"".join(scene.worker.sent)
            assert b"last_messages" not in sent
            assert b"get_earlier_messages" not in sent


async def test_an_old_client_is_served_by_a_new_daemon(tmp_path: Path) -> None:
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path) as scene, scene.client(revision=0) as (client, screen):
            scene.worker.say("TEXT_MESSAGE_START", messageId="m", role="assistant")
            await screen.until_equal(scene.worker.model)
            assert client.supports_negotiated_capability("chunked_snapshot")
            assert not client.supports_negotiated_capability("history_window")


async def test_a_first_screen_asks_the_worker_once(tmp_path: Path) -> None:
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path) as scene, scene.client() as (connection, _):
            await connection.get_initial_snapshot()
            asked = [json.loads(line)["type"] for line in scene.worker.sent]
            assert asked == ["resume_conversation", "command"]


async def test_a_large_history_comes_in_chunks_and_whole(tmp_path: Path) -> None:
    small = PeerSettings(chunk_bytes=1_000)
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path, settings=small) as scene:
            async with scene.client():
                for number in range(50):
                    name = f"m{number}"
                    scene.worker.say("TEXT_MESSAGE_START", messageId=name, role="assistant")
                    scene.worker.say("TEXT_MESSAGE_CONTENT", messageId=name, delta="x" * 300)
            async with scene.client() as (_, screen):
                await screen.until_equal(scene.worker.model)
                assert len(screen.model.messages) == 50


async def attached(scene: LocalScene) -> tuple[Raw, str]:
    """A client that follows the session, and the session's id."""
    client = await raw(scene)
    await client.command(
        "attach", id_="attach", projectDir=KEY.project_dir, sessionId=KEY.conversation_id
    )
    answer = await client.until("response")
    return client, answer["data"]["activeSessionId"]


async def test_an_id_that_is_taken_is_refused_in_every_state_and_nothing_is_done(
    tmp_path: Path,
) -> None:
    """Two programs that share an identity by mistake must learn of it, not get each other's
    answers."""
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path) as scene:
            client, active_id = await attached(scene)
            async with client.stream:
                worker = scene.worker
                worker.answers_prompts = False
                await client.command("prompt", id_="p", activeSessionId=active_id, text="one")
                await worker.asked.wait()
                # It runs: the repeat waits with it, the other command does not.
                await client.command("prompt", id_="p", activeSessionId=active_id, text="two")
                refused = await client.until("response")
                assert refused["errorInfo"]["code"] == "command_id_taken"
                assert "nothing was done" in refused["error"]
                await client.command("prompt", id_="p", activeSessionId=active_id, text="one")
                worker.answer_prompts_now()
                for _ in range(2):
                    assert (await client.until("response"))["success"]
                # It is done: the same holds.
                await client.command("abort", id_="p", activeSessionId=active_id)
                refused = await client.until("response")
                assert refused["errorInfo"]["code"] == "command_id_taken"
                assert worker.effects == {"one": 1}
                assert b'"interrupt"' not in b"".join(worker.sent)


async def test_a_prompt_that_was_sent_again_is_not_taken_back_where_it_was_taken(
    tmp_path: Path,
) -> None:
    """`cancelled` means that it is safe to send it as a new prompt: it must never be a lie."""
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path) as scene:
            client, active_id = await attached(scene)
            prompt: dict[str, Any] = {"activeSessionId": active_id, "text": "one", "messageId": "m"}
            async with client.stream:
                scene.worker.answers_prompts = False
                scene.worker.refused = frozenset({"delete_queued"})
                await client.command("prompt", id_="p", **prompt, admissionId="a")
                await scene.worker.asked.wait()
            again, active_id = await attached(scene)
            async with again.stream:
                await again.command("prompt", id_="p", **prompt, admissionId="a")
                await again.command(
                    "cancel_prompt_admission", id_="c", activeSessionId=active_id, admissionId="a"
                )
                answer = await again.until("response")
                assert (answer["id"], answer["data"]) == ("c", {"status": "owned"})
                scene.worker.answer_prompts_now()
                assert (await again.until("response"))["data"]["admission"] == "started"
            assert scene.worker.effects == {"one": 1}


async def test_a_list_tells_how_far_it_has_come_and_each_row_once(tmp_path: Path) -> None:
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path) as scene, scene.client() as (connection, _):
            scene.saved.found = [
                SavedSession(
                    project_dir=KEY.project_dir,
                    session_id=f"saved-{number}",
                    name=None,
                    title=f"talk {number}",
                    updated_at="2026-01-01T00:00:00Z",
                )
                for number in range(3)
            ]
            progress: list[tuple[int, int]] = []
            told: list[str] = []
            rows = await connection.list_saved_sessions(
                on_progress=lambda loaded, total: progress.append((loaded, total)),
                on_session=lambda row: told.append(row.session_id),
            )
            assert progress == [(1, 3), (2, 3), (3, 3)]
            assert told == [row.session_id for row in rows] == ["saved-0", "saved-1", "saved-2"]
            assert len({row.active_session_id for row in rows}) == 3


async def test_who_answers_is_told_to_the_others_by_its_name(tmp_path: Path) -> None:
    with anyio.fail_after(PATIENCE):
        async with (
            a_local_server(tmp_path) as scene,
            scene.client(name="the terminal") as (terminal, _),
            scene.client() as (_, other),
        ):
            asked = {"type": "interrupt", "interrupts": [{"id": "i", "reason": "tool_call"}]}
            scene.worker.say("RUN_STARTED", threadId="c1", runId="r")
            scene.worker.say("RUN_FINISHED", threadId="c1", runId="r", outcome=asked)
            await other.until(lambda: bool(other.last_status and other.last_status.waits_for))
            await terminal.answer([Answer(interrupt_id="i", approved=True)])
            await other.until(lambda: bool(other.last_status and other.last_status.answered_by))
            assert other.last_status is not None
            assert other.last_status.answered_by == "the terminal"


async def test_who_is_at_a_session_that_is_killed_is_told_so_once(tmp_path: Path) -> None:
    with anyio.fail_after(PATIENCE):
        async with (
            a_local_server(tmp_path) as scene,
            scene.client() as (killer, _),
            scene.client() as (other, screen),
        ):
            await killer.kill_session(KEY.conversation_id)
            await screen.until(lambda: screen.closed is not None)
            assert screen.closed is not None
            assert screen.closed.reason == "killed"
            with pytest.raises(Disconnected, match="was stopped"):
                await other.get_state()


def test_the_wire_shapes_have_the_revision_that_they_were_given() -> None:
    """Changed what is sent? Then raise REVISION, say in ADDED what it adds, and gate it:
    clients and daemons of other versions are out there. Then add the new id to the file."""
    known = json.loads(GOLDEN.read_text())
    assert known[str(REVISION)] == SCHEMA_ID
    assert set(known) == {str(revision) for revision in ADDED if revision > 0}


def test_a_change_deep_inside_of_what_is_sent_is_a_change_of_the_wire() -> None:
    class Inner(msgspec.Struct):
        value: int

    class Changed(msgspec.Struct):
        value: str

    before = msgspec.defstruct("Outer", [("rows", tuple[Inner, ...] | None)])
    Changed.__name__ = "Inner"
    after = msgspec.defstruct("Outer", [("rows", tuple[Changed, ...] | None)])
    named = [shapes_of([kind]).replace(b"Changed", b"Inner") for kind in (before, after)]
    assert named[0] != named[1]


def test_a_proof_is_what_both_sides_said_and_nothing_else() -> None:
    offer = Offer(1, frozenset({"a", "b"}))
    assert proved({"a", "b", "c"}, ["a"], offer) == {"a"}
    for echo in (["a", "a"], ["d"], ["a", "d"]):
        with pytest.raises(HandshakeRefused, match="invalid attached client capability proof"):
            proved({"a", "b"}, echo, offer)


WRONG_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"type": None}, "unknown_command"),
    ({"type": ["list"]}, "unknown_command"),
    ({"type": "attach"}, "bad_arguments"),
    ({"type": "attach", "projectDir": 5, "sessionId": []}, "bad_arguments"),
    ({"type": "attach", "projectDir": "/p", "sessionId": "../x"}, "bad_arguments"),
    ({"type": "attach", "projectDir": "/p\0x", "sessionId": "a"}, "bad_arguments"),
    (
        {"type": "attach", "projectDir": "/p", "sessionId": "a", "lastMessages": "x"},
        "bad_arguments",
    ),
    (
        {"type": "attach", "projectDir": "/p", "sessionId": "a", "resumeCursor": {"sequence": 1}},
        "bad_arguments",
    ),
    ({"type": "prompt", "activeSessionId": {}}, "not_attached"),
    ({"type": "resolve", "selector": {}}, "unknown_session"),
    ({"type": "kill", "projectDir": "here", "sessionId": "a"}, "bad_arguments"),
    ({"type": "delete_saved_session", "projectDir": "/p"}, "bad_arguments"),
]


async def test_fields_that_are_none_are_one_clear_error_and_cost_nobody_anything(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path) as scene, scene.client() as (good, _):
            client = await raw(scene)
            async with client.stream:
                for number, (command, code) in enumerate(WRONG_FIELDS):
                    protocol = {"name": "roost.daemon", "version": 1}
                    envelope = {"type": "command", "id": str(number), "protocol": protocol}
                    await client.send({**envelope, "clientId": "raw", "command": command})
                    answer = await client.until("response")
                    assert (answer["id"], answer["success"]) == (str(number), False)
                    assert answer["errorInfo"]["code"] == code, command
                    assert answer["error"]
            assert (await good.get_state()).status == "idle"
            assert len(scene.launcher.workers) == 1


async def test_strangers_who_knock_and_leave_in_the_middle_cost_nobody_anything(
    tmp_path: Path,
) -> None:
    chance = random.Random(1)
    listing = b'{"type":"command","id":"1","clientId":"c","command":{"type":"list"},"protocol":'
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path) as scene, scene.client() as (good, _):
            for _ in range(30):
                client = await raw(scene)
                async with client.stream:
                    with suppress(anyio.BrokenResourceError):
                        await client.stream.send(chance.randbytes(chance.randrange(1, 3000)))
                        await client.stream.send(listing[: chance.randrange(1, len(listing))])
            for depth in (b"[", b'{"a":'):
                client = await raw(scene)
                async with client.stream:
                    await client.send(depth * 100_000)
                    assert "not a JSON object" in (await client.until("response"))["error"]
            # One who asks and does not read is not asked for more, and holds nobody up.
            deaf = await raw(scene)
            async with deaf.stream, anyio.create_task_group() as tasks:
                tasks.start_soon(deaf.stream.send, b'{"type":"list","id":"7"}\n' * 200_000)
                await anyio.wait_all_tasks_blocked()
                assert (await good.get_state()).status == "idle"
                tasks.cancel_scope.cancel()


async def test_another_users_process_is_hung_up_on(tmp_path: Path) -> None:
    """The folder and the socket's mode keep it out; should they not, this does."""
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path, user=os.getuid() + 1) as scene:
            client = await raw(scene)
            async with client.stream:
                with pytest.raises(anyio.EndOfStream):
                    await client.line()


async def test_a_second_hello_changes_nothing(tmp_path: Path) -> None:
    """What was negotiated holds: a client must not begin to send what it checked was not known."""
    hello = {
        "type": "daemon_hello",
        "protocol": {"name": "roost.daemon", "version": 1},
        "schemaRevision": 0,
        "schemaId": "s",
        "appVersion": "0",
        "generation": "g",
        "pid": 1,
        "clientId": "c",
    }
    two = [hello, {**hello, "schemaRevision": 2, "serverCapabilities": ["history_window"]}]
    ours, theirs = socket.socketpair()
    with theirs:
        async with LocalStream(ours) as stream, anyio.create_task_group() as tasks:
            transport = Transport(stream, lambda transport, record: None, lambda transport: None)
            theirs.sendall(b"".join(json.dumps(each).encode() + b"\n" for each in two))
            tasks.start_soon(transport.serve, tasks)
            assert (await transport.hello()).revision == 0
            theirs.shutdown(socket.SHUT_WR)
            await transport.ended.wait()
            assert transport.offer.revision == 0


async def test_a_daemon_of_another_version_is_named_with_what_to_do(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        async with LocalStream(ours) as stream, anyio.create_task_group() as tasks:
            transport = Transport(stream, lambda transport, record: None, lambda transport: None)
            theirs.sendall(
                b'{"type":"daemon_hello","protocol":{"name":"roost.daemon","version":9},'
                b'"schemaRevision":0,"schemaId":"s","appVersion":"9.9","generation":"g","pid":7,'
                b'"clientId":"c"}\n'
            )
            tasks.start_soon(transport.serve, tasks)
            with pytest.raises(HandshakeRefused, match=r"roost 9\.9, pid 7.*version 9.*roost stop"):
                await transport.hello()


# The socket itself


def test_a_folder_of_another_user_is_not_used_and_a_link_of_ones_own_is(tmp_path: Path) -> None:
    folder, link = tmp_path / "run", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    with pytest.raises(SocketUnusable, match="is another user's"):
        listen(link / "daemon.sock", user=os.getuid() + 1)
    with listen(link / "daemon.sock"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_socket_and_its_folder_are_this_users_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o755)
    with listen(folder / "daemon.sock"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "daemon.sock").stat().st_mode) == 0o600


def test_what_a_killed_daemon_left_is_replaced_and_a_living_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "daemon.sock"
    listen(path).close()
    with listen(path), pytest.raises(SocketUnusable, match="another daemon serves"):
        listen(path)


def test_what_killed_daemons_left_in_a_shared_folder_is_swept(tmp_path: Path) -> None:
    """Each home has a socket of its own there, and may never start a daemon again."""
    dead, young, served, file = (tmp_path / f"{name}.sock" for name in ("a", "b", "c", "d"))
    for path in (dead, young):
        listen(path).close()
    file.write_text("precious")
    with listen(served):
        for path in (dead, served, file):
            os.utime(path, (1, 1))
        sweep(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {"b.sock", "c.sock", "d.sock"}


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "daemon.sock"
    path.write_text("precious")
    with pytest.raises(SocketUnusable, match="is no socket"):
        listen(path)
    assert path.read_text() == "precious"


def test_a_path_that_no_socket_can_have_is_named_before_the_kernel_does(tmp_path: Path) -> None:
    path = tmp_path / ("x" * LONGEST_PATH)
    with pytest.raises(SocketUnusable, match="ROOST_SOCKET__PATH"):
        listen(path)


def test_the_peer_is_known_by_its_user_and_process() -> None:
    one, two = socket.socketpair()
    with one, two:
        assert peer_of(one) == (os.getuid(), os.getpid())


_KNOCKS = """
import socket, sys
with socket.socket(socket.AF_UNIX) as knocking:
    knocking.connect(sys.argv[1])
    print(knocking.recv(12))
"""


@pytest.mark.parametrize("is_inside", [True, False])
async def test_a_command_that_an_agent_runs_is_not_let_in(tmp_path: Path, is_inside: bool) -> None:
    """It could answer the approvals of its own agent."""
    with anyio.fail_after(PATIENCE):
        async with a_local_server(tmp_path) as scene, scene.client():
            token = scene.launcher.tokens[0] if is_inside else "of another daemon"
            done = await anyio.run_process(
                [sys.executable, "-c", _KNOCKS, str(scene.path)],
                env={**os.environ, "ROOST_WORKER_TOKEN": token},
            )
    assert (done.stdout.strip() == b"b''") is is_inside
