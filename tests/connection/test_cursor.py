"""What a client that lost its connection shows: each event once, in order."""

from hypothesis import given
from hypothesis import strategies as st

from connection.cursor import EventCursor
from sessions.domain.keys import Cursor, Generation


def at(generation: str, sequence: int) -> Cursor:
    return Cursor(Generation(generation), sequence)


def test_an_event_that_comes_again_is_not_shown_again() -> None:
    cursor = EventCursor()
    assert cursor.admits(at("a", 3))
    assert not cursor.admits(at("a", 3))
    assert not cursor.admits(at("a", 2))
    assert cursor.admits(at("a", 5))


def test_a_new_generation_is_followed_from_any_number_on() -> None:
    cursor = EventCursor(at("a", 900))
    assert cursor.admits(at("b", 1))
    assert cursor.current == at("b", 1)


def test_a_late_event_of_a_generation_that_was_left_does_not_take_the_client_back() -> None:
    cursor = EventCursor(at("a", 1))
    assert cursor.admits(at("b", 1))
    assert not cursor.admits(at("a", 2))
    assert cursor.admits(at("b", 2))


def test_a_snapshot_is_the_truth_even_of_a_retired_generation() -> None:
    cursor = EventCursor(at("a", 5))
    cursor.moved_to(at("b", 7))
    assert not cursor.admits(at("b", 7))
    assert not cursor.admits(at("a", 6))
    cursor.moved_to(at("a", 9))
    assert cursor.admits(at("a", 10))
    assert not cursor.admits(at("b", 8))


@given(st.lists(st.integers(0, 30)), st.data())
def test_whatever_is_repeated_the_view_is_each_event_once_in_order(
    losses: list[int], data: st.DataObject
) -> None:
    """A connection that is lost anywhere and replays from anywhere before changes nothing."""
    said = [at("a", n) for n in range(1, 20)] + [at("b", n) for n in range(1, 12)]
    cursor, shown, place = EventCursor(), list[Cursor](), 0
    for step in [*losses, 30]:
        end = min(place + step, len(said))
        shown += [event for event in said[place:end] if cursor.admits(event)]
        place = data.draw(st.integers(0, end)) if step != 30 else end
        # A replay stays inside the generation; another one is entered by its first event.
        if place < 19 <= end and cursor.current and cursor.current.generation == "b":
            place = 19
    shown += [event for event in said[place:] if cursor.admits(event)]
    assert shown == said


def test_a_place_is_behind_only_inside_one_generation() -> None:
    cursor = EventCursor()
    assert not cursor.is_past(Cursor(Generation("g"), 1))
    cursor.admits(Cursor(Generation("g"), 5))
    places = [Cursor(Generation("g"), 4), Cursor(Generation("g"), 5), Cursor(Generation("h"), 1)]
    assert [cursor.is_past(place) for place in (*places, None)] == [True, False, False, False]
