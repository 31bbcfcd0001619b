"""Frames as bytes, judged by another implementation of the protocol."""

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from agui.text_frames import SharedEncoder, text_frame
from tests.agui.fakes import live

SIZES = [0, 1, 125, 126, 127, 65_535, 65_536, 200_000]


def parsed(data: bytes) -> list[Frame]:
    client = ClientProtocol(parse_uri("ws://localhost/"), state=State.OPEN, max_size=None)
    client.receive_data(data)
    return [event for event in client.events_received() if isinstance(event, Frame)]


@pytest.mark.parametrize("size", SIZES)
def test_a_frame_is_one_whole_text_message(size: int) -> None:
    payload = b"x" * size
    (frame,) = parsed(text_frame(payload))
    assert (frame.opcode, frame.fin, bytes(frame.data)) == (Opcode.TEXT, True, payload)


def test_several_frames_in_one_write_stay_several() -> None:
    payloads = [b"x" * size for size in SIZES]
    frames = parsed(b"".join(text_frame(payload) for payload in payloads))
    assert [bytes(frame.data) for frame in frames] == payloads


@pytest.mark.parametrize("size", SIZES)
def test_the_same_object_is_encoded_once(size: int) -> None:
    """A line goes to every follower; copying it for each would cost most of the fan-out."""
    payload = bytes(bytearray(b"x" * size))
    encode = SharedEncoder()
    assert encode(payload) is encode(payload)
    assert encode(payload) == text_frame(payload)


def test_an_equal_object_is_another_one() -> None:
    encode = SharedEncoder()
    one, two = b"x" * 200, bytes(bytearray(b"x" * 200))
    assert encode(one) == encode(two)
    assert encode(b"y" * 200) == text_frame(b"y" * 200)


def test_a_row_is_the_frames_of_its_events_made_once_for_everybody() -> None:
    encoder = SharedEncoder()
    row = [(b"a", live(1)), (b"b" * 200, live(2)), (b"c" * 70_000, live(3))]
    made = encoder.row(row)
    assert made == b"".join(text_frame(payload) for payload, _ in row)
    assert encoder.row(row) is made
    assert encoder.row(list(row)) is not made
