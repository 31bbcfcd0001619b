"""Frames between a daemon and a keeper, cut anywhere by the socket: out comes what went in."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sessions.domain.keeper_frames import (
    BadFrames,
    FrameSplitter,
    Kind,
    frame,
    heard_launch,
    told_launch,
)
from tests.sessions.test_keeping_machine import a_launch

FRAMES = st.lists(st.tuples(st.sampled_from(Kind), st.binary(min_size=1, max_size=30)), max_size=8)


def merged(said: list[tuple[Kind, bytes]]) -> list[tuple[Kind, bytes]]:
    """With what came in pieces put together again."""
    whole: list[tuple[Kind, bytes]] = []
    for kind, payload in said:
        if whole and whole[-1][0] is kind:
            whole[-1] = (kind, whole[-1][1] + payload)
        else:
            whole.append((kind, payload))
    return whole


@settings(max_examples=50)
@given(
    said=FRAMES,
    cuts=st.lists(st.integers(1, 12), min_size=1),
    piecewise=st.sets(st.sampled_from(Kind)),
)
def test_whatever_is_cut_where_nothing_is_lost_and_whole_frames_stay_whole(
    said: list[tuple[Kind, bytes]], cuts: list[int], piecewise: set[Kind]
) -> None:
    data = b"".join(frame(kind, payload) for kind, payload in said)
    splitter = FrameSplitter(piecewise=frozenset(piecewise))
    heard: list[tuple[Kind, bytes]] = []
    while data:
        size = cuts[len(data) % len(cuts)]
        chunk, data = data[:size], data[size:]
        found = splitter.feed(chunk)
        heard += found
        # What may come in pieces never waits for more.
        assert all(payload for _, payload in found)
    assert merged(heard) == merged(said)
    whole = [one for one in said if one[0] not in piecewise]
    assert [one for one in heard if one[0] not in piecewise] == whole


@pytest.mark.parametrize("bad", [struct.pack(">BI", 99, 0), struct.pack(">BI", 21, 2**31)])
def test_nonsense_is_refused_and_not_waited_for(bad: bytes) -> None:
    with pytest.raises(BadFrames):
        FrameSplitter().feed(bad)


def test_a_launch_is_told_with_names_that_are_no_text() -> None:
    launch = a_launch()
    odd = replace(launch, project_dir="/\udcff", environ={"A\udcff": "\udc80"})
    ((kind, payload),) = FrameSplitter().feed(told_launch(odd))
    assert kind is Kind.LAUNCH
    assert heard_launch(payload) == odd


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"{}", b"[" * 100_000, b"\xff"])
def test_a_launch_that_is_none_is_a_bad_frame(payload: bytes) -> None:
    with pytest.raises(BadFrames):
        heard_launch(payload)
