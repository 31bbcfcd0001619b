"""Errors before a run has begun: an HTTP status and one sentence in JSON. Pure.

What the registry and the workers refuse comes as a RUN_ERROR without a run; its code decides the
status. A code that is not in the table is a fault on our side of the wire, and says so with 503.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

STATUSES: Mapping[str, int] = {
    "bad_frame": 400,
    "not_allowed": 403,
    "bad_input": 422,
    "incomplete_resume": 422,
    "line_too_long": 413,
    "too_many_waiting": 429,
}
RETRY_AFTER = "5"
_PATH = re.compile(r" - at `\$\.?(.*)`$")


@dataclass(slots=True)
class Refused(Exception):
    """The request does not become a run. `error` is for people, `code` for programs."""

    status: int
    code: str
    error: str
    more: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def body(self) -> dict[str, object]:
        return {"error": self.error, "code": self.code, **self.more}

    @property
    def headers(self) -> dict[str, str]:
        headers = {"cache-control": "no-store"}
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        if self.status in (429, 503):
            headers["retry-after"] = RETRY_AFTER
        return headers


def refused_by(code: str | None, message: str) -> Refused:
    """From the RUN_ERROR that answered instead of a run."""
    code = code or "unavailable"
    return Refused(STATUSES.get(code, 503), code, message)


def bad_value(exc: msgspec.ValidationError, inside: str = "") -> Refused:
    """A member of a body has a value that it may not have. `inside`: the path of that body."""
    words = str(exc)
    found = _PATH.search(words)
    path = ".".join(part for part in (inside, found[1] if found else "") if part)
    words = _PATH.sub("", words).replace("`", "")
    where = f"{path}: " if path else ""
    return Refused(400, "bad_input", f"{where}{words}.", {"path": path})
