"""Who may talk to the port at all, judged by the headers of a request. Pure.

A page of any web site can make a browser connect to the loopback interface. It can't choose the
Origin the browser sends, and with a name that it rebinds to 127.0.0.1 it can't choose the Host.
Both are checked before anything is accepted; the token is checked after, in constant time.
"""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass

Headers = Iterable[tuple[bytes, bytes]]

_NAMES = ("127.0.0.1", "localhost", "[::1]")
_EXTENSION_SCHEMES = ("chrome-extension://", "moz-extension://", "safari-web-extension://")


@dataclass(frozen=True, slots=True)
class Refusal:
    """An HTTP answer to a request that may not pass."""

    status: int
    code: str
    reason: str


_BAD_HOST = Refusal(400, "bad_host", "This address is only for 127.0.0.1 and localhost.")
_BAD_ORIGIN = Refusal(403, "bad_origin", "This origin may not connect.")


@dataclass(frozen=True, slots=True)
class Doorkeeper:
    """Judges requests to one port."""

    port: int
    origins: frozenset[str] = frozenset()
    """Origins that the user allowed on top of ours, compared exactly."""

    def refusal(self, headers: Headers, *, any_origin: bool = False) -> Refusal | None:
        """Judge Host, then Origin. None: the request may pass."""
        hosts, origins = values(headers, b"host", b"origin")
        if len(hosts) != 1 or not host_allowed(hosts[0], self.port):
            return _BAD_HOST
        if any_origin or not origins:
            return None
        is_known = len(origins) == 1 and (
            origins[0] in self.origins or origin_allowed(origins[0], self.port)
        )
        return None if is_known else _BAD_ORIGIN


def host_allowed(host: str, port: int) -> bool:
    """A loopback name with our port; without one only where that is the default of http."""
    name, separator, number = host.lower().rpartition(":")
    if host.lower() in _NAMES:
        return port == 80
    return name in _NAMES and bool(separator) and number == str(port)


def origin_allowed(origin: str, port: int) -> bool:
    """A browser extension, or a page of our own. Absent origins are not asked about here."""
    for scheme in _EXTENSION_SCHEMES:
        if origin.startswith(scheme):
            return len(origin) > len(scheme)
    return origin.startswith("http://") and host_allowed(origin.removeprefix("http://"), port)


def bearer_token(headers: Headers) -> str | None:
    """The token of `Authorization: Bearer <token>`, if there is exactly one such header."""
    (given,) = values(headers, b"authorization")
    if len(given) != 1:
        return None
    scheme, _, token = given[0].partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def same_token(given: object, ours: str) -> bool:
    """Compare in constant time. Never true for an empty token of ours."""
    if not isinstance(given, str) or not ours:
        return False
    return hmac.compare_digest(_encoded(given), _encoded(ours))


def _encoded(token: str) -> bytes:
    # JSON can spell lone surrogates, which plain UTF-8 refuses to encode.
    return token.encode("utf-8", "surrogatepass")


def values(headers: Headers, *names: bytes) -> tuple[list[str], ...]:
    """All values of each of the headers, in lower case by name."""
    found: dict[bytes, list[str]] = {name: [] for name in names}
    for name, value in headers:
        wanted = found.get(name.lower())
        if wanted is not None:
            wanted.append(value.decode("latin-1").strip())
    return tuple(found.values())
