"""Commands over every kind of outage: each has one outcome, and the daemon sees one command an id.

The daemon's side is a model: it carries out what it has not seen, and answers what it has seen with
what it said before. Rules lose the connection anywhere, bring it back older or newer, and let
answers come late, or twice.
"""

import json
import math
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from connection.commands import COMMANDS
from connection.failures import CapabilityUnavailable, Disconnected
from connection.negotiation import REVISION, SERVER_CAPABILITIES, Offer
from connection.reconnecting import Reconnecting
from connection.records import Response
from connection.requests import Request, Requests

OFFERS = [Offer(revision, SERVER_CAPABILITIES[revision]) for revision in range(REVISION + 1)]
GATED = "get_earlier_messages"


def ignored(response: Response) -> None:
    """Makes a request one that belongs to its connection."""


class OneClient(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.requests = Requests("me")
        self.made: list[Request] = []
        self.offer: Offer | None = OFFERS[-1]
        """None while the connection is down."""
        self.wire: list[bytes] = []
        self.seen: dict[str, bytes] = {}
        self.carried_out: Counter[str] = Counter()
        self.answers: list[Response] = []

    # The client

    @rule(name=st.sampled_from(["list", GATED, "abort"]), is_tied=st.booleans())
    def asks(self, name: str, is_tied: bool) -> None:
        if self.offer is not None and self.offer.missing(COMMANDS[name].gate) is not None:
            return  # it is checked before it is made
        if is_tied and self.offer is None:
            return  # what belongs to a connection is asked on one
        request = self.requests.make(name, {}, self.now, ignored if is_tied else None)
        self.made.append(request)
        if self.offer is None:
            request.pause(self.now)
        else:
            self.wire.append(request.line)

    @rule(seconds=st.floats(0, 5))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    # The connection

    @rule()
    def is_lost(self) -> None:
        self.offer = None
        self.wire.clear()
        self.answers.clear()
        self.requests.lost(self.now)

    @precondition(lambda self: self.offer is None)
    @rule(offer=st.sampled_from(OFFERS))
    def is_back(self, offer: Offer) -> None:
        self.offer = offer
        self.requests.send_again(offer, self.wire.append, self.now)

    @precondition(lambda self: self.wire)
    @rule()
    def the_daemon_reads(self) -> None:
        line = self.wire.pop(0)
        envelope = json.loads(line)
        request_id = envelope["id"]
        assert self.offer is not None
        assert self.offer.missing(COMMANDS[envelope["command"]["type"]].gate) is None
        assert self.seen.setdefault(request_id, line) == line, "one envelope, to the byte"
        if not self.carried_out[request_id]:
            self.carried_out[request_id] += 1
        self.answers.append(Response(id=request_id, command="x", success=True))

    @precondition(lambda self: self.answers)
    @rule(twice=st.booleans())
    def an_answer_comes(self, twice: bool) -> None:
        answer = self.answers.pop(0)
        for _ in range(1 + twice):
            self.requests.answered(answer)

    @rule()
    def settles(self) -> None:
        """The connection holds, and all that is on its way arrives."""
        if self.offer is None:
            self.is_back(OFFERS[-1])
        while self.wire:
            self.the_daemon_reads()
        while self.answers:
            self.an_answer_comes(False)
        assert all(request.response or request.failure for request in self.made)

    # What always holds

    @invariant()
    def nothing_has_two_outcomes(self) -> None:
        for request in self.made:
            assert not (request.response and request.failure)
            if request.failure is not None:
                is_tied = request.on_response is not None
                expected = Disconnected if is_tied else CapabilityUnavailable
                assert isinstance(request.failure, expected)

    @invariant()
    def no_time_passes_while_the_connection_is_down(self) -> None:
        for request in self.made:
            waits = request.response is None and request.failure is None
            if waits:
                assert (request.deadline == math.inf) is (self.offer is None)


OneClient.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestOneClient = OneClient.TestCase


def test_what_failed_at_one_return_is_not_sent_at_the_next() -> None:
    """Whoever waits was told that nothing was done, and may only hear of it a moment later."""
    requests, sent = Requests("me"), list[bytes]()
    request = requests.make(GATED, {}, now=0.0)
    for offer in (OFFERS[0], OFFERS[-1]):
        requests.lost(now=1.0)
        requests.send_again(offer, sent.append, now=2.0)
    assert isinstance(request.failure, CapabilityUnavailable)
    assert not sent


@given(
    budget=st.floats(0.1, 120),
    took=st.lists(st.floats(0, 10), min_size=1, max_size=60),
)
def test_an_outage_is_given_up_when_its_time_is_over_and_not_before(
    budget: float, took: list[float]
) -> None:
    """However long each attempt takes."""
    outage, now = Reconnecting(began=0.0, budget=budget), 0.0
    for number, attempt in enumerate(took):
        delay = outage.delay(now)
        assert (delay is None) is (now >= budget)
        if delay is None:
            return
        assert 0 <= delay <= min(2.0, budget - now)
        assert (delay == 0) is (number == 0)
        now += delay + attempt


@given(
    name=st.sampled_from(sorted(COMMANDS)),
    revision=st.integers(0, REVISION),
    pretended=st.integers(0, REVISION),
    dropped=st.sets(st.sampled_from(sorted(SERVER_CAPABILITIES[REVISION]))),
    data=st.data(),
)
def test_what_may_be_sent_is_what_both_sides_know(
    name: str, revision: int, pretended: int, dropped: set[str], data: st.DataObject
) -> None:
    """An old daemon is never sent what it does not know, and an old client never does either."""
    command = COMMANDS[name]
    fields = data.draw(st.sets(st.sampled_from(sorted(command.fields)))) if command.fields else ()
    offer = Offer(revision, SERVER_CAPABILITIES[revision] - dropped).up_to(pretended)
    known = min(revision, pretended)
    gates = [command.gate, *(command.field_gates[f] for f in fields if f in command.field_gates)]
    is_known = all(
        gate.revision <= known
        and (gate.capability is None or gate.capability in SERVER_CAPABILITIES[known] - dropped)
        for gate in gates
    )
    try:
        offer.check(name, fields)
    except CapabilityUnavailable:
        assert not is_known
    else:
        assert is_known
    wished = dict.fromkeys(fields, None)
    assert set(offer.without_unknown(name, wished)) <= set(fields)
    if offer.missing(command.gate) is None:
        offer.check(name, offer.without_unknown(name, wished))
