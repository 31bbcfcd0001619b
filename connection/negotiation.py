"""What the two sides may send each other: versions, revisions, capabilities. Pure.

The protocol's version changes with what is incompatible; the schema's revision grows with what is
added. Everything that was added is gated by a revision, a capability or both, and a client checks
the gates before it writes, so an older daemon is never sent what it does not know.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import get_args

import msgspec

from connection.commands import COMMANDS, Command, Gate
from connection.failures import CapabilityUnavailable, HandshakeRefused
from connection.records import (
    PROTOCOL,
    RECORDS,
    VERSION,
    Attached,
    DaemonHello,
    Envelope,
    SnapshotHead,
)
from connection.shapes import SessionState, SessionSummary, WorkerState

REVISION = 2

# What each revision added. Revision 0 is the protocol without any of it.
ADDED: Mapping[int, str] = {
    0: "the protocol itself",
    1: "history windows, prompts that can be taken back, changes of queued messages",
    2: "clients that say what they are, states that say who answered",
}

_OF_0 = frozenset({"attach_snapshot", "event_sequence", "chunked_snapshot"})
_OF_1 = _OF_0 | {"history_window", "prompt_admission_cancellation", "queue_message_mutation"}
SERVER_CAPABILITIES: Mapping[int, frozenset[str]] = {0: _OF_0, 1: _OF_1, 2: _OF_1}
CLIENT_CAPABILITIES = SERVER_CAPABILITIES


@dataclass(frozen=True, slots=True)
class Offer:
    """What the other side has said in its hello."""

    revision: int
    capabilities: frozenset[str]

    def up_to(self, revision: int) -> "Offer":
        """What a client of that revision makes of it: it knows nothing newer."""
        known = SERVER_CAPABILITIES[revision]
        return Offer(min(self.revision, revision), self.capabilities & known)

    def missing(self, gate: Gate) -> str | None:
        """What the gate wants and the other side has not, in a word."""
        if gate.capability is not None and gate.capability not in self.capabilities:
            return gate.capability
        if gate.revision > self.revision:
            return gate.capability or f"schema revision {gate.revision}"
        return None

    def check(
        self, name: str, fields: Iterable[str] = (), *, after_reconnect: bool = False
    ) -> None:
        """Whether a command with these fields may be sent. Raises CapabilityUnavailable."""
        command = COMMANDS[name]
        for gate in (
            command.gate,
            *(command.field_gates[f] for f in fields if _is_gated(command, f)),
        ):
            if (lacking := self.missing(gate)) is not None:
                raise CapabilityUnavailable(lacking, after_reconnect=after_reconnect)

    def without_unknown(self, name: str, fields: Mapping[str, object]) -> dict[str, object]:
        """The fields that may be sent. For fields that are a wish, such as a window."""
        gates = COMMANDS[name].field_gates
        return {
            field: value
            for field, value in fields.items()
            if field not in gates or self.missing(gates[field]) is None
        }


def offer_of(hello: DaemonHello) -> Offer:
    """Whether we can talk to this daemon, and what it offers. Raises HandshakeRefused."""
    told = hello.protocol
    if told.name != PROTOCOL or told.version != VERSION:
        raise HandshakeRefused(
            f"the daemon (roost {hello.app_version}, pid {hello.pid}) speaks"
            f" {told.name or 'another protocol'} version {told.version}, and this program version"
            f" {VERSION}: stop it with `roost stop` and start one of this version"
        )
    return Offer(hello.schema_revision, frozenset(hello.server_capabilities))


def proved(requested: Iterable[str], echoed: Iterable[str], offer: Offer) -> frozenset[str]:
    """The capabilities that an attach proved. Raises HandshakeRefused for an echo that is none."""
    asked, told = set(requested), list(echoed)
    if len(told) != len(set(told)) or not set(told) <= asked:
        raise HandshakeRefused("invalid attached client capability proof")
    return frozenset(told) & offer.capabilities


def _is_gated(command: Command, field: str) -> bool:
    return field in command.field_gates


def schema_id(shapes: bytes) -> str:
    """Names the wire shapes: a test fails when they change and the revision does not."""
    digest = hashlib.sha256(shapes).hexdigest()[:12]
    return f"protocol-{VERSION}-schema-{REVISION}-{digest}"


def shapes_of(kinds: Iterable[type[msgspec.Struct]]) -> bytes:
    """All that is sent, down to the last value in it, in a form that changes when it does."""
    records: dict[str, list[tuple[str, str, bool]]] = {}
    waiting: list[object] = [*kinds]
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if not isinstance(kind, type) or not issubclass(kind, msgspec.Struct):
            continue
        if kind.__name__ not in records:
            fields = msgspec.structs.fields(kind)
            records[kind.__name__] = [(f.encode_name, str(f.type), f.required) for f in fields]
            waiting += [field.type for field in fields]
    commands = {
        name: (c.kind, dict(c.fields), str(c.gate), {k: str(v) for k, v in c.field_gates.items()})
        for name, c in COMMANDS.items()
    }
    return msgspec.json.encode((records, commands), order="sorted")


SHAPES: tuple[type[msgspec.Struct], ...] = (
    Envelope,
    Attached,
    SnapshotHead,
    SessionState,
    WorkerState,
    SessionSummary,
    *RECORDS,
)
SCHEMA_ID = schema_id(shapes_of(SHAPES))
