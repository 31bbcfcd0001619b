"""The frames of the browser relay: what is read of a command and a result, and what we write.

Everything that is not read here stays the bytes it came in.
"""

from typing import Final

import msgspec

STATUS_SCHEMA: Final = 1
"""The version of the status frame's own schema, which is not the binding's."""

DEFAULT_TIMEOUT: Final = 30.0
LONGEST_TIMEOUT: Final = 600.0
"""A command that asks for more gets this: a browser that never answers must not be kept for it."""
MARGIN: Final = 5.0
"""On top of a command's own timeout, for the way there and back."""


class BadCommand(ValueError):
    """The command can't be run. The message says why, for whoever sent it."""


class BrowserCommand(msgspec.Struct, frozen=True):
    """What decides about a command. The rest is between its sender and the extension."""

    id: str
    action: str
    timeout_ms: float | None = None

    @property
    def longest(self) -> float:
        """The seconds from its arrival to its result, waiting for its turn included."""
        asked = self.timeout_ms
        seconds = DEFAULT_TIMEOUT if asked is None or asked <= 0 else asked / 1000
        return min(seconds, LONGEST_TIMEOUT) + MARGIN


class _Type(msgspec.Struct, frozen=True):
    type: str


class _Id(msgspec.Struct, frozen=True):
    id: str


_type = msgspec.json.Decoder(_Type)
_id = msgspec.json.Decoder(_Id)
_command = msgspec.json.Decoder(BrowserCommand)


def frame_type(frame: bytes) -> str | None:
    """`browser_command`, `browser_result`, or None for a frame that the relay does not claim."""
    if b'"browser_' not in frame:
        return None
    try:
        found = _type.decode(frame).type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if found in ("browser_command", "browser_result") else None


def frame_id(frame: bytes) -> str | None:
    """The id of a command or a result, if it has one that is text."""
    try:
        return _id.decode(frame).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def parse_command(frame: bytes) -> BrowserCommand:
    """Raises BadCommand."""
    try:
        return _command.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        reason = str(exc).replace("`", "").replace("$.", "")
        raise BadCommand(f"browser_command: {reason}") from exc


def status(*, connected: bool, extension_version: str | None = None) -> bytes:
    """Whether an extension is there, for every client that is none."""
    told: dict[str, object] = {"type": "browser_extension_status", "connected": connected}
    if connected and extension_version is not None:
        told["extension_version"] = extension_version
    return msgspec.json.encode({**told, "protocol_version": STATUS_SCHEMA})
