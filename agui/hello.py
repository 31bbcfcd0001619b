"""The handshake of the binding: what a first frame must be, and what it is answered with. Pure.

The names are historical and fixed: real desktop apps and browser extensions speak them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from agui.security import same_token
from sessions.domain.keys import ThreadKey

PROTOCOL_VERSION = 2

Kind = Literal["extension", "desktop", "browser"]

# Whoever has not shown the token yet gets no more than this much work out of us.
LONGEST_HELLO = 64 * 2**10

ACK = b'{"type":"browser_hello_ack","protocol_version":2}'

_KINDS: dict[object, Kind] = {"desktop": "desktop", "browser": "browser"}
_NEVER_ATTRIBUTES = frozenset({"type", "token"})


class BadHello(Exception):
    """The first frame was not a good hello. The message is for the log and never quotes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A client that showed the token."""

    kind: Kind
    protocol_version: int | None
    """None when it was missing or not a number."""
    attributes: Mapping[str, str]
    """The other members of the frame that are text; never the token."""
    inside: ThreadKey | None = None
    """Whose worker's token it showed; None for the daemon's own."""
    session: str | None = None
    """The panel's session that it showed the secret of."""

    @property
    def speaks_our_version(self) -> bool:
        return self.protocol_version == PROTOCOL_VERSION


def parse_hello(
    frame: bytes,
    token: str,
    worker_with: Callable[[str], ThreadKey | None],
    session_of: Callable[[str], str | None] = lambda secret: None,
) -> Hello:
    """Judge a connection's first frame. Raises BadHello.

    Its token may be the daemon's, a worker's, or the secret of a session of the panel.
    """
    if len(frame) > LONGEST_HELLO:
        raise BadHello("the first frame is too long for a hello")
    try:
        decoded: object = json.loads(frame)
    except (ValueError, RecursionError) as exc:
        raise BadHello("the first frame is not JSON") from exc
    if not isinstance(decoded, dict):
        raise BadHello("the first frame is not an object")
    members = cast("dict[str, object]", decoded)
    if members.get("type") != "browser_hello":
        raise BadHello("the first frame is not a hello")
    given = members.get("token")
    inside = session = None
    if not same_token(given, token):
        if isinstance(given, str) and given:
            inside, session = worker_with(given), session_of(given)
        if inside is None and session is None:
            raise BadHello("the token is wrong")
    return Hello(
        kind=_kind(members.get("client")),
        inside=inside,
        session=session,
        protocol_version=_version(members.get("protocol_version")),
        attributes={
            name: value
            for name, value in members.items()
            if isinstance(value, str) and name not in _NEVER_ATTRIBUTES
        },
    )


def _kind(value: object) -> Kind:
    """What the client calls itself; absent and unknown kinds are extensions."""
    return _KINDS.get(value, "extension") if isinstance(value, str) else "extension"


def _version(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
