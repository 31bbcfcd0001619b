"""What we hold of a stream is what the published client holds of it, to the letter."""

import json

import pytest
from hypothesis import HealthCheck, given, settings

from agui.endpoint.event_stream import framed
from agui.stream.guard import StreamGuard
from agui.stream.outgoing import Outgoing
from agui.stream.reducer import Reducer, Unplaceable
from tests.agui.stream.hostile import streams
from tests.agui.stream.plausible import plausible_streams
from tests.support.stream_judge import StreamJudge


@settings(
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(lines=streams | plausible_streams() | plausible_streams())
def test_messages_and_state_are_those_of_the_published_client(
    judge: StreamJudge, lines: list[bytes]
) -> None:
    outgoing = Outgoing(StreamGuard("t1"))
    events = [event for line in lines for event in outgoing.take(line)]
    if outgoing.guard.is_open:
        events += outgoing.fail("the worker left", "worker_exit")
    held = Reducer()
    for event in events:
        held.take(event)
    verdict = judge(framed(events))
    assert (held.messages, held.state) == (verdict.messages, verdict.state), events
    # Another one would refuse a good patch, or let a bad one through.
    assert outgoing.guard.documents.state == verdict.state


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}',
        b'{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"x"}',
        b'{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"x","patch":[]}',
        b'{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/a","value":1}]}',
        b'{"type":"TEXT_MESSAGE_CHUNK","delta":"x"}',
        b'{"type":"TEXT_MESSAGE_CONTENT"}',
    ],
)
def test_an_event_with_nothing_to_go_to_is_told_apart_from_one_that_means_nothing(
    line: bytes,
) -> None:
    """A program that shows a thread must not go on over a gap."""
    held = Reducer()
    with pytest.raises(Unplaceable):
        held.take(line)
    held.take(b'{"type":"BREAKING_NEWS"}')
    held.take(b'{"type":"RUN_FINISHED","threadId":"t","runId":"r"}')
    assert (held.messages, held.state) == ([], {})


def test_it_goes_on_from_a_snapshot() -> None:
    messages = [
        b'{"id":"m","role":"assistant","content":"Hel"}',
        b'{"id":"a","role":"activity","activityType":"x","content":{"n":1}}',
    ]
    held = Reducer.beginning_with(messages, {"k": 1})
    held.take(b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"lo"}')
    patch = b'[{"op":"replace","path":"/n","value":2}]'
    held.take(b'{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"x","patch":%b}' % patch)
    assert [message["content"] for message in held.messages] == ["Hello", {"n": 2}]
    assert held.state == {"k": 1}


def test_a_result_stands_behind_its_call_and_the_results_before_it(judge: StreamJudge) -> None:
    """Also when the agent has gone on talking: models refuse a call with no result behind it."""
    start: dict[str, str] = {"type": "TOOL_CALL_START", "toolCallName": "f", "parentMessageId": "m"}
    events = [
        {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1", "protocolVersion": "1.0"},
        *({**start, "toolCallId": c} for c in "ab"),
        *({"type": "TOOL_CALL_END", "toolCallId": c} for c in "ab"),
        {"type": "TEXT_MESSAGE_START", "messageId": "later", "metadata": {"a": 1, "b": 1}},
        {"type": "TEXT_MESSAGE_END", "messageId": "later", "metadata": {"b": 2}},
        *(
            {"type": "TOOL_CALL_RESULT", "messageId": f"r{c}", "toolCallId": c, "content": c}
            for c in "ab"
        ),
        {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1", "outcome": {"type": "success"}},
    ]
    lines = [json.dumps(event).encode() for event in events]
    held = Reducer()
    for line in lines:
        held.take(line)
    assert [message["id"] for message in held.messages] == ["m", "ra", "rb", "later"]
    assert held.messages[-1]["metadata"] == {"a": 1, "b": 2}
    assert held.messages == judge(framed(lines)).messages
