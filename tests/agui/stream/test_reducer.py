"""What our reducer ends with is what the published client's own ends with."""

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from agui.stream.events import read_event
from agui.stream.guard import StreamGuard
from agui.stream.outgoing import Outgoing
from agui.stream.reducer import reduced
from tests.agui.stream.plausible import plausible_streams
from tests.support.stream_judge import StreamJudge, a_stream_judge


@pytest.fixture(scope="module")
def judge() -> Generator[StreamJudge]:
    with a_stream_judge() as judge:
        yield judge


def shown(messages: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What a person sees of messages."""
    return [
        (
            m["id"],
            m["role"],
            m.get("content") or "",
            [(c["id"], c["function"]) for c in m.get("toolCalls", [])],
        )
        for m in messages
    ]


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(lines=plausible_streams())
def test_it_ends_with_the_messages_and_the_state_of_the_published_client(
    judge: StreamJudge, lines: list[bytes]
) -> None:
    outgoing = Outgoing(StreamGuard("t1"))
    sent = [event for line in lines for event in outgoing.take(line)]
    sent += outgoing.fail("the worker left", "worker_exit")
    held = reduced(event for payload in sent if (event := read_event(payload)) is not None)
    verdict = judge(b"".join(b"data: " + payload + b"\n\n" for payload in sent))
    assert shown(held.messages) == shown(verdict.messages)
    assert held.documents.state == verdict.state
