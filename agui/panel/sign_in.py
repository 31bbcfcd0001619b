"""Who is signed in to the panel. Pure, but for the secrets it makes.

`roost panel`, which has the daemon's token, asks for a link. The page exchanges the link's secret,
once and soon, for the secret of a session of its own, which it shows from then on. Only hashes are
kept of either: what is on the disk lets nobody in.
"""

import hashlib
import secrets
from collections.abc import Callable, Sequence

LINK_SECONDS = 120.0
"""A link is opened by a program, at once; a person who copies it needs a moment."""
MOST_LINKS = 16
MOST_SESSIONS = 64
"""One for each browser profile. Past it the oldest is signed out."""


class SignIn:
    """The links that are out, and the sessions. Time is the caller's monotonic clock."""

    def __init__(
        self,
        sessions: Sequence[str] = (),
        new_secret: Callable[[], str] = lambda: secrets.token_urlsafe(32),
    ) -> None:
        self._sessions = dict.fromkeys(sessions)
        self._links: dict[str, float] = {}
        self._new_secret = new_secret
        self.ended: Callable[[], None] = lambda: None
        """Called when sessions have ended, for whoever serves them."""

    @property
    def sessions(self) -> Sequence[str]:
        """The hashes of all sessions, oldest first: what is to be kept."""
        return tuple(self._sessions)

    def new_link(self, now: float) -> str:
        """The secret of a link that is good for one exchange, for a while."""
        self._forget_old_links(now)
        while len(self._links) >= MOST_LINKS:
            del self._links[next(iter(self._links))]
        secret = self._new_secret()
        self._links[_hash(secret)] = now + LINK_SECONDS
        return secret

    def exchange(self, link: str, now: float) -> str | None:
        """A new session's secret for a link's; None for one that is unknown, used or too old."""
        self._forget_old_links(now)
        if self._links.pop(_hash(link), None) is None:
            return None
        secret = self._new_secret()
        self._sessions[_hash(secret)] = None
        if len(self._sessions) > MOST_SESSIONS:
            self.end(next(iter(self._sessions)))
        return secret

    def session_of(self, secret: str) -> str | None:
        """The session that the secret belongs to, as the hash it is known by.

        Looked up by a hash, so that the time it takes tells nothing of the secrets there are.
        """
        session = _hash(secret)
        return session if session in self._sessions else None

    def is_open(self, session: str) -> bool:
        return session in self._sessions

    def end(self, session: str) -> None:
        """Sign one out. Unknown sessions are fine."""
        self._sessions.pop(session, None)
        self.ended()

    def end_all(self) -> int:
        """Sign everybody out, and take every link back. Returns how many sessions ended."""
        count = len(self._sessions)
        self._sessions.clear()
        self._links.clear()
        self.ended()
        return count

    def _forget_old_links(self, now: float) -> None:
        self._links = {link: until for link, until in self._links.items() if until > now}


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
