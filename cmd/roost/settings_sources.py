"""Reading the places settings come from, and saying in one line what is wrong with one.

A source is a name and nested values, kept apart until the end so that an error can name the file
or the variable it is about. A value is shown when it can't be a secret, and never otherwise.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_origin

from roost.setting_types import Kind

KeyPath = tuple[str, ...]
Values = dict[str, Any]
T = TypeVar("T")

_PREFIX = "ROOST_"
# Other names in our sections that a worker's environment has: a daemon started from inside a
# worker must not trip over them.
_NOT_SETTINGS = frozenset({"ROOST_BINDING__URL"})
_LONGEST_SHOWN = 80


class SettingsError(Exception):
    """A setting is wrong. The message is one line: where, which key, the value, what is allowed."""


@dataclass(frozen=True, slots=True)
class Source:
    """Settings from one place."""

    name: str
    values: Values
    label: Callable[[KeyPath], str]
    """How an error names one key of this place."""

    def paths(self) -> Iterator[KeyPath]:
        """Every key that has a value here, as (section, key) or deeper."""
        yield from _paths(self.values, ())

    def has(self, path: KeyPath) -> bool:
        above = _mapping(_at(self.values, path[:-1]))
        return above is not None and path[-1] in above

    def only(self, paths: Iterable[KeyPath]) -> "Source":
        kept: Values = {}
        for path in paths:
            _put(kept, path, _at(self.values, path))
        return Source(self.name, kept, self.label)

    def without(self, sections: Iterable[str]) -> "Source":
        left_out = set(sections)
        kept = {key: value for key, value in self.values.items() if key not in left_out}
        return Source(self.name, kept, self.label)


def read_environment(environ: Mapping[str, str], sections: Iterable[str]) -> Source:
    """`ROOST_<SECTION>__<KEY>` for the given sections. Empty means not set, save for a token."""
    values: Values = {}
    known = set(sections)
    for name in sorted(environ):
        path = tuple(name.removeprefix(_PREFIX).lower().split("__"))
        if not name.startswith(_PREFIX) or len(path) < 2 or path[0] not in known:
            continue
        if name in _NOT_SETTINGS or (not environ[name] and path != ("binding", "token")):
            continue
        if not _put(values, path, environ[name]):
            raise SettingsError(f"{name} is not a setting")
    return Source("the environment", values, lambda path: _PREFIX + "__".join(path).upper())


def read_file(file: Path) -> Source:
    """A YAML file with one mapping per section; a missing one is empty. Raises SettingsError."""

    def label(path: KeyPath) -> str:
        return f"{file}: {'.'.join(path)}"

    try:
        text = file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return Source(str(file), {}, label)
    except OSError as exc:
        raise SettingsError(f"{file} can't be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise SettingsError(f"{file} is not UTF-8 text") from exc
    values = _parse(file, text)
    return Source(str(file), cast(Values, _without_nothing(values)), label)


def _parse(file: Path, text: str) -> Values:
    import yaml  # only for those who have a file: the import is a part of every start

    try:
        values: object = yaml.safe_load(text)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        # The parser's own message may quote the line, and a key may be in it.
        raise SettingsError(f"{file}{where}: not valid YAML") from exc
    except yaml.YAMLError as exc:
        raise SettingsError(f"{file}: not valid YAML") from exc
    if values is None:
        return {}
    sections = _mapping(values)
    if sections is None:
        raise SettingsError(f"{file}: allowed are sections such as 'agent:', each with its keys")
    return sections


def section_names(settings: type[Any]) -> frozenset[str]:
    """The sections a settings class has."""
    return frozenset(name for name, kind in _members(settings).items() if _is_section(kind))


def validated(settings: type[T], sources: Sequence[Source]) -> T:
    """Lay the sources over each other, the strongest first, and read. Raises SettingsError."""
    merged: Values = {}
    for source in reversed(sources):
        _merge(merged, source.values)
    reading = _Reading(sources)
    found = _members(settings)
    sections = {name: kind for name, kind in found.items() if _is_section(kind)}
    return settings(**reading.sections(sections, merged))


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads merged values, and blames the source that a bad one came from."""

    sources: Sequence[Source]

    def sections(self, kinds: Mapping[str, Any], values: Values) -> Values:
        self._refuse_unknown(kinds, values, ())
        return {name: self._section(kinds[name], value, (name,)) for name, value in values.items()}

    def _section(self, kind: Any, value: object, path: KeyPath) -> object:
        named = _named_section(kind)
        values = _mapping(value)
        if values is None:
            keys = "a name with its own keys below it" if named else _listed(_members(kind))
            raise SettingsError(
                f"{self._where(path)} can't hold a value of its own; allowed: {keys}"
            )
        if named:
            return {
                name: self._section(named, inner, (*path, name)) for name, inner in values.items()
            }
        members = _members(kind)
        self._refuse_unknown(members, values, path)
        read = {
            key: self._value(members[key], given, (*path, key)) for key, given in values.items()
        }
        return kind(**read)

    def _value(self, member: Any, value: object, path: KeyPath) -> object:
        kind = kind_of(member)
        try:
            return kind.read(value)
        except ValueError:
            pass
        where = self._where(path)
        if not kind.is_secret:
            raise SettingsError(f"{where} is {_shown(value)}; allowed: {kind.allowed}")
        shown = "is empty" if not str(value).strip() else "is not usable (value not shown)"
        hint = ", or unset it to use the token file" if path == ("binding", "token") else ""
        raise SettingsError(f"{where} {shown}; allowed: {kind.allowed}{hint}")

    def _refuse_unknown(self, known: Mapping[str, Any], values: Values, path: KeyPath) -> None:
        for key in values:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"allowed: {_listed(known)}"
                if close:
                    hint = f"did you mean {'.'.join((*path, close[0]))}?"
                raise SettingsError(f"{self._where((*path, key))} is not a setting; {hint}")

    def _where(self, path: KeyPath) -> str:
        """Whoever has the key; else the one that has something else in a section's place."""
        source = next((s for s in self.sources if s.has(path)), self.sources[-1])
        return source.label(path)


def kind_of(member: Any) -> Kind:
    """The kind in a setting's annotation."""
    return next(part for part in member.__metadata__ if isinstance(part, Kind))


def _members(section: type[Any]) -> dict[str, Any]:
    """Names and annotations of a section, or of a settings class."""
    return section.__annotations__


def _is_section(kind: Any) -> bool:
    return is_dataclass(kind) or _named_section(kind) is not None


def _named_section(kind: Any) -> Any:
    """The section in `Mapping[str, Section]`."""
    inner = get_args(kind)[1:]
    return inner[0] if get_origin(kind) is Mapping and is_dataclass(inner[0]) else None


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(sorted(keys))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def _mapping(value: object) -> Values | None:
    return cast(Values, value) if isinstance(value, dict) else None


def _at(values: Values, path: KeyPath) -> object:
    found: object = values
    for key in path:
        inner = _mapping(found)
        if inner is None:
            return None
        found = inner.get(key)
    return found


def _put(values: Values, path: KeyPath, value: object) -> bool:
    """Set a nested key. False when something else is in the place of a section."""
    inner = values
    for key in path[:-1]:
        below = _mapping(inner.setdefault(key, {}))
        if below is None:
            return False
        inner = below
    if path[-1] in inner:
        return False
    inner[path[-1]] = value
    return True


def _paths(values: Values, above: KeyPath) -> Iterator[KeyPath]:
    for key, value in values.items():
        inner = _mapping(value)
        if inner:
            yield from _paths(inner, (*above, key))
        else:
            yield (*above, key)


def _merge(below: Values, above: Values) -> None:
    for key, value in above.items():
        section, present = _mapping(value), _mapping(below.get(key))
        if section is None:
            below[key] = value
        else:
            # A new mapping, so that merging never changes a source.
            below[key] = dict(present or {})
            _merge(cast(Values, below[key]), section)


def _without_nothing(value: object) -> object:
    """Keys that have no value count as absent; keys are text."""
    mapping = _mapping(value)
    if mapping is None:
        return value
    return {str(k): _without_nothing(v) for k, v in mapping.items() if v is not None}
