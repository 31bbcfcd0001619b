"""Reading the places settings come from, and saying in one line what is wrong with one.

A source is a name and nested values, kept apart until the end so that an error can name the file
or the variable it is about. A value is shown when it can't be a secret, and never otherwise.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from roost.setting_types import allowed_words

KeyPath = tuple[str, ...]
Values = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)

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


def validated(model: type[Model], sources: Sequence[Source]) -> Model:
    """Lay the sources over each other, the strongest first, and check. Raises SettingsError."""
    merged: Values = {}
    for source in reversed(sources):
        _merge(merged, source.values)
    try:
        return model.model_validate(merged)
    except ValidationError as exc:
        raise SettingsError(_explained(model, sources, exc)) from None


def _explained(model: type[BaseModel], sources: Sequence[Source], error: ValidationError) -> str:
    """The first thing that is wrong, in one line."""
    problem = error.errors(include_url=False, include_context=False)[0]
    path = _key_path(model, tuple(str(part) for part in problem["loc"]))
    # Whoever has the key; else the one that has something else in a section's place.
    source = next((s for s in sources if s.has(path)), sources[-1])
    where = source.label(path)
    if problem["type"] == "extra_forbidden":
        return f"{where} is not a setting; {_known_keys(model, path)}"
    field = _field(model, path)
    if field is None or _holds_sections(field):
        return f"{where} can't hold a value of its own; {_known_keys(model, (*path, ''))}"
    allowed = allowed_words(field_metadata(field)) or "text"
    if _is_secret(field):
        given = _at(source.values, path)
        shown = "is empty" if not str(given).strip() else "is not usable (value not shown)"
        hint = ", or unset it to use the token file" if path == ("binding", "token") else ""
        return f"{where} {shown}; allowed: {allowed}{hint}"
    return f"{where} is {_shown(_at(source.values, path))}; allowed: {allowed}"


def _key_path(model: type[BaseModel], location: KeyPath) -> KeyPath:
    """Cut what pydantic adds behind the key: list positions and union members."""
    for end in range(1, len(location) + 1):
        field = _field(model, location[:end])
        if field is not None and not _holds_sections(field):
            return location[:end]
    return location


def _field(model: type[BaseModel], path: KeyPath) -> FieldInfo | None:
    """The field a key path names, if it names one."""
    found: FieldInfo | None = None
    current: type[BaseModel] | None = model
    named: type[BaseModel] | None = None  # the model of a dictionary's values
    for key in path:
        if named is not None:
            current, named = named, None
            continue
        if current is None or key not in current.model_fields:
            return None
        found = current.model_fields[key]
        current, named = _models(found)
    return found


def section_model(field: FieldInfo) -> type[BaseModel]:
    """The model of a field that is a section."""
    section, _ = _models(field)
    assert section is not None
    return section


def _models(field: FieldInfo) -> tuple[type[BaseModel] | None, type[BaseModel] | None]:
    kind = field.annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind, None
    if get_origin(kind) is dict:
        return None, cast("type[BaseModel]", get_args(kind)[1])
    return None, None


def _holds_sections(field: FieldInfo) -> bool:
    return _models(field) != (None, None)


def field_metadata(field: FieldInfo) -> list[object]:
    """A field's own metadata, then that of the kind inside `Kind | None`."""
    found: list[object] = list(field.metadata)
    for part in get_args(field.annotation):
        found.extend(getattr(part, "__metadata__", ()))
    return found


def _is_secret(field: FieldInfo) -> bool:
    kinds = [field.annotation, *get_args(field.annotation)]
    return any(kind is SecretStr or SecretStr in get_args(kind) for kind in kinds)


def _known_keys(model: type[BaseModel], path: KeyPath) -> str:
    parent = _field(model, path[:-1])
    section, named = _models(parent) if parent else (model, None)
    if named is not None and len(path) == 3:
        section, named = named, None
    if section is None:
        return "allowed: a name with its own keys below it"
    known = sorted(section.model_fields)
    close = difflib.get_close_matches(path[-1], known, n=1)
    if close:
        return f"did you mean {'.'.join((*path[:-1], close[0]))}?"
    return f"allowed: {', '.join(known)}"


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
