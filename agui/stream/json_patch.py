"""RFC 6902 patches on decoded JSON. A patch applies as a whole or not at all; no input is changed.

What it changes is copied along its paths only, so that a small patch of a large state is cheap.
"""

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

Json: TypeAlias = object
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_BAD_ESCAPE = re.compile(r"~(?![01])")
# JavaScript clients refuse these, since writing them would change every object.
_FORBIDDEN = frozenset({"__proto__", "prototype", "constructor"})


class BadPatch(ValueError):
    """The patch is malformed, or does not apply to the document."""


class _Operation(msgspec.Struct):
    op: str
    path: str
    value: Raw | UnsetType = UNSET
    from_: str | UnsetType = msgspec.field(default=UNSET, name="from")


_operation = msgspec.json.Decoder(_Operation)


def patched(document: Json, operations: Iterable[Raw]) -> Json:
    """The document after all operations. Raises BadPatch."""
    for raw in operations:
        try:
            operation = _operation.decode(raw)
        except (msgspec.MsgspecError, RecursionError) as exc:
            raise BadPatch("an operation is malformed") from exc
        document = _after(document, operation)
    return document


def decoded(raw: Raw) -> Json:
    """Any JSON. Raises BadPatch for what can't be held, such as numbers beyond all bounds."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise BadPatch("a value can't be read") from exc


def _after(document: Json, operation: _Operation) -> Json:
    path = _tokens(operation.path)
    match operation.op:
        case "add":
            return _edited(document, path, _adding(_value(operation)))
        case "replace":
            return _edited(document, path, _replacing(_value(operation)))
        case "remove":
            return _edited(document, path, _removed)
        case "test":
            if not _equal(_at(document, path), _value(operation)):
                raise BadPatch("a test failed")
            return document
        case "copy":
            return _edited(document, path, _adding(_at(document, _source(operation))))
        case "move":
            source = _source(operation)
            if source == path[: len(source)] and len(source) < len(path):
                raise BadPatch("a value can't be moved into itself")
            value = _at(document, source)
            return _edited(_edited(document, source, _removed), path, _adding(value))
        case _:
            raise BadPatch("an operation is unknown")


def _value(operation: _Operation) -> Json:
    if operation.value is UNSET:
        raise BadPatch("an operation has no value")
    return decoded(operation.value)


def _source(operation: _Operation) -> list[str]:
    if operation.from_ is UNSET:
        raise BadPatch("an operation has no source")
    return _tokens(operation.from_)


def _tokens(pointer: str) -> list[str]:
    if not pointer:
        return []
    if not pointer.startswith("/") or _BAD_ESCAPE.search(pointer):
        raise BadPatch("a path is no JSON pointer")
    tokens = [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]
    if not _FORBIDDEN.isdisjoint(tokens):
        raise BadPatch("a path is forbidden")
    return tokens


def _at(node: Json, tokens: list[str]) -> Json:
    for token in tokens:
        if isinstance(node, dict):
            members = cast("dict[str, Json]", node)
            if token not in members:
                raise BadPatch("a path leads nowhere")
            node = members[token]
        elif isinstance(node, list):
            items = cast("list[Json]", node)
            node = items[_index(token, len(items) - 1)]
        else:
            raise BadPatch("a path leads into a value")
    return node


_ROOT = object()
"""The container of the whole document."""
Edit = Callable[[Json, str], Json]
"""From the container and the last token of a path to the changed container."""


def _edited(document: Json, tokens: list[str], edit: Edit) -> Json:
    """The document with the last place of the path edited; containers on the way are copied."""
    if not tokens:
        return edit(_ROOT, "")
    head, rest = tokens[0], tokens[1:]
    if not rest:
        return edit(document, head)
    if isinstance(document, dict):
        members = dict(cast("dict[str, Json]", document))
        if head not in members:
            raise BadPatch("a path leads nowhere")
        members[head] = _edited(members[head], rest, edit)
        return members
    if isinstance(document, list):
        items = list(cast("list[Json]", document))
        index = _index(head, len(items) - 1)
        items[index] = _edited(items[index], rest, edit)
        return items
    raise BadPatch("a path leads into a value")


def _adding(value: Json) -> Edit:
    def add(container: Json, token: str) -> Json:
        if isinstance(container, dict):
            return {**cast("dict[str, Json]", container), token: value}
        if isinstance(container, list):
            items = list(cast("list[Json]", container))
            items.insert(len(items) if token == "-" else _index(token, len(items)), value)
            return items
        if container is _ROOT:
            return value
        raise BadPatch("a path leads into a value")

    return add


def _replacing(value: Json) -> Edit:
    def replace(container: Json, token: str) -> Json:
        if container is _ROOT:
            return value
        _at(container, [token])
        if isinstance(container, dict):
            return {**cast("dict[str, Json]", container), token: value}
        items = list(cast("list[Json]", container))
        items[_index(token, len(items) - 1)] = value
        return items

    return replace


def _removed(container: Json, token: str) -> Json:
    if container is _ROOT:
        raise BadPatch("the whole document can't be removed")
    _at(container, [token])
    if isinstance(container, dict):
        members = dict(cast("dict[str, Json]", container))
        del members[token]
        return members
    items = list(cast("list[Json]", container))
    del items[_index(token, len(items) - 1)]
    return items


def _index(token: str, last: int) -> int:
    if not _INDEX.fullmatch(token) or int(token) > last:
        raise BadPatch("a path leads beyond a list")
    return int(token)


def _equal(one: Json, other: Json) -> bool:
    """As JSON has it: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        ours, theirs = cast("dict[str, Json]", one), cast("dict[str, Json]", other)
        return ours.keys() == theirs.keys() and all(_equal(ours[k], theirs[k]) for k in ours)
    if isinstance(one, list) and isinstance(other, list):
        mine, yours = cast("list[Json]", one), cast("list[Json]", other)
        return len(mine) == len(yours) and all(map(_equal, mine, yours))
    return type(one) is type(other) and one == other if isinstance(one, str) else one == other
