"""What browsers are told about the origins that the user listed in `binding.allowed_origins`.

Only for the routes such a page is meant to use. Everybody else's browser is told nothing, and so
keeps what we answer from the page that asked. Pure.
"""

from agui.security import Headers, values

PATHS = ("/ws", "/agui")
_METHODS = b"GET, POST, OPTIONS"
_REQUEST_HEADERS = ("authorization", "content-type", "last-event-id")
_MAX_AGE = b"600"

HeaderList = list[tuple[bytes, bytes]]


def is_shared(path: str) -> bool:
    """Whether a listed origin may use the route."""
    return any(path == shared or path.startswith(f"{shared}/") for shared in PATHS)


def is_preflight(method: str, headers: Headers) -> bool:
    """A browser's question before the request itself."""
    (asked,) = values(headers, b"access-control-request-method")
    return method == "OPTIONS" and bool(asked)


def allowance(origin: str) -> HeaderList:
    """For every answer to the origin."""
    return [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin")]


def preflight_answer(origin: str, headers: Headers) -> HeaderList:
    """For the answer to its question."""
    answer = [
        *allowance(origin),
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", _request_headers(headers)),
        (b"access-control-max-age", _MAX_AGE),
    ]
    (private,) = values(headers, b"access-control-request-private-network")
    if private == ["true"]:
        answer.append((b"access-control-allow-private-network", b"true"))
    return answer


def _request_headers(headers: Headers) -> bytes:
    """Those we read, and those that the page asked about: its user trusts it with the token."""
    (asked,) = values(headers, b"access-control-request-headers")
    names = [name.strip().lower() for value in asked for name in value.split(",")]
    known = dict.fromkeys((*_REQUEST_HEADERS, *filter(None, names)))
    return ", ".join(known).encode("latin-1")
