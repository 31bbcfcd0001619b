"""How people name a session: exact beats a part, and several are an error that lists them."""

import pytest

from connection.admission import Admissions, Status
from connection.failures import AmbiguousSession, CommandRefused
from connection.reconnecting import Reconnecting
from connection.selectors import ActiveIds, Candidate, chosen, digest_of

ONE = Candidate("aaaaaaaaaa11", "0f0e0d0c-0000-4000-8000-00000000ab11", "poem")
TWO = Candidate("bbbbbbbbbb11", "1f0e0d0c-0000-4000-8000-00000000cd22", "poem two")
BOTH = [ONE, TWO]


@pytest.mark.parametrize(
    ("selector", "place"),
    [
        ("aaaaaaaaaa11", 0),
        ("poem", 0),
        ("poem two", 1),
        ("0f0e0d0c-0000-4000-8000-00000000ab11", 0),
        ("8000-00000000CD22", 1),
        ("cd22", 1),
        ("nobody", None),
        ("", None),
    ],
)
def test_a_selector_names_one_or_none(selector: str, place: int | None) -> None:
    assert chosen(selector, BOTH) == place


def test_a_part_that_several_end_with_is_an_error_that_lists_them() -> None:
    with pytest.raises(AmbiguousSession) as ambiguous:
        chosen("11", BOTH)
    assert "aaaaaaaaaa11/0f0e0d0c-0000-4000-8000-00000000ab11 (poem)" in str(ambiguous.value)
    assert "bbbbbbbbbb11" in str(ambiguous.value)


def test_the_beginning_of_an_id_counts_for_saved_sessions_only() -> None:
    assert chosen("1f0e", BOTH) is None
    assert chosen("1f0e", BOTH, by_prefix=True) == 1


def test_the_id_of_a_thread_is_the_same_after_a_restart() -> None:
    assert ActiveIds().of("/p", "c") == ActiveIds().of("/p", "c") == digest_of("/p", "c")[:12]
    assert ActiveIds().of("/p", "c") != ActiveIds().of("/pc", "")


def test_threads_whose_ids_begin_alike_have_ids_that_name_one_of_them() -> None:
    """Twelve digits are many, and not all: a command must never reach another thread."""
    alike = {"c1": "a" * 14 + "1", "c2": "a" * 14 + "2", "c3": "a" * 12 + "bb"}
    ids = ActiveIds(lambda project_dir, session_id: alike[session_id])
    made = {session_id: ids.of("/p", session_id) for session_id in alike}
    assert made == {"c1": "a" * 12, "c2": "a" * 13, "c3": "a" * 12 + "b"}
    assert {session_id: ids.of("/p", session_id) for session_id in alike} == made
    candidates = [Candidate(active, session_id) for session_id, active in made.items()]
    assert [chosen(active, candidates) for active in made.values()] == [0, 1, 2]


def test_a_prompt_that_waits_can_be_taken_back_and_one_that_is_owned_says_so() -> None:
    book = Admissions()
    book.begin("a")
    with pytest.raises(CommandRefused):
        book.begin("a")
    assert book.cancel("a") is Status.CANCELLED
    assert book.cancel("a") is Status.CANCELLED
    assert not book.own("a")
    book.begin("b")
    assert book.own("b")
    assert book.cancel("b") is Status.OWNED
    assert book.cancel("nobody") is Status.UNKNOWN
    book.begin("c")
    book.cancel_all()
    assert book.cancel("c") is Status.CANCELLED
    assert book.cancel("b") is Status.OWNED


def test_a_lost_daemon_is_looked_for_at_once_then_more_slowly_and_not_for_ever() -> None:
    outage = Reconnecting(began=100.0, budget=10.0)
    waits: list[float] = []
    now = 100.0
    while (delay := outage.delay(now)) is not None:
        waits.append(delay)
        now += delay
    assert waits[0] == 0.0
    assert waits[1:5] == [0.2, 0.4, 0.8, 1.6]
    assert max(waits) <= 2.0
    assert sum(waits) == pytest.approx(10.0)
