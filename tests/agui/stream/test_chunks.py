"""Chunks become what they stand for; one that can't be placed is refused."""

import pytest

from agui.stream.chunks import BadChunk, ChunkExpander
from agui.stream.events import AnyEvent, encode, read_event


def expanded(*lines: bytes) -> list[str]:
    expander = ChunkExpander()
    found: list[AnyEvent] = []
    for line in lines:
        event = read_event(line)
        assert event is not None
        found += expander.expand(event)
    return [encode(event).decode() for event in found]


def test_an_item_ends_with_the_next_event_that_is_not_of_it() -> None:
    said = expanded(
        b'{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}',
        b'{"type":"TEXT_MESSAGE_CHUNK","delta":"b"}',
        b'{"type":"RAW","event":1}',
        b'{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"c"}',
        b'{"type":"STEP_STARTED","stepName":"s"}',
    )
    assert said == [
        '{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}',
        '{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a"}',
        '{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"b"}',
        '{"type":"RAW","event":1}',
        '{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"c"}',
        '{"type":"TEXT_MESSAGE_END","messageId":"m"}',
        '{"type":"STEP_STARTED","stepName":"s"}',
    ]


def test_another_item_ends_the_one_before_it() -> None:
    said = expanded(
        b'{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f","delta":"{"}',
        b'{"type":"TOOL_CALL_CHUNK","delta":"}"}',
        b'{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}',
        b'{"type":"RUN_FINISHED","threadId":"t","runId":"r"}',
    )
    kinds = [line.split('"')[3] for line in said]
    assert kinds == [
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]


def test_items_of_different_subagents_run_side_by_side() -> None:
    first = b'{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"1","subagentRunId":"s1"}'
    second = b'{"type":"TEXT_MESSAGE_CHUNK","messageId":"b","delta":"2","subagentRunId":"s2"}'
    more = b'{"type":"TEXT_MESSAGE_CHUNK","delta":"3","subagentRunId":"s1"}'
    assert '"messageId":"a","delta":"3"' in expanded(first, second, more)[-1]
    with pytest.raises(BadChunk):
        expanded(first, second, b'{"type":"TEXT_MESSAGE_CHUNK","delta":"whose?"}')


@pytest.mark.parametrize(
    "lines",
    [
        [b'{"type":"TEXT_MESSAGE_CHUNK","delta":"a"}'],
        [b'{"type":"TOOL_CALL_CHUNK","toolCallId":"c"}'],
        [
            b'{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}',
            b'{"type":"TEXT_MESSAGE_CHUNK","role":"user","delta":"b"}',
        ],
        [
            b'{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f"}',
            b'{"type":"TOOL_CALL_CHUNK","toolCallName":"g","delta":"b"}',
        ],
    ],
)
def test_a_chunk_that_is_of_nothing_or_contradicts_its_item_is_refused(lines: list[bytes]) -> None:
    with pytest.raises(BadChunk):
        expanded(*lines)
