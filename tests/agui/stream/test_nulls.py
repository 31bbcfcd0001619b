"""An optional member is absent or has a value: published clients refuse a null there."""

import pytest

from agui.stream.events import BadEvent, read_event

INPUT = '"input":{"threadId":"t","runId":"r","messages":[],%s}'


@pytest.mark.parametrize(
    "event",
    [
        '{"type":"CUSTOM","name":"x.y","value":1,"rawEvent":null}',
        '{"type":"RUN_FINISHED","threadId":"t","runId":"r","result":null}',
        '{"type":"SUBAGENT_FINISHED","subagentRunId":"s","result":null}',
        '{"type":"RUN_STARTED","threadId":"t","runId":"r",' + INPUT % '"state":null' + "}",
        '{"type":"RUN_STARTED","threadId":"t","runId":"r",' + INPUT % '"forwardedProps":null' + "}",
        '{"type":"TEXT_MESSAGE_START","messageId":"m","name":null}',
        '{"type":"CUSTOM","name":"x.y","value":1,"metadata":null}',
    ],
)
def test_null_is_refused_where_a_member_may_be_left_out(event: str) -> None:
    with pytest.raises(BadEvent):
        read_event(event.encode())


@pytest.mark.parametrize(
    "event",
    [
        '{"type":"CUSTOM","name":"x.y","value":null}',
        '{"type":"STATE_SNAPSHOT","snapshot":null}',
        '{"type":"RAW","event":null}',
        '{"type":"CUSTOM","name":"x.y","value":1,"metadata":{"a":null}}',
    ],
)
def test_null_is_data_where_any_json_is_needed(event: str) -> None:
    assert read_event(event.encode()) is not None
