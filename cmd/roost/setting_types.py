"""The kinds of values a setting can have: how one is read, and the words for what is allowed.

Every kind takes what YAML gives (numbers, lists) and what the environment gives (text). A kind
raises ValueError for what it does not take; the words then complete the sentence "allowed: ...".
"""

import json
import math
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Never, cast

from agent.domain.allow import AllowList


@dataclass(frozen=True)
class Kind:
    """How to read a value, and what a value may be."""

    read: Callable[[object], object]
    allowed: str
    is_secret: bool = False


@dataclass(frozen=True)
class Says:
    """What one setting decides, for the reference page."""

    words: str


@dataclass(frozen=True, slots=True)
class Secret:
    """Text that is not shown by accident."""

    _value: str

    def get_secret_value(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(...)"


_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)?")
_SECONDS = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE = re.compile(r"([0-9]+)\s*(B|KiB|MiB|GiB)?")
_BYTES = {None: 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
# Lower case, no path, no wildcard: compared exactly, so a pattern would allow nothing.
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://[a-z0-9._\[\]:-]+?(:[0-9]+)?")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_CHAT = re.compile(r"-?[0-9]{1,20}")
_SWITCH = {"true": True, "yes": True, "on": True, "1": True} | {
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("not text")
    return value


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    found = _SWITCH.get(_text(value).strip().lower())
    if found is None:
        raise ValueError("neither true nor false")
    return found


def _whole(value: object) -> int:
    """A whole number. True is none, although Python thinks so."""
    if isinstance(value, str):
        return int(value.strip()) if value.strip().isdecimal() else _refuse()
    return value if type(value) is int else _refuse()


def _seconds(value: object) -> float:
    if isinstance(value, str):
        found = _DURATION.fullmatch(value.strip())
        return float(found[1]) * _SECONDS[found[2]] if found else _refuse()
    if type(value) not in (int, float):
        raise ValueError("not a duration")
    seconds = float(cast(float, value))
    return seconds if math.isfinite(seconds) else _refuse()


def _bytes(value: object) -> int:
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        return int(found[1]) * _BYTES[found[2]] if found else _refuse()
    return _whole(value)


def _command(value: object) -> tuple[str, ...]:
    """A list, or text that is a JSON list, or words as a shell splits them."""
    if isinstance(value, str):
        # A broken JSON list and an open quote are ValueErrors, too.
        is_list = value.lstrip().startswith("[")
        value = json.loads(value) if is_list else shlex.split(value)
    words = _texts(value)
    return words if words and words[0] else _refuse()


def _folders(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(line.strip() for line in value.splitlines() if line.strip())
    return _texts(value)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("not a list")
    return tuple(_text(item) for item in cast("list[object]", value))


def _rules(value: object) -> tuple[str, ...]:
    """A list, or one rule a line: a rule may have spaces in it."""
    rules = _folders(value)
    AllowList.of(rules)  # a bad rule is a ValueError
    return rules


def _chats(value: object) -> tuple[int, ...]:
    """Ids as the service writes them: those of groups are negative."""
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    if type(value) is int:
        value = [value]
    if not isinstance(value, list):
        raise ValueError("not a list")
    return tuple(_chat(item) for item in cast("list[object]", value))


def _chat(value: object) -> int:
    if isinstance(value, str) and _CHAT.fullmatch(value.strip()):
        return int(value)
    return value if type(value) is int else _refuse()


def _chat_folders(value: object) -> dict[int, str]:
    """A mapping, or text with one `chat=/folder` a line."""
    if isinstance(value, str):
        pairs = [line.partition("=") for line in value.splitlines() if line.strip()]
        value = {chat: folder for chat, _, folder in pairs}
    if not isinstance(value, dict):
        raise ValueError("not a mapping")
    return {_chat(k): _folder(v) for k, v in cast("dict[object, object]", value).items()}


def _folder(value: object) -> str:
    text = _text(value).strip()
    return text if text.startswith("/") else _refuse()


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    return _texts(value)


def _address(value: object) -> str:
    text = _text(value).strip()
    return text if text.startswith(("http://", "https://")) else _refuse()


def _origins(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    origins = _texts(value)
    return origins if all(map(_is_origin, origins)) else _refuse()


def _is_origin(origin: str) -> bool:
    """Written as browsers write it: else it would never be equal to what one sends."""
    found = _ORIGIN.fullmatch(origin)
    return found is not None and _DEFAULT_PORTS.get(found[1], "") != found[2]


def _table(value: object) -> dict[str, str]:
    """Names and texts, as a mapping or as lines of NAME=text."""
    if isinstance(value, str):
        lines = [line for line in value.splitlines() if line.strip()]
        value = dict(line.split("=", 1) for line in lines)
    if not isinstance(value, dict):
        raise ValueError("no table")
    pairs = cast("dict[object, object]", value).items()
    return {_text(name).strip(): text if isinstance(text, str) else str(_whole(text))
            for name, text in pairs}  # fmt: skip


def _secret(value: object) -> Secret:
    text = _text(value).strip()
    return Secret(text) if text else _refuse()


def _refuse() -> Never:
    raise ValueError("not allowed")


def choice(*words: str) -> Kind:
    """One of the words."""

    def read(value: object) -> str:
        return value if isinstance(value, str) and value in words else _refuse()

    return Kind(read, ", ".join(words))


def _at_least(read: Callable[[object], float], least: float) -> Callable[[object], float]:
    def bounded(value: object) -> float:
        number = read(value)
        return number if number >= least else _refuse()

    return bounded


def _positive(read: Callable[[object], float]) -> Callable[[object], float]:
    def bounded(value: object) -> float:
        number = read(value)
        return number if number > 0 else _refuse()

    return bounded


def _port(value: object) -> int:
    number = _whole(value)
    return number if number <= 65535 else _refuse()


_DURATION_WORDS = 'seconds, or a number with a unit such as "500ms", "30s", "10m", "2h"'

TEXT = Kind(_text, "text")
SWITCH = Kind(_switch, "true or false")
COUNT = Kind(_at_least(_whole, 1), "a whole number from 1 upwards")
PORT = Kind(_at_least(_port, 0), "a port number from 1 to 65535, or 0 for a free one")
DURATION = Kind(_at_least(_seconds, 0), _DURATION_WORDS)
POSITIVE_DURATION = Kind(_positive(_seconds), f"{_DURATION_WORDS}; more than zero")
BYTE_SIZE = Kind(
    _positive(_bytes), 'bytes, or a number with a unit such as "64KiB", "8MiB"; more than zero'
)
COMMAND = Kind(
    _command, "a program and its arguments, as a list or as words that a shell would split"
)
ORIGINS = Kind(
    _origins,
    'a list of origins such as "https://app.example:8443", in lower case, without a path'
    " or a default port",
)
CHATS = Kind(_chats, "a list of chat ids, which are whole numbers; those of groups are negative")
CHAT_FOLDERS = Kind(_chat_folders, "a chat id and an absolute folder for each chat")
FOLDER = Kind(_folder, "an absolute folder")
MIME_TYPES = Kind(_words, 'a list of types such as "image/*", "application/pdf"')
ADDRESS = Kind(_address, "an address that begins with http:// or https://")
FOLDERS = Kind(_folders, "a list of folders, or one folder a line")
TEXTS = Kind(_folders, "a list of texts, or one a line")
SECRET_TABLE = Kind(_table, "names with a text each, or lines of NAME=text", is_secret=True)
RULES = Kind(
    _rules,
    'a list of rules (or one a line) such as "Edit", "Bash(git status*)" or "mcp__docs__*"',
)
SECRET = Kind(_secret, "text that is not empty", is_secret=True)


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
