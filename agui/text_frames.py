"""Text frames of the WebSocket protocol as a server writes them: unmasked, whole, uncompressed."""

from collections.abc import Sequence
from dataclasses import dataclass

from sessions.domain.keys import Cursor

_TEXT_AND_FINAL = 0x81


def text_frame(payload: bytes) -> bytes:
    """One whole text frame. The payload must be UTF-8; that is checked where lines come in."""
    size = len(payload)
    if size < 126:
        return bytes((_TEXT_AND_FINAL, size)) + payload
    if size < 2**16:
        return bytes((_TEXT_AND_FINAL, 126)) + size.to_bytes(2, "big") + payload
    return bytes((_TEXT_AND_FINAL, 127)) + size.to_bytes(8, "big") + payload


@dataclass(slots=True)
class SharedEncoder:
    """Encodes a payload once for all the clients that get the same object one after the other.

    It keeps the payload it last saw, so an identity can't be that of a newer object.
    """

    _payload: bytes = b""
    _frame: bytes = b"\x81\x00"
    _row: Sequence[tuple[bytes, Cursor]] = ()
    _row_frames: bytes = b""

    def __call__(self, payload: bytes) -> bytes:
        if payload is not self._payload:
            self._frame = text_frame(payload)
            self._payload = payload
        return self._frame

    def row(self, events: Sequence[tuple[bytes, Cursor]]) -> bytes:
        """The frames of events in a row, one after the other."""
        if events is not self._row:
            self._row_frames = b"".join([text_frame(payload) for payload, _ in events])
            self._row = events
        return self._row_frames
