"""What somebody who connects is told first: the thread as it is now, in the protocol's order. Pure.

The registry answers an open with the worker's own lines, the snapshot of the messages first. On
this transport a stream begins with a RUN_STARTED, the state comes before the messages, and what is
open is opened again behind them. A thread on which nothing runs is told as its last run, restated.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from agui.stream.events import PROTOCOL_VERSION, encode
from sessions.domain.lines import peek

_STATE = ("STATE_SNAPSHOT", "STATE_DELTA")


class _LastRun(msgspec.Struct, rename="camel"):
    run_id: str | None = None


class _Known(msgspec.Struct, rename="camel"):
    state: Raw = Raw(b"null")
    last_run: Raw = Raw(b"null")


class _CommandResult(msgspec.Struct):
    success: bool = False
    data: Raw = Raw(b"{}")


_command_result = msgspec.json.Decoder(_CommandResult)
_known = msgspec.json.Decoder(_Known)
_last_run = msgspec.json.Decoder(_LastRun)


@dataclass(frozen=True, slots=True)
class Join:
    """What the registry answered to an open: the snapshot line, and the lines behind it."""

    snapshot: bytes
    behind: Sequence[bytes]

    @property
    def is_running(self) -> bool:
        return bool(self.behind) and peek(self.behind[0]).type == "RUN_STARTED"

    def of_open_run(self) -> list[bytes]:
        """The lines of an open run, in the order of this transport."""
        started, *rest = self.behind
        state = [line for line in rest if peek(line).type in _STATE]
        others = [line for line in rest if peek(line).type not in _STATE]
        return [started, *state, self.snapshot, *others]

    def restated(self, thread_id: str, run_id: str, state: bytes | None) -> list[bytes]:
        """A thread on which nothing runs. `state` is the result of `get_state`, if one was asked.

        The id stands for the run of a thread that never had one.
        """
        found = _known.decode(_data(state))
        terminal = self.behind[0] if self.behind else bytes(found.last_run)
        if terminal == b"null":
            terminal = encode({"type": "RUN_FINISHED", "threadId": thread_id, "runId": run_id})
        started = {
            "type": "RUN_STARTED",
            "threadId": thread_id,
            "runId": _run_id_of(terminal) or run_id,
            "protocolVersion": PROTOCOL_VERSION,
        }
        lines = [encode(started)]
        if bytes(found.state) != b"null":
            lines.append(encode({"type": "STATE_SNAPSHOT", "snapshot": found.state}))
        return [*lines, self.snapshot, terminal]


def _run_id_of(terminal: bytes) -> str | None:
    """None: it can't be read, which the guard will say."""
    try:
        return _last_run.decode(terminal).run_id
    except msgspec.ValidationError:
        return None


def knows_run(result: bytes) -> bool:
    """What `find_run` answered."""
    return _find_run.decode(_data(result)).known


class _FindRun(msgspec.Struct):
    known: bool = False


_find_run = msgspec.json.Decoder(_FindRun)


def _data(result: bytes | None) -> bytes:
    """The data of a command's result; an empty object when there is none."""
    if result is None:
        return b"{}"
    found = _command_result.decode(result)
    return bytes(found.data) if found.success else b"{}"
