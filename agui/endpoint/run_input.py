"""The body of a request: a `RunAgentInput`, checked, and what of it goes on to the worker. Pure.

Members that the protocol does not know are left aside; a wrong value of one that it knows is
refused with its path. What a worker is given is what came, byte for byte, message by message.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from agui.endpoint.refusal import Refused, bad_value
from agui.stream.events import (
    AnyMessage,
    AssistantMessage,
    BadEvent,
    Context,
    ResumeEntry,
    Tool,
    ToolMessage,
    UserMessage,
    encode,
    read_messages,
)

_OWN_RUN = "roost.own_run"


class _Body(msgspec.Struct, rename="camel"):
    thread_id: str
    run_id: str
    messages: list[Raw]
    protocol_version: str | None = None
    parent_run_id: str | None = None
    state: Raw = Raw(b"null")
    tools: list[Tool] | None = None
    context: list[Context] | None = None
    forwarded_props: Raw = Raw(b"null")
    resume: list[ResumeEntry] | None = None


class _Props(msgspec.Struct):
    project_dir: str | None = None


class _SnapshotMessage(msgspec.Struct, rename="camel"):
    id: str
    role: str
    tool_call_id: str | None = None


class _Snapshot(msgspec.Struct):
    messages: list[Raw] = []


_body = msgspec.json.Decoder(_Body)
_props = msgspec.json.Decoder(_Props)
_object = msgspec.json.Decoder(dict[str, Raw])
_snapshot = msgspec.json.Decoder(_Snapshot)
_snapshot_message = msgspec.json.Decoder(_SnapshotMessage)


@dataclass(frozen=True, slots=True)
class RunInput:
    """An input that fits the protocol."""

    body: _Body
    messages: tuple[AnyMessage, ...]
    project_dir: str | None

    @property
    def thread_id(self) -> str:
        return self.body.thread_id

    @property
    def run_id(self) -> str:
        return self.body.run_id

    @property
    def protocol_version(self) -> str | None:
        return self.body.protocol_version

    @property
    def answered(self) -> frozenset[str]:
        """The interrupts that it answers."""
        return frozenset(entry.interrupt_id for entry in self.body.resume or ())

    def frame(self, snapshot: bytes, *, own_run: bool) -> bytes:
        """The frame for the worker: only with messages that the thread's snapshot does not have.

        `own_run` is for our worker: the input has a run of its own, whatever waits there.
        """
        body = self.body
        props: object = body.forwarded_props
        if own_run:
            props = {**_members(body.forwarded_props), _OWN_RUN: True}
        given: dict[str, object] = {
            "threadId": body.thread_id,
            "runId": body.run_id,
            "messages": new_messages(snapshot, self.messages, body.messages),
            "protocolVersion": body.protocol_version,
            "parentRunId": body.parent_run_id,
            "state": _or_none(body.state),
            "tools": body.tools or [],
            "context": body.context or [],
            "forwardedProps": props,
            "resume": body.resume or None,
        }
        kept = {key: value for key, value in given.items() if value is not None}
        return encode({"type": "run_agent_input", "input": kept})


def read_run_input(content: bytes) -> RunInput:
    """Check a body. Raises Refused that names the path of what is wrong."""
    try:
        body = _body.decode(content)
    except msgspec.ValidationError as exc:
        raise bad_value(exc) from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Refused(400, "bad_json", "The body is not JSON.") from exc
    messages: list[AnyMessage] = []
    for place, raw in enumerate(body.messages):
        try:
            messages += read_messages([raw])
        except BadEvent as exc:
            text = f"messages[{place}]: {exc}"
            raise Refused(400, "bad_input", text, {"path": f"messages[{place}]"}) from exc
    return RunInput(body, tuple(messages), _project_dir(body.forwarded_props))


def new_messages(
    snapshot: bytes, messages: Iterable[AnyMessage], given: Iterable[Raw]
) -> list[Raw]:
    """The user's messages and the results that the thread does not have, in their order.

    A worker whose ids are others in each snapshot can't be compared with: of an input that holds an
    answer nobody knows, only what stands behind the last answer is new.
    """
    held = _held(snapshot)
    known = {message.id for message in held}
    answered = {message.tool_call_id for message in held if message.tool_call_id}
    found: dict[str, None] = {}
    for message in messages:
        if isinstance(message, AssistantMessage) and message.id not in known:
            found.clear()
        is_result = isinstance(message, ToolMessage) and message.tool_call_id not in answered
        if message.id not in known and (is_result or isinstance(message, UserMessage)):
            found[message.id] = None
    # The first of an id counts, as everywhere.
    new = [raw for raw in given if found.pop(_id_of(raw), 0) is None]
    return new


def _held(snapshot: bytes) -> list[_SnapshotMessage]:
    """The messages of a thread, as far as they can be read: any program may have written them."""
    found: list[_SnapshotMessage] = []
    with suppress(msgspec.ValidationError):
        for raw in _snapshot.decode(snapshot).messages:
            with suppress(msgspec.ValidationError):
                found.append(_snapshot_message.decode(raw))
    return found


class _WithId(msgspec.Struct):
    id: str


_with_id = msgspec.json.Decoder(_WithId)


def _id_of(raw: Raw) -> str:
    return _with_id.decode(raw).id


def _project_dir(props: Raw) -> str | None:
    if not bytes(props).startswith(b"{"):
        return None
    try:
        return _props.decode(props).project_dir
    except msgspec.ValidationError as exc:
        raise bad_value(exc, "forwardedProps") from exc
    except msgspec.DecodeError as exc:
        raise Refused(400, "bad_json", "forwardedProps: it can't be read.") from exc


def _members(props: Raw) -> dict[str, Raw]:
    """Properties that are no object can't be told from ours: they go under a name."""
    content = bytes(props)
    if content == b"null":
        return {}
    return _object.decode(props) if content.startswith(b"{") else {"value": props}


def _or_none(value: Raw) -> Raw | None:
    return None if bytes(value) == b"null" else value
