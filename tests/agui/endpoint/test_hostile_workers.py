"""A worker that writes what it likes: the request gets a stream or a refusal, and never a crash."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from agui.endpoint.joining import Join
from agui.endpoint.run_input import new_messages, read_run_input
from agui.endpoint.visit import said
from sessions.domain.lines import BadLine, peek
from sessions.domain.settings import RegistrySettings
from tests.agui.endpoint.front_end import a_front_end
from tests.agui.endpoint.staged import Stage, a_staged_endpoint
from tests.agui.stream.hostile import lines
from tests.support.scenes import run_finished, run_started
from tests.support.stream_judge import StreamJudge

FOREIGN = RegistrySettings(announces_ready=False, durable_interrupts=False)
GIVEN = read_run_input(
    b'{"threadId":"t1","runId":"r1","messages":[{"id":"a","role":"user","content":"x"}]}'
)


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


def reach_us(line: bytes) -> bool:
    """The registry drops what it can't route."""
    try:
        peek(line)
    except BadLine:
        return False
    return True


wrong = st.sampled_from(["7", "[]", "{}", "null", "true", '"x"', '"\\ud800"'])
snapshots = st.one_of(
    st.builds('{{"type":"MESSAGES_SNAPSHOT","messages":{}}}'.format, wrong),
    st.builds('{{"type":"MESSAGES_SNAPSHOT","messages":[{}]}}'.format, wrong),
    st.builds(
        '{{"type":"MESSAGES_SNAPSHOT","messages":[{{"id":{},"role":{},"toolCallId":{}}}]}}'.format,
        wrong,
        wrong,
        wrong,
    ),
).map(str.encode)
ends = st.builds(
    '{{"type":"RUN_FINISHED","threadId":{},"outcome":{{"type":"interrupt","interrupts":{}}}}}'.format,
    wrong,
    wrong,
).map(str.encode)


@settings(max_examples=200)
@given(line=(lines | snapshots | ends).filter(reach_us))
def test_nothing_that_reaches_a_request_can_crash_it(line: bytes) -> None:
    said(line)
    Join(line, [line]).restated("t1", "r1", None)
    Join(line, [line]).of_open_run()
    assert new_messages(line, GIVEN.messages, GIVEN.body.messages) in ([], GIVEN.body.messages)


BEFORE = (
    b'{"type":"RAW","id":7,"event":1}',
    b'{"type":"CUSTOM","code":[],"name":"x.y","value":1}',
    b'{"type":"command_result","id":7}',
    b"not JSON",
    b"\xff",
)
NAMELESS = (b'{"type":"RUN_STARTED"}', b'{"type":"RUN_STARTED","runId":""}')


async def test_lines_before_the_run_do_no_harm() -> None:
    stage = Stage(is_ready=False, begins_runs=False)
    async with a_staged_endpoint(stage, FOREIGN, own_worker=False) as daemon:
        stage.answers["resume_conversation"] = (*BEFORE, *stage.answers["resume_conversation"])
        own = (run_started("own"), run_finished("own"))
        stage.answers["run_agent_input"] = (*BEFORE, *NAMELESS, *own)
        async with a_front_end(daemon) as front:
            body = await front.run("hello")
            assert (body.status, body.types) == (200, ["RUN_STARTED", "RUN_FINISHED"])
            assert body.events[0]["runId"] == "r1"


async def test_a_start_that_cannot_be_read_is_an_error_and_not_a_silence(
    judge: StreamJudge,
) -> None:
    stage = Stage(is_ready=False)
    async with a_staged_endpoint(stage, FOREIGN, own_worker=False) as daemon:
        stage.answers["run_agent_input"] = (
            b'{"type":"RUN_STARTED","threadId":7,"runId":"own"}',
            run_finished("own"),
        )
        async with a_front_end(daemon) as front:
            body = await front.run("hello")
            assert body.types == ["RUN_ERROR"]
            assert body.events[0]["code"] == "bad_worker_stream"
            assert judge(body.raw).problems == []


@pytest.mark.parametrize(
    "snapshot",
    [
        b'{"type":"MESSAGES_SNAPSHOT","messages":[{"id":7,"role":"user","content":"x"}]}',
        b'{"type":"MESSAGES_SNAPSHOT","messages":"none"}',
        b'{"type":"MESSAGES_SNAPSHOT"}',
    ],
)
async def test_a_snapshot_that_is_none_spoils_a_connect_and_no_run(snapshot: bytes) -> None:
    stage = Stage(is_ready=False, snapshot_=snapshot)
    async with (
        a_staged_endpoint(stage, FOREIGN, own_worker=False) as daemon,
        a_front_end(daemon) as front,
        front.streams("run", front.input("hi")) as body,
    ):
        await body.until("RUN_STARTED")
        daemon.worker.says(run_finished("r1"))
        await body.rest()
        told = await front.connect(runId="look")
        assert told.types == ["RUN_STARTED", "RUN_ERROR"]
        assert told.events[-1]["code"] == "bad_worker_stream"


async def test_an_end_that_asks_in_an_unreadable_way_is_an_error_for_who_connects() -> None:
    stage = Stage(is_ready=False)
    async with (
        a_staged_endpoint(stage, FOREIGN, own_worker=False) as daemon,
        a_front_end(daemon) as front,
        front.streams("run", front.input("hi")) as body,
    ):
        await body.until("RUN_STARTED")
        asked = [{"id": "i1", "reason": 7}]
        end = {"type": "RUN_FINISHED", "outcome": {"type": "interrupt", "interrupts": asked}}
        daemon.worker.says(json.dumps(end).encode())
        assert (await body.rest())[-1]["code"] == "bad_worker_stream"
        told = await front.connect(runId="look")
        assert told.types == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_ERROR"]


@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(said_lines=st.lists(lines, max_size=12))
async def test_whatever_a_worker_says_in_a_run_the_body_is_a_stream_and_ends_with_it(
    judge: StreamJudge, said_lines: list[bytes]
) -> None:
    with capture_logs():
        async with (
            a_staged_endpoint(Stage(is_ready=False), FOREIGN, own_worker=False) as daemon,
            a_front_end(daemon) as front,
            front.streams("run", front.input("hi")) as body,
        ):
            await body.until("RUN_STARTED")
            daemon.worker.says(*said_lines)
            daemon.worker.exit("was killed by SIGKILL")
            events = await body.rest()
    assert events[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
    assert judge(body.raw).problems == [], body.raw.decode()
