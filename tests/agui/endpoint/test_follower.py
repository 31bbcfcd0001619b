"""What waits for one request: limited while its client is the one who is waited for."""

import pytest

from agui.endpoint.follower import Ended, HttpFollower
from sessions.domain.keys import Cursor
from tests.agui.fakes import live


def a_follower() -> HttpFollower:
    return HttpFollower(None, max_frames=3, max_bytes=100)


ROW = [(b"x", live(n)) for n in range(4)]
LARGE = [(b"x" * 101, live(0))]


@pytest.mark.parametrize("row", [ROW, LARGE])
async def test_a_client_that_lets_too_much_pile_up_is_cut_and_what_waited_is_gone(
    row: list[tuple[bytes, Cursor]],
) -> None:
    follower = a_follower()
    follower.is_writing = True
    follower.deliver_row(row)
    follower.deliver(b"more", live(9))
    assert follower.waiting == 0
    with pytest.raises(Ended, match="did not keep up"):
        await follower.next()


async def test_what_piles_up_while_nobody_waits_for_the_client_is_not_its_fault() -> None:
    """A burst that comes in one turn of the loop would cut a reader that takes all of it."""
    follower = a_follower()
    follower.deliver_row(ROW)
    assert [await follower.next() for _ in ROW] == ROW
    follower.is_writing = True
    follower.deliver_row(ROW[:3])
    assert follower.take() == ROW[:3]
    follower.deliver_row(ROW[:3])
    assert follower.waiting == 3, "what was taken counts no more"


async def test_answers_are_exempt_as_on_every_binding() -> None:
    follower = a_follower()
    follower.is_writing = True
    for _ in range(10):
        follower.deliver(b"x" * 50, None)
    assert follower.waiting == 10
