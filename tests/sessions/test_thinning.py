"""What is dropped from the log for joiners must not be missed: same document with and without."""

import copy
import json
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from sessions.domain.joining import without_overwritten

Step = dict[str, Any]

values = st.one_of(
    st.integers(0, 9),
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 9), max_size=2),
    st.lists(st.integers(0, 9), max_size=2),
)
paths = st.sampled_from(["/a", "/b", "/a/a", "/a/b", "/b/a", "/a/0", "/a/-"])
members = st.sampled_from(["/a", "/b", "/a/a"])
setting = st.sampled_from(["add", "replace"])
moving = st.sampled_from(["move", "copy"])


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """One step of a patch, more often than not one that sets."""
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return {"op": "remove", "path": draw(paths)}
    if kind == 1:
        return {"op": draw(moving), "from": draw(members), "path": draw(paths)}
    return {"op": draw(setting), "path": draw(paths), "value": draw(values)}


class Inapplicable(Exception):
    """A step that does not fit the document."""


def applied(document: Any, step: Step) -> Any:
    """One step of a JSON patch, on documents of objects and arrays."""
    document = copy.deepcopy(document)
    op = step["op"]
    if op in ("move", "copy"):
        value = _at(document, step["from"])
        if op == "move":
            _remove(document, step["from"])
        _add(document, step["path"], value)
    elif op == "remove":
        _remove(document, step["path"])
    else:
        if op == "replace":
            _remove(document, step["path"])
        _add(document, step["path"], step["value"])
    return document


def _parent(document: Any, path: str) -> tuple[Any, str]:
    *parents, last = path.strip("/").split("/")
    for token in parents:
        document = _member(document, token)
    if not isinstance(document, dict | list):
        raise Inapplicable(path)
    return cast(Any, document), last


def _member(document: Any, name: str) -> Any:
    if not isinstance(document, dict) or name not in document:
        raise Inapplicable(name)
    return cast(Any, document)[name]


def _at(document: Any, path: str) -> Any:
    parent, last = _parent(document, path)
    return copy.deepcopy(_member(parent, last))


def _remove(document: Any, path: str) -> None:
    parent, last = _parent(document, path)
    if isinstance(parent, dict):
        _member(parent, last)
        del parent[last]
    elif last.isdigit() and int(last) < len(parent):
        del parent[int(last)]
    else:
        raise Inapplicable(path)


def _add(document: Any, path: str, value: Any) -> None:
    parent, last = _parent(document, path)
    if isinstance(parent, dict):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    elif last.isdigit() and int(last) <= len(parent):
        parent.insert(int(last), value)
    else:
        raise Inapplicable(path)


@given(st.lists(st.lists(steps(), min_size=1, max_size=2), max_size=12))
def test_a_thinned_log_leads_to_the_same_document(patches: list[list[Step]]) -> None:
    baseline: Any = {"a": {"a": 1}, "b": 2}
    document = baseline
    lines: list[bytes] = []
    for patch in patches:
        try:
            changed = document
            for step in patch:
                changed = applied(changed, step)
        except Inapplicable:
            continue
        document = changed
        lines.append(json.dumps({"type": "STATE_DELTA", "delta": patch}).encode())
    kept = without_overwritten(lines)
    again = baseline
    for line in kept:
        for step in json.loads(line)["delta"]:
            again = applied(again, step)
    assert again == document
    assert len(kept) <= len(lines)


def test_patches_of_one_path_thin_out_to_the_last() -> None:
    lines = [
        json.dumps({"delta": [{"op": "add", "path": "/usage", "value": n}]}).encode()
        for n in range(5)
    ]
    assert without_overwritten(lines) == lines[-1:]
