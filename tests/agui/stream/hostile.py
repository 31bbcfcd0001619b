"""Lines that a worker might write: good ones, and every way of getting them wrong."""

import json
from typing import Any

from hypothesis import strategies as st

Event = dict[str, Any]

_ids = st.sampled_from(["a", "b", "c"])
_subagents = st.sampled_from(["s1", "s2", ""])
_texts = st.sampled_from(["", "x", "é\u2028", '"}\\'])
_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 1) | _texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_ids, inner, max_size=2),
    max_leaves=4,
)
_objects = st.dictionaries(_ids, _json, max_size=2)
_paths = st.sampled_from(["", "/a", "/b", "/a/0", "/a/-", "/a/b", "/", "a", "/a~1b", "/__proto__"])


def _operation(path: str, kind: str, value: Any, source: str) -> Event:
    operation: Event = {"op": kind, "path": path}
    if kind in ("add", "replace", "test"):
        operation["value"] = value
    if kind in ("move", "copy"):
        operation["from"] = source
    return operation


_kinds = st.sampled_from(["add", "replace", "remove", "test", "move", "copy", "shout"])
_patches = st.lists(st.builds(_operation, _paths, _kinds, _json, _paths), max_size=2)
_parts = st.sampled_from(
    [
        {"type": "text", "text": "t"},
        {"type": "image", "source": {"type": "url", "value": "http://x/"}},
        {"type": "document", "source": {"type": "file", "value": "f1"}},
        {"type": "hologram", "value": 1},
        {"type": "text"},
    ]
)
_contents = _texts | st.lists(_parts, max_size=2)


def _call(name: str, tool: str) -> Event:
    return {"id": name, "type": "function", "function": {"name": tool, "arguments": "{}"}}


def _pending(names: list[str]) -> Event:
    return {"type": "success", "pendingToolCallIds": names}


def _interrupted(names: list[str]) -> Event:
    return {"type": "interrupt", "interrupts": [{"id": n, "reason": "r"} for n in names]}


_calls = st.builds(_call, _ids, _ids)
_messages = st.one_of(
    st.fixed_dictionaries({"id": _ids, "role": st.just("user"), "content": _contents}),
    st.fixed_dictionaries(
        {"id": _ids, "role": st.just("assistant")},
        optional={"content": _texts, "toolCalls": st.lists(_calls, max_size=2)},
    ),
    st.fixed_dictionaries(
        {"id": _ids, "role": st.just("tool"), "toolCallId": _ids, "content": _contents}
    ),
    st.fixed_dictionaries({"id": _ids, "role": st.just("reasoning"), "content": _texts}),
    st.fixed_dictionaries(
        {"id": _ids, "role": st.just("activity"), "activityType": _ids, "content": _objects}
    ),
    st.fixed_dictionaries({"id": _ids, "role": st.just("wizard"), "content": _texts}),
)
_outcomes = st.one_of(
    st.just({"type": "success"}),
    st.builds(_pending, st.lists(_ids, max_size=2)),
    st.builds(_interrupted, st.lists(_ids, max_size=2)),
    st.just({"type": "cancelled"}),
    st.just({"type": "vanished"}),
)
_usage = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "inputTokens": st.integers(-1, 3),
            "outputTokens": st.integers(0, 3),
            "totalTokens": st.integers(0, 3),
        },
    ),
    max_size=2,
)
_FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "RUN_STARTED": (
        {"threadId": st.sampled_from(["t1", "t2"]), "runId": st.sampled_from(["r1", "r2", "r3"])},
        {
            "protocolVersion": st.sampled_from(["1.0", "9", ""]),
            "input": st.fixed_dictionaries(
                {"threadId": _ids, "runId": _ids, "messages": st.lists(_messages, max_size=2)}
            ),
        },
    ),
    "RUN_FINISHED": (
        {"threadId": st.just("t1"), "runId": st.sampled_from(["r1", "r1", "r1", "r2"])},
        {"outcome": _outcomes, "result": _json, "usage": _usage},
    ),
    "RUN_ERROR": ({"message": _texts, "runId": _ids}, {"code": _texts, "usage": _usage}),
    "STEP_STARTED": ({"stepName": _ids}, {}),
    "STEP_FINISHED": ({"stepName": _ids}, {}),
    "TEXT_MESSAGE_START": (
        {"messageId": _ids},
        {"role": st.sampled_from(["assistant", "user", "tool"]), "name": _ids},
    ),
    "TEXT_MESSAGE_CONTENT": ({"messageId": _ids, "delta": _texts}, {}),
    "TEXT_MESSAGE_END": ({"messageId": _ids}, {}),
    "TEXT_MESSAGE_CHUNK": (
        {},
        {"messageId": _ids, "delta": _texts, "role": st.just("assistant"), "name": _ids},
    ),
    "TOOL_CALL_START": ({"toolCallId": _ids, "toolCallName": _ids}, {"parentMessageId": _ids}),
    "TOOL_CALL_ARGS": ({"toolCallId": _ids, "delta": _texts}, {}),
    "TOOL_CALL_END": ({"toolCallId": _ids}, {}),
    "TOOL_CALL_CHUNK": (
        {},
        {"toolCallId": _ids, "toolCallName": _ids, "parentMessageId": _ids, "delta": _texts},
    ),
    "TOOL_CALL_RESULT": (
        {"messageId": _ids, "toolCallId": _ids, "content": _contents},
        {"role": st.just("tool")},
    ),
    "STATE_SNAPSHOT": ({"snapshot": _json}, {}),
    "STATE_DELTA": ({"delta": _patches}, {}),
    "MESSAGES_SNAPSHOT": ({"messages": st.lists(_messages, max_size=3)}, {}),
    "ACTIVITY_SNAPSHOT": (
        {"messageId": _ids, "activityType": _ids, "content": _objects},
        {"replace": st.booleans()},
    ),
    "ACTIVITY_DELTA": ({"messageId": _ids, "activityType": _ids, "patch": _patches}, {}),
    "REASONING_START": ({"messageId": _ids}, {}),
    "REASONING_END": ({"messageId": _ids}, {}),
    "REASONING_MESSAGE_START": ({"messageId": _ids, "role": st.just("reasoning")}, {}),
    "REASONING_MESSAGE_CONTENT": ({"messageId": _ids, "delta": _texts}, {}),
    "REASONING_MESSAGE_END": ({"messageId": _ids}, {}),
    "REASONING_MESSAGE_CHUNK": ({}, {"messageId": _ids, "delta": _texts}),
    "REASONING_ENCRYPTED_VALUE": (
        {
            "subtype": st.sampled_from(["message", "tool-call"]),
            "entityId": _ids,
            "encryptedValue": _texts,
        },
        {},
    ),
    "SUBAGENT_STARTED": (
        {"subagentRunId": _subagents, "name": _ids},
        {"parentSubagentRunId": _subagents},
    ),
    "SUBAGENT_FINISHED": ({"subagentRunId": _subagents}, {"result": _json}),
    "SUBAGENT_ERROR": ({"subagentRunId": _subagents, "message": _texts}, {}),
    "RAW": ({"event": _json}, {"source": _texts}),
    "CUSTOM": ({"name": st.sampled_from(["x.y", "roost.a"]), "value": _json}, {}),
    "BREAKING_NEWS": ({"headline": _texts}, {}),
}
_UNTAGGED = frozenset({"RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "MESSAGES_SNAPSHOT"})


def _event(kind: str) -> st.SearchStrategy[Event]:
    needed, optional = _FIELDS[kind]
    more: dict[str, Any] = {**optional, "timestamp": st.integers(0, 9), "metadata": _objects}
    if kind not in _UNTAGGED and "subagentRunId" not in needed:
        more["subagentRunId"] = _subagents
    return st.fixed_dictionaries({"type": st.just(kind), **needed}, optional=more)


def _spoilt(event: Event, name: str, value: Any) -> Event:
    return {**event, name: value}


good_events = st.sampled_from(sorted(_FIELDS)).flatmap(_event)
_names = st.sampled_from(
    ["messageId", "toolCallId", "delta", "type", "subagentRunId", "rawEvent", "surprise", "result"]
)
bad_events = st.builds(_spoilt, good_events, _names, _json)
lines = st.one_of(
    good_events.map(lambda event: json.dumps(event).encode()),
    good_events.map(lambda event: json.dumps(event).encode()),
    bad_events.map(lambda event: json.dumps(event).encode()),
    st.sampled_from(
        [
            b"",
            b"{}",
            b"[]",
            b"null",
            b'{"type":7}',
            b'{"type":"RUN_FINISHED"',
            b'{"type":"CUSTOM","name":"x.y","value":1e999}',
            b'{"type":"STATE_SNAPSHOT","snapshot":{"a":1e999}}',
            b'{"type":"CUSTOM","name":"x.y","value":1,"type":"RUN_STARTED"}',
            b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"\\ud800"}',
            b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"x\ty"}',
            b"\xff\xfe",
        ]
    ),
)
START = b'{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}'
streams = st.lists(lines, max_size=14).map(lambda found: [START, *found])
