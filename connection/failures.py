"""What the operations of AgentConnection raise. Messages are for people; codes are for programs.

    ConnectionFailure
    ├── CapabilityUnavailable   the other side does not offer this; nothing was sent
    ├── CommandRefused          it was understood and not done; `code` says why
    │   ├── UnknownSession      no session goes by this selector
    │   ├── AmbiguousSession    several do; the message lists them
    │   ├── ResultUncertain     it was received once and has no result: it may have happened
    │   └── AdmissionFailed     a prompt was not admitted; `status` says what became of it
    ├── Disconnected            the connection ended before the answer came
    ├── RequestTimedOut         no answer came in time
    ├── HandshakeRefused        the other side is no daemon that we can talk to
    └── BrokenProtocol          the other side said what the protocol does not allow

What a caller did wrong (an empty text, say) is a ValueError.
"""

from typing import Literal

AdmissionStatus = Literal["cancelled", "owned", "unknown", "unsupported"]


class ConnectionFailure(Exception):
    """Base of what the operations raise."""


class CapabilityUnavailable(ConnectionFailure):
    """The other side does not offer this. Nothing was sent, and nothing was done."""

    def __init__(self, capability: str, *, after_reconnect: bool = False) -> None:
        where = "the daemon that came back does not offer" if after_reconnect else "not offered:"
        super().__init__(f"{where} {capability}; nothing was done")
        self.capability = capability
        self.after_reconnect = after_reconnect


class CommandRefused(ConnectionFailure):
    """It was understood and not done."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class UnknownSession(CommandRefused):
    """No session goes by this selector."""


class AmbiguousSession(CommandRefused):
    """Several sessions go by this selector. The message lists them."""


class ResultUncertain(CommandRefused):
    """The command was received once and has no result: it may have happened. Look before you
    repeat it."""


class AdmissionFailed(CommandRefused):
    """A prompt was not admitted. Only `cancelled` is safe to send again as a new prompt."""

    def __init__(self, status: AdmissionStatus, message: str) -> None:
        super().__init__(f"admission_{status}", message)
        self.status: AdmissionStatus = status


class Disconnected(ConnectionFailure):
    """The connection ended before the answer came. What was asked may have happened."""


class RequestTimedOut(ConnectionFailure):
    """No answer came in time. What was asked may still happen."""


class HandshakeRefused(ConnectionFailure):
    """The other side is no daemon that we can talk to. The message says what it is."""


class BrokenProtocol(ConnectionFailure):
    """The other side said what the protocol does not allow."""


_BY_CODE: dict[str, type[CommandRefused]] = {
    "unknown_session": UnknownSession,
    "ambiguous_session": AmbiguousSession,
    "command_result_uncertain": ResultUncertain,
}


def refused(code: str, message: str) -> CommandRefused:
    """The typed error of a code that came over the wire."""
    return _BY_CODE.get(code, CommandRefused)(code, message)
