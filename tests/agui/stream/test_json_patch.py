"""RFC 6902, as the published client applies it."""

import copy
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from agui.stream.json_patch import BadPatch, patched


def operations(*given: dict[str, Any]) -> list[Raw]:
    return [Raw(msgspec.json.encode(each)) for each in given]


@pytest.mark.parametrize(
    ("before", "operation", "after"),
    [
        ({}, {"op": "add", "path": "/a", "value": 1}, {"a": 1}),
        ({"a": [1, 2]}, {"op": "add", "path": "/a/1", "value": 9}, {"a": [1, 9, 2]}),
        ({"a": [1]}, {"op": "add", "path": "/a/-", "value": 2}, {"a": [1, 2]}),
        ({"a": 1}, {"op": "add", "path": "", "value": [3]}, [3]),
        ({"a": {"b": 1}}, {"op": "replace", "path": "/a/b", "value": None}, {"a": {"b": None}}),
        ({"a": [1, 2]}, {"op": "remove", "path": "/a/0"}, {"a": [2]}),
        ({"a/b": 1, "m~n": 2}, {"op": "remove", "path": "/a~1b"}, {"m~n": 2}),
        ({"a": 1}, {"op": "move", "from": "/a", "path": "/b"}, {"b": 1}),
        ({"a": [1]}, {"op": "copy", "from": "/a", "path": "/b"}, {"a": [1], "b": [1]}),
        ({"a": 1.0}, {"op": "test", "path": "/a", "value": 1}, {"a": 1.0}),
    ],
)
def test_it_applies(before: Any, operation: dict[str, Any], after: Any) -> None:
    untouched = copy.deepcopy(before)
    assert patched(before, operations(operation)) == after
    assert before == untouched


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/x", "value": 1},
        {"op": "remove", "path": "/x"},
        {"op": "remove", "path": ""},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "/n/", "value": 1},
        {"op": "add", "path": "/l/2", "value": 1},
        {"op": "add", "path": "/l/01", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/~2", "value": 1},
        {"op": "add", "path": "/__proto__/x", "value": 1},
        {"op": "add", "path": "/a"},
        {"op": "test", "path": "/a", "value": True},
        {"op": "move", "from": "/a", "path": "/a/b"},
        {"op": "copy", "path": "/b"},
        {"op": "shout", "path": "/a"},
    ],
)
def test_it_refuses_and_the_whole_patch_with_it(operation: dict[str, Any]) -> None:
    before: dict[str, Any] = {"a": 1, "l": [1], "n": None}
    with pytest.raises(BadPatch):
        patched(before, operations({"op": "add", "path": "/b", "value": 2}, operation))
    assert before == {"a": 1, "l": [1], "n": None}
