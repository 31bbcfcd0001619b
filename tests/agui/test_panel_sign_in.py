"""Who is signed in to the panel: links are good once and soon, sessions until they are ended."""

import hypothesis.strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from agui.panel.sign_in import LINK_SECONDS, MOST_LINKS, MOST_SESSIONS, SignIn


class SignInMachine(RuleBasedStateMachine):
    """The same as a list of who may come in, kept by somebody who trusts nobody."""

    links = Bundle("links")
    sessions = Bundle("sessions")

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.count = 0
        self.ended = 0
        self.sign_in = SignIn(new_secret=self._secret)
        self.sign_in.ended = self._saw_end
        self.good_links: dict[str, float] = {}
        self.open: list[str] = []

    def _secret(self) -> str:
        self.count += 1
        return f"secret-{self.count}"

    def _saw_end(self) -> None:
        self.ended += 1

    @rule(target=links)
    def make_link(self) -> str:
        link = self.sign_in.new_link(self.now)
        self.good_links = {k: t for k, t in self.good_links.items() if t > self.now}
        self.good_links[link] = self.now + LINK_SECONDS
        for oldest in list(self.good_links)[:-MOST_LINKS]:
            del self.good_links[oldest]
        return link

    @rule(target=sessions, link=links)
    def exchange(self, link: str) -> str:
        is_good = self.good_links.pop(link, -1.0) > self.now
        session = self.sign_in.exchange(link, self.now)
        assert (session is not None) == is_good
        if session is None:
            return "never a secret"
        self.open = [*self.open, session][-MOST_SESSIONS:]
        return session

    @rule(seconds=st.sampled_from([1.0, LINK_SECONDS / 2, LINK_SECONDS]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(session=sessions)
    def end(self, session: str) -> None:
        known = self.sign_in.session_of(session)
        assert (known is not None) == (session in self.open)
        if known is not None:
            before = self.ended
            self.sign_in.end(known)
            self.open.remove(session)
            assert self.ended == before + 1
            assert not self.sign_in.is_open(known)

    @rule()
    def end_all(self) -> None:
        assert self.sign_in.end_all() == len(self.open)
        self.open = []
        self.good_links = {}

    @rule()
    def restart(self) -> None:
        """Sessions are on the disk, as hashes; links are not."""
        kept = self.sign_in.sessions
        assert not set(kept) & set(self.open)
        self.sign_in = SignIn(kept, new_secret=self._secret)
        self.sign_in.ended = self._saw_end
        self.good_links = {}

    @invariant()
    def who_is_in_is_who_signed_in(self) -> None:
        known = [self.sign_in.session_of(session) for session in self.open]
        assert None not in known
        assert tuple(known) == tuple(self.sign_in.sessions)


TestSignIn = SignInMachine.TestCase


def test_past_the_most_the_oldest_is_signed_out() -> None:
    """Somebody who signs in again and again must not fill the disk."""
    sign_in = SignIn()
    sessions = [sign_in.exchange(sign_in.new_link(0.0), 0.0) for _ in range(MOST_SESSIONS + 1)]
    assert sign_in.session_of(str(sessions[0])) is None
    assert all(sign_in.session_of(str(session)) for session in sessions[1:])


def test_a_link_is_good_for_two_minutes_and_no_longer() -> None:
    """One that was left in a terminal's history lets nobody in tomorrow."""
    sign_in = SignIn()
    in_time, too_late = sign_in.new_link(0.0), sign_in.new_link(0.0)
    assert sign_in.exchange(in_time, LINK_SECONDS - 1) is not None
    assert sign_in.exchange(too_late, LINK_SECONDS) is None


def test_odd_secrets_let_nobody_in() -> None:
    sign_in = SignIn()
    sign_in.new_link(0.0)
    for odd in ("", "\ud800", "x" * 100_000):
        assert sign_in.session_of(odd) is None
        assert sign_in.exchange(odd, 0.0) is None
