"""How people name a session: by id, by name, or by the end of an id. Pure.

The order: the exact active session id; the exact conversation id or name; the end of either id,
in hexadecimal, without its hyphens; for saved sessions the beginning, too. Exact beats any part.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from string import hexdigits

from connection.failures import refused

_SHOWN = 12
_LISTED = 10


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session that may be meant."""

    active_session_id: str
    session_id: str
    name: str | None = None


def digest_of(project_dir: str, session_id: str) -> str:
    """What the short id of a thread is the beginning of."""
    return hashlib.sha256(f"{project_dir}\0{session_id}".encode()).hexdigest()


@dataclass(slots=True)
class ActiveIds:
    """The short ids of sessions. The same thread has the same one, also after a restart.

    Should two threads begin alike, the second that is seen gets a longer one: an id names one
    thread for as long as the daemon runs.
    """

    _digest: Callable[[str, str], str] = digest_of
    _ids: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    _taken: set[str] = field(default_factory=set[str])

    def of(self, project_dir: str, session_id: str) -> str:
        """The id of a thread, now and later."""
        known = self._ids.get((project_dir, session_id))
        if known is not None:
            return known
        digest, length = self._digest(project_dir, session_id), _SHOWN
        while digest[:length] in self._taken:
            length += 1
        made = digest[:length]
        self._taken.add(made)
        self._ids[project_dir, session_id] = made
        return made


def chosen(
    selector: str, candidates: Sequence[Candidate], *, by_prefix: bool = False
) -> int | None:
    """The place of the one that is meant; None when none is. Raises AmbiguousSession."""
    tests: list[Callable[[Candidate], bool]] = [
        lambda c: c.active_session_id == selector,
        lambda c: selector in (c.session_id, c.name),
    ]
    part = _hexadecimal(selector)
    if part is not None:
        tests.append(lambda c: any(i.endswith(part) for i in _ids(c)))
        if by_prefix:
            tests.append(lambda c: any(i.startswith(part) for i in _ids(c)))
    elif by_prefix and selector:
        tests.append(lambda c: c.session_id.startswith(selector))
    for is_meant in tests:
        found = [place for place, candidate in enumerate(candidates) if is_meant(candidate)]
        if len(found) > 1:
            listed = ", ".join(_shown(candidates[place]) for place in found[:_LISTED])
            more = f", and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
            raise refused("ambiguous_session", f"{selector!r} may be any of {listed}{more}")
        if found:
            return found[0]
    return None


def _hexadecimal(text: str) -> str | None:
    plain = text.replace("-", "").lower()
    return plain if plain and all(c in hexdigits for c in plain) else None


def _ids(candidate: Candidate) -> Iterable[str]:
    for known in (candidate.active_session_id, candidate.session_id):
        if (plain := _hexadecimal(known)) is not None:
            yield plain


def _shown(candidate: Candidate) -> str:
    name = f" ({candidate.name})" if candidate.name else ""
    return f"{candidate.active_session_id}/{candidate.session_id}{name}"
