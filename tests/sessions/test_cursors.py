"""Decision 15: every event has a place, and who names it gets exactly what came after."""

from hypothesis import given
from hypothesis import strategies as st

from sessions.domain.keys import ConversationId, Cursor, Generation, ThreadKey
from sessions.domain.ring import Coverage, Ring
from tests.support.fakes import FakeClient
from tests.support.scenes import (
    PROJECT,
    a_followed_thread,
    line,
    run_finished,
    run_started,
    snapshot,
    text,
)

KEY = ThreadKey(PROJECT, ConversationId("c1"))


async def test_a_sequence_is_the_number_of_the_line_and_every_launch_is_a_new_generation() -> None:
    async with a_followed_thread() as (scene, desktop):
        phone = FakeClient("phone")
        scene.opens(phone)
        await scene.worker_says(run_started(), snapshot(), run_finished())
        places = [cursor for _, cursor in desktop.received]
        assert [cursor.sequence for cursor in places if cursor] == [3, 5]
        await scene.worker_dies()
        desktop.take()
        await scene.follows(desktop)
        await scene.worker_says(run_started())
        (_, again), (_, before) = desktop.received[-1], (None, places[0])
        assert again is not None
        assert before is not None
        assert again.generation != before.generation
        assert again.sequence == 3


async def test_who_attaches_with_a_cursor_gets_exactly_what_it_missed() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), text("a"), text("b"))
        _, cursor = desktop.received[1]
        scene.registry.detach(desktop)
        await scene.worker_says(text("c"))
        sent = len(scene.worker.sent)
        attachment = scene.registry.attach(desktop, KEY, cursor)
        assert attachment.coverage is Coverage.COMPLETE
        await scene.worker_says(text("d"))
        seen = [event.get("delta") for event in desktop.events]
        assert seen == [None, "a", "b", "b", "c", "d"]
        assert len(scene.worker.sent) == sent
        assert all(cursor is not None for _, cursor in desktop.received)


async def test_who_attaches_with_a_cursor_that_is_too_old_gets_a_snapshot() -> None:
    async with a_followed_thread(ring_events=2) as (scene, desktop):
        await scene.worker_says(run_started(), text("a"), text("b"), text("c"))
        _, cursor = desktop.received[0]
        attachment = scene.registry.attach(desktop, KEY, cursor)
        assert attachment.coverage is Coverage.PARTIAL
        desktop.take()
        await scene.worker_says(snapshot("all"))
        assert desktop.frames == [snapshot("all"), run_started()]


async def test_a_cursor_of_another_generation_is_never_compared_by_number() -> None:
    async with a_followed_thread() as (scene, desktop):
        foreign = Cursor(Generation("another"), 1)
        attachment = scene.registry.attach(desktop, KEY, foreign)
        assert attachment.coverage is Coverage.UNAVAILABLE
        assert attachment.reason == "event_generation_changed"
        await scene.worker_says(snapshot("all"))
        assert desktop.frames == [snapshot("all")]


async def test_attach_without_a_cursor_opens_the_thread() -> None:
    async with a_followed_thread() as (scene, _):
        phone = FakeClient("phone")
        assert scene.registry.attach(phone, KEY).coverage is Coverage.COMPLETE
        await scene.worker_says(snapshot("all"), line("CUSTOM", name="x", value=1))
        assert phone.frames == [snapshot("all"), line("CUSTOM", name="x", value=1)]


@given(
    sizes=st.lists(st.integers(0, 40), max_size=60),
    max_events=st.integers(1, 10),
    max_bytes=st.integers(1, 120),
    at=st.integers(0, 130),
)
def test_a_ring_is_bounded_and_its_complete_replay_misses_nothing(
    sizes: list[int], max_events: int, max_bytes: int, at: int
) -> None:
    ring = Ring(Generation("g"), max_events, max_bytes)
    said: list[tuple[int, bytes]] = []
    for index, size in enumerate(sizes):
        sequence = 2 * index + 1
        said.append((sequence, bytes(size)))
        ring.append(sequence, bytes(size))
        kept = ring.after(0)
        assert len(kept) <= max_events
        assert sum(len(event) for _, event in kept) <= max_bytes
    attachment = ring.attach(Cursor(Generation("g"), at))
    last = said[-1][0] if said else 0
    missed = [(Cursor(Generation("g"), s), event) for s, event in said if s > at]
    if at > last:
        assert attachment.reason == "resume_cursor_ahead_of_session"
    elif attachment.coverage is Coverage.COMPLETE:
        assert ring.after(at) == missed
    else:
        assert ring.after(at) != missed
        assert attachment.coverage is (Coverage.PARTIAL if ring.after(0) else Coverage.UNAVAILABLE)


STATE = line("STATE_SNAPSHOT", snapshot={"a": 1})


def patch(path: str) -> bytes:
    return line("STATE_DELTA", delta=[{"op": "add", "path": path, "value": 1}])


GROWING = [patch(f"/key{number}") for number in range(12)]


def place_of(client: FakeClient, frame: bytes) -> Cursor:
    """Where a client was when it got this."""
    (found,) = [cursor for told, cursor in client.received if told == frame]
    assert found is not None
    return found


async def test_who_joined_without_a_state_comes_back_to_no_patch_of_it() -> None:
    """It would apply them to nothing. Who was there before the joiner has what they apply to."""
    async with a_followed_thread(join_lines=8) as (scene, desktop):
        await scene.worker_says(run_started(), STATE, *GROWING)
        phone = FakeClient("phone")
        scene.opens(phone)
        await scene.worker_says(snapshot())
        await scene.worker_says(patch("/more"), text("a"))
        assert patch("/more") not in phone.frames
        back = place_of(phone, text("a"))
        scene.registry.detach(phone)
        await scene.worker_says(patch("/missed"), text("b"))
        phone.take()
        assert scene.registry.attach(phone, KEY, back).coverage is Coverage.PARTIAL
        await scene.worker_says(snapshot("all"), patch("/later"), STATE, patch("/last"))
        assert phone.frames == [snapshot("all"), run_started(), STATE, patch("/last")]
        first = place_of(desktop, GROWING[-1])
        assert scene.registry.attach(FakeClient(), KEY, first).coverage is Coverage.COMPLETE
        # The state is had again: what came before that place still is not replayed to a joiner.
        assert scene.registry.attach(FakeClient(), KEY, back).coverage is Coverage.PARTIAL
        again = place_of(desktop, patch("/last"))
        assert scene.registry.attach(FakeClient(), KEY, again).coverage is Coverage.COMPLETE


async def test_who_joined_between_runs_and_comes_back_is_told_the_state_before_its_next_patch() -> (
    None
):
    async with a_followed_thread() as (scene, _):
        await scene.worker_says(run_started(), STATE, run_finished())
        phone = FakeClient("phone")
        scene.opens(phone)
        await scene.worker_says(snapshot())
        await scene.worker_says(run_started("r2"))
        back = place_of(phone, run_started("r2"))
        scene.registry.detach(phone)
        await scene.worker_says(text("a"))
        phone.take()
        assert scene.registry.attach(phone, KEY, back).coverage is Coverage.COMPLETE
        await scene.worker_says(patch("/b"))
        assert phone.frames == [text("a"), STATE, patch("/b")]


async def test_who_may_not_have_seen_a_chunk_begin_comes_back_to_a_snapshot() -> None:
    first = line("TEXT_MESSAGE_CHUNK", messageId="m2", delta="a")
    more = [line("TEXT_MESSAGE_CHUNK", delta=letter) for letter in "bcd"]
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), first, more[0])
        back = place_of(desktop, more[0])
        scene.registry.detach(desktop)
        await scene.worker_says(more[1])
        assert scene.registry.attach(desktop, KEY, back).coverage is Coverage.COMPLETE
        await scene.worker_says(more[2])
        assert desktop.frames[-3:] == more
        scene.opens(FakeClient("phone"))
        await scene.worker_says(snapshot(), line("CUSTOM", name="x", value=1))
        later = place_of(desktop, line("CUSTOM", name="x", value=1))
        assert scene.registry.attach(FakeClient(), KEY, later).coverage is Coverage.PARTIAL
