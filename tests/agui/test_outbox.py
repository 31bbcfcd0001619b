"""When what waits for a client is too much, and when it is not."""

from agui.outbox import Outbox


def outbox(frames: int = 3, size: int = 10) -> Outbox:
    return Outbox(max_frames=frames, max_bytes=size)


def test_frames_come_out_in_the_order_they_went_in() -> None:
    box = outbox()
    box.put_live(b"1")
    box.put_answer(b"2")
    box.put_live(b"3")
    assert box.take() == [b"1", b"2", b"3"]
    assert not box
    assert box.take() == []


def test_live_events_are_limited_by_count() -> None:
    box = outbox(frames=3)
    assert [box.put_live(b"x") for _ in range(4)] == [True, True, True, False]
    assert len(box.take()) == 3


def test_live_events_are_limited_by_bytes() -> None:
    box = outbox(size=10)
    assert [box.put_live(b"x" * n) for n in (4, 6, 1)] == [True, True, False]


def test_taking_makes_room_again() -> None:
    box = outbox(frames=1)
    assert box.put_live(b"x")
    box.take()
    assert box.put_live(b"x")


def test_one_larger_event_passes_when_nothing_waits() -> None:
    box = outbox(size=10)
    assert box.put_live(b"x" * 1000)
    assert not box.put_live(b"x")


def test_one_larger_event_does_not_pass_behind_another() -> None:
    box = outbox(size=10)
    box.put_answer(b"x")
    assert not box.put_live(b"x" * 1000)


def test_answers_are_exempt_and_do_not_use_up_the_limits() -> None:
    """The frames of a join were asked for: without them a client would come back for ever."""
    box = outbox(frames=1, size=10)
    for _ in range(100):
        box.put_answer(b"x" * 100)
    assert box.put_live(b"x")
    assert not box.put_live(b"x")
    box.put_answer(b"x")
    assert len(box.take()) == 102


def test_it_is_clogged_while_more_waits_than_the_limit_whatever_it_is() -> None:
    box = outbox(size=10)
    box.put_answer(b"x" * 10)
    assert not box.clogged
    box.put_answer(b"x")
    assert box.clogged
    box.take()
    assert not box.clogged


def test_events_in_a_row_count_one_by_one() -> None:
    outbox = Outbox(max_frames=10, max_bytes=1000)
    assert outbox.put_live(b"abc", 7)
    assert not outbox.put_live(b"abcd", 4)
    assert outbox.put_live(b"abcd", 3)
    assert not outbox.put_live(b"e")
    assert outbox.take() == [b"abc", b"abcd"]
    assert outbox.put_live(b"x" * 5000, 50), "nothing else waits: nobody is to blame"
