"""A tool's arguments: one struct is both the check and the schema that a model is shown."""

from typing import TypeVar, cast

import msgspec

from agent.domain.ports import BadArguments

T = TypeVar("T", bound=msgspec.Struct)


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    """What a tool is called with. An argument that does not exist is an error the model reads."""


def read_arguments(kind: type[T], arguments: bytes) -> T:
    """Raises BadArguments."""
    try:
        return msgspec.json.decode(arguments, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise BadArguments(f"the arguments do not fit: {exc}.") from exc


def schema_of(kind: type[msgspec.Struct]) -> dict[str, object]:
    """The JSON schema of the arguments, flat where it can be."""
    _, components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    own = dict(cast(dict[str, object], components.pop(kind.__name__)))
    own.pop("title", None)
    own["additionalProperties"] = False
    return {**own, "$defs": components} if components else own
