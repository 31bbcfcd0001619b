"""Whatever a worker writes, what leaves passes the published clients' own verification."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agui.endpoint.event_stream import framed
from agui.stream.downgrade import Downgrade
from agui.stream.guard import StreamGuard
from agui.stream.outgoing import Outgoing
from tests.agui.stream.hostile import streams
from tests.agui.stream.plausible import plausible_streams
from tests.support.stream_judge import OLD, PRESENT, StreamJudge


def body(outgoing: Outgoing, lines: list[bytes]) -> bytes:
    """What a client is sent of a worker's lines, up to the end of the worker."""
    said = b"".join(framed(outgoing.take(line)) for line in lines)
    if outgoing.guard.is_open:
        said += framed(outgoing.fail("the worker left", "worker_exit"))
    return said


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(lines=streams | plausible_streams() | plausible_streams(), old=st.booleans())
def test_what_leaves_always_passes_the_published_client(
    judge: StreamJudge, lines: list[bytes], old: bool
) -> None:
    """One bad event makes a front end drop the whole run, in words that nobody understands."""
    outgoing = Outgoing(StreamGuard("t1"), Downgrade() if old else None)
    said = body(outgoing, lines)
    verdict = judge(said, OLD if old else PRESENT)
    assert verdict.problems == [], said.decode()
