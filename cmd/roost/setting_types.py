"""The kinds of values a setting can have, and the words that say which are allowed.

Every kind takes what YAML gives (numbers, lists) and what the environment gives (text).
"""

import json
import re
import shlex
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr


@dataclass(frozen=True, slots=True)
class Allowed:
    """Metadata of a kind: what a value may be, to complete the sentence "allowed: ..."."""

    words: str


@dataclass(frozen=True, slots=True)
class Says:
    """Metadata of one setting: what it decides, for the reference page."""

    words: str


_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)?")
_SECONDS = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE = re.compile(r"([0-9]+)\s*(B|KiB|MiB|GiB)?")
_BYTES = {None: 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def _seconds(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("not a duration")
    if isinstance(value, str):
        found = _DURATION.fullmatch(value.strip())
        if found is None:
            raise ValueError("not a duration")
        return float(found[1]) * _SECONDS[found[2]]
    return value


def _bytes(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("not a size")
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            raise ValueError("not a size")
        return int(found[1]) * _BYTES[found[2]]
    return value


def _words(value: object) -> object:
    """A command: a list, or text that is a JSON list, or words as a shell splits them."""
    if not isinstance(value, str):
        return value
    # A broken JSON list or an open quote raises ValueError, as pydantic wants it.
    words: object = json.loads(value) if value.lstrip().startswith("[") else shlex.split(value)
    return words


def _lines(value: object) -> object:
    """Folders: a list, or text with one folder a line."""
    if isinstance(value, str):
        return [line for line in (part.strip() for part in value.splitlines()) if line]
    return value


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("not a number")
    return value


def _not_blank(value: SecretStr) -> SecretStr:
    if not value.get_secret_value().strip():
        raise ValueError("empty")
    return value


def _no_empty_words(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value or not value[0]:
        raise ValueError("no program")
    return value


_DURATION_WORDS = 'seconds, or a number with a unit such as "500ms", "30s", "10m", "2h"'

Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    Field(ge=0, allow_inf_nan=False),
    Allowed(_DURATION_WORDS),
]
PositiveDuration = Annotated[
    float,
    BeforeValidator(_seconds),
    Field(gt=0, allow_inf_nan=False),
    Allowed(f"{_DURATION_WORDS}; more than zero"),
]
ByteSize = Annotated[
    int,
    BeforeValidator(_bytes),
    Field(gt=0),
    Allowed('bytes, or a number with a unit such as "64KiB", "8MiB"; more than zero'),
]
Count = Annotated[
    int, BeforeValidator(_no_bool), Field(gt=0), Allowed("a whole number from 1 upwards")
]
Port = Annotated[
    int,
    BeforeValidator(_no_bool),
    Field(ge=0, le=65535),
    Allowed("a port number from 1 to 65535, or 0 for a free one"),
]
Switch = Annotated[bool, Allowed("true or false")]
Text = Annotated[str, Allowed("text")]
Secret = Annotated[SecretStr, AfterValidator(_not_blank), Allowed("text that is not empty")]
Command = Annotated[
    tuple[str, ...],
    BeforeValidator(_words),
    AfterValidator(_no_empty_words),
    Allowed("a program and its arguments, as a list or as words that a shell would split"),
]
Folders = Annotated[
    tuple[str, ...], BeforeValidator(_lines), Allowed("a list of folders, or one folder a line")
]


def duration_text(seconds: float) -> str:
    """A duration as people write it: 600 is "10m"."""
    for unit in ("h", "m"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:g}{unit}"
    return f"{seconds:g}s"


def size_text(size: int) -> str:
    """A size as people write it: 8388608 is "8MiB"."""
    for unit in ("GiB", "MiB", "KiB"):
        if size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return str(size)


def allowed_words(metadata: list[object]) -> str | None:
    """What `Allowed` says in a field's metadata."""
    return next((m.words for m in metadata if isinstance(m, Allowed)), None)
