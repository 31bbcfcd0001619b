"""What leaves over HTTP is a stream that every AG-UI client accepts, whatever the worker writes.

Rules for editing: the guard repairs by ending, and only so. A run whose worker breaks a rule ends
with one RUN_ERROR, and the rest of it is dropped; nothing is ever made up to look like a success.
The one exception is a deliberate cancel: what is open then is closed first, in order. Each check
stands for a rule that the published client enforces, or that its specification states.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from agui.stream.documents import Documents
from agui.stream.events import (
    PROTOCOL_VERSION,
    ActivityDelta,
    ActivityMessage,
    ActivitySnapshot,
    AnyEvent,
    AnyMessage,
    AssistantMessage,
    Cancelled,
    Interrupted,
    MessagesSnapshot,
    ReasoningEncryptedValue,
    ReasoningEnd,
    ReasoningMessage,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    RunError,
    RunFinished,
    RunStarted,
    StateDelta,
    StateSnapshot,
    StepFinished,
    StepStarted,
    SubagentError,
    SubagentFinished,
    SubagentStarted,
    Success,
    Tagged,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
    ToolMessage,
    Usage,
    read_messages,
)
from agui.stream.json_patch import BadPatch

_ABOUT_RUNS = frozenset({RunStarted, RunFinished, RunError})
_NO_TEXT = (ActivityMessage, ReasoningMessage, ToolMessage)

Owner = str | UnsetType
"""A subagent, or UNSET for the agent itself."""
BAD_STREAM = "bad_worker_stream"


class Violation(ValueError):
    """The event would break a rule of the protocol. The message says which."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What was said of a message or a call, which a reopening has to repeat."""

    kind: str
    about: tuple[object, ...] = ()


@dataclass(slots=True)
class _Run:
    """One run, from its start to its end."""

    run_id: str
    open: dict[tuple[str, object], AnyEvent] = field(
        default_factory=dict[tuple[str, object], AnyEvent]
    )
    """The openers of what is open, by kind and id, in their order."""
    owners: dict[tuple[str, str], Owner] = field(default_factory=dict[tuple[str, str], Owner])
    subagents: set[str] = field(default_factory=set[str])
    tags: set[str] = field(default_factory=set[str])
    calls: dict[str, bool] = field(default_factory=dict[str, bool])
    """The calls of this run, and whether each was answered."""


@dataclass(slots=True)
class StreamGuard:
    """One stream of one thread. `take` events; `fail` when something else ends it."""

    thread_id: str
    documents: Documents = field(default_factory=Documents)
    is_joiner: bool = False
    """The client came in the middle of a run: it was not told of everything in it."""
    is_midway: bool = False
    """The client saw the run begin on another stream: what opened there is taken on trust."""
    dropped: int = 0
    """Events that were no part of a run."""
    violation: str | None = None
    """The last rule that was broken, for the log."""
    _run: _Run | None = None
    _run_ids: set[str] = field(default_factory=set[str])
    _known: dict[tuple[str, str], _Known] = field(default_factory=dict[tuple[str, str], _Known])

    @property
    def is_open(self) -> bool:
        """A run has begun and has not ended."""
        return self._run is not None

    def know(self, messages: list[AnyMessage]) -> None:
        """The client has these messages already."""
        for message in messages:
            self._note_message(message)

    def begin_midway(self) -> None:
        """What follows belongs to a run whose beginning the client saw on another stream."""
        self.is_midway = self.is_joiner = True
        self._run = _Run("")

    def take(self, event: AnyEvent) -> list[AnyEvent]:
        """What may leave of it, in order: itself, mostly."""
        run = self._run
        kind = type(event)
        try:
            if kind in _ABOUT_RUNS:
                return self._about_run(run, event)
            if run is None:
                self.dropped += 1
                return []
            if isinstance(event, Tagged) and event.subagent_run_id is not UNSET:
                run.tags.add(event.subagent_run_id)
            check = self._CHECKS.get(kind)
            if check is not None and check(self, run, event) is False:
                self.dropped += 1
                return []
        except (Violation, BadPatch) as exc:
            return self.fail(str(exc))
        return [event]

    def fail(self, reason: str, code: str = BAD_STREAM) -> list[AnyEvent]:
        """End the open run with an error that says why; nothing when none is open."""
        self.violation = reason
        if self._run is None:
            return []
        self._end()
        text = f"the worker's events broke off: {reason}. What it did is in the conversation"
        return [RunError(message=text, code=code)]

    # Runs

    def _about_run(self, run: _Run | None, event: AnyEvent) -> list[AnyEvent]:
        match event:
            case RunStarted():
                return self._start(event)
            case RunFinished() if run is not None:
                return self._finish(run, event)
            case RunError() if run is not None:
                self._end()
                return [msgspec.structs.replace(event, usage=_sound(event.usage))]
            case _:
                self.dropped += 1
                return []

    def _start(self, event: RunStarted) -> list[AnyEvent]:
        before = self.fail("a run began inside a run") if self._run else []
        if event.run_id in self._run_ids:
            # Nothing may be said of it: its id stands for another run of this stream.
            self.dropped += 1
            return before
        self._run_ids.add(event.run_id)
        self._run = _Run(event.run_id)
        echo = event.input
        if echo is not UNSET:
            echo = msgspec.structs.replace(
                echo, thread_id=self.thread_id, run_id=event.run_id, protocol_version=UNSET
            )
            for message in read_messages(echo.messages):
                self._note_message(message)
                self._own_message(self._run, message, restated=False)
        started = msgspec.structs.replace(
            event, thread_id=self.thread_id, protocol_version=PROTOCOL_VERSION, input=echo
        )
        return [*before, started]

    def _finish(self, run: _Run, event: RunFinished) -> list[AnyEvent]:
        if event.run_id != run.run_id and not self.is_midway:
            raise Violation("a run ended under another id than it began with")
        if isinstance(event.outcome, Cancelled):
            closing = [_closing(opener) for opener in reversed(run.open.values())]
            self._end()
            # What was stopped on purpose has no result.
            event = msgspec.structs.replace(event, result=UNSET, usage=_sound(event.usage))
            return [*closing, msgspec.structs.replace(event, thread_id=self.thread_id)]
        if run.open:
            raise Violation("a run ended while something in it was still open")
        self._check_outcome(run, event)
        self._end()
        event = msgspec.structs.replace(event, usage=_sound(event.usage))
        return [msgspec.structs.replace(event, thread_id=self.thread_id)]

    def _check_outcome(self, run: _Run, event: RunFinished) -> None:
        match event.outcome:
            case Interrupted(interrupts=interrupts):
                ids = {interrupt.id for interrupt in interrupts}
                if not ids or len(ids) < len(interrupts):
                    raise Violation("a run asks for nothing, or twice under one id")
            case Success(pending_tool_call_ids=list() as pending) if pending:
                if not self.is_midway and pending != [
                    c for c, done in run.calls.items() if not done
                ]:
                    raise Violation("a run names other calls as unanswered than are")
            case _:
                pass

    def _end(self) -> None:
        self._run = None
        self.is_midway = False

    # Items

    def _open(self, run: _Run, kind: str, key: object, event: AnyEvent) -> None:
        if (kind, key) in run.open:
            raise Violation(f"a {kind} began that is open already")
        run.open[kind, key] = event

    def _check_open(self, run: _Run, kind: str, key: object) -> None:
        if (kind, key) not in run.open and not self.is_midway:
            raise Violation(f"a {kind} went on that is not open")

    def _close(self, run: _Run, kind: str, key: object) -> None:
        self._check_open(run, kind, key)
        run.open.pop((kind, key), None)

    def _message_start(self, run: _Run, event: TextMessageStart) -> None:
        _check_owner(run, "message", event.message_id, event.subagent_run_id)
        role = "assistant" if event.role is UNSET else event.role
        self._reopen("message", event.message_id, _Known("text", (role, event.name)))
        self._open(run, "message", event.message_id, event)
        run.owners.setdefault(("message", event.message_id), event.subagent_run_id)

    def _message_content(self, run: _Run, event: TextMessageContent) -> None:
        self._check_open(run, "message", event.message_id)
        _check_owner(run, "message", event.message_id, event.subagent_run_id)

    def _message_end(self, run: _Run, event: TextMessageEnd) -> None:
        _check_owner(run, "message", event.message_id, event.subagent_run_id)
        self._close(run, "message", event.message_id)

    def _call_start(self, run: _Run, event: ToolCallStart) -> None:
        owner = event.subagent_run_id
        key = ("call", event.tool_call_id)
        parent = event.parent_message_id
        inherited: Owner = UNSET
        has_parent = parent is not UNSET and ("message", parent) in run.owners
        if parent is not UNSET and has_parent:
            inherited = run.owners["message", parent]
            if owner is not UNSET and owner != inherited:
                raise Violation("a call belongs to another subagent than its message")
        _check_owner(run, *key, owner)
        if key in run.owners and owner is UNSET and has_parent and inherited != run.owners[key]:
            raise Violation("a call belongs to another subagent than its message")
        self._reopen("call", event.tool_call_id, _Known("call", (event.tool_call_name, parent)))
        self._open(run, "call", event.tool_call_id, event)
        # Where it is in no message yet, clients make one for it.
        holder = event.tool_call_id if parent is UNSET else parent
        self._reopen("message", holder, _Known("text", ("assistant",)))
        run.owners.setdefault(key, owner if owner is not UNSET else inherited)
        run.calls.setdefault(event.tool_call_id, False)

    def _call_args(self, run: _Run, event: ToolCallArgs) -> None:
        self._check_open(run, "call", event.tool_call_id)
        _check_owner(run, "call", event.tool_call_id, event.subagent_run_id)

    def _call_end(self, run: _Run, event: ToolCallEnd) -> None:
        _check_owner(run, "call", event.tool_call_id, event.subagent_run_id)
        self._close(run, "call", event.tool_call_id)

    def _call_result(self, run: _Run, event: ToolCallResult) -> None:
        if ("message", event.message_id) in self._known:
            raise Violation("a result has the id of another message")
        self._known["message", event.message_id] = _Known("tool")
        run.owners["message", event.message_id] = event.subagent_run_id
        if event.tool_call_id in run.calls:
            run.calls[event.tool_call_id] = True

    def _span_start(self, run: _Run, event: ReasoningStart) -> None:
        _check_owner(run, "reasoning", event.message_id, event.subagent_run_id)
        self._open(run, "span", event.message_id, event)
        run.owners.setdefault(("reasoning", event.message_id), event.subagent_run_id)

    def _span_end(self, run: _Run, event: ReasoningEnd) -> None:
        _check_owner(run, "reasoning", event.message_id, event.subagent_run_id)
        self._close(run, "span", event.message_id)

    def _reasoning_start(self, run: _Run, event: ReasoningMessageStart) -> None:
        _check_owner(run, "reasoning", event.message_id, event.subagent_run_id)
        self._reopen("message", event.message_id, _Known("reasoning"))
        self._open(run, "reasoning", event.message_id, event)
        run.owners.setdefault(("reasoning", event.message_id), event.subagent_run_id)

    def _reasoning_content(self, run: _Run, event: ReasoningMessageContent) -> None:
        self._check_open(run, "reasoning", event.message_id)
        _check_owner(run, "reasoning", event.message_id, event.subagent_run_id)

    def _reasoning_end(self, run: _Run, event: ReasoningMessageEnd) -> None:
        _check_owner(run, "reasoning", event.message_id, event.subagent_run_id)
        self._close(run, "reasoning", event.message_id)

    def _encrypted(self, run: _Run, event: ReasoningEncryptedValue) -> bool:
        """Whether there is something it belongs to; clients drop one that has nothing."""
        space = "call" if event.subtype == "tool-call" else "message"
        if (space, event.entity_id) not in self._known:
            return False
        if event.subtype == "tool-call":
            _check_owner(run, "call", event.entity_id, event.subagent_run_id)
        elif ("message", event.entity_id) in run.owners:
            _check_owner(run, "message", event.entity_id, event.subagent_run_id)
        else:
            _check_owner(run, "reasoning", event.entity_id, event.subagent_run_id)
        return True

    def _step_start(self, run: _Run, event: StepStarted) -> None:
        self._open(run, "step", (event.subagent_run_id, event.step_name), event)

    def _step_end(self, run: _Run, event: StepFinished) -> None:
        self._close(run, "step", (event.subagent_run_id, event.step_name))

    def _subagent_start(self, run: _Run, event: SubagentStarted) -> None:
        name, parent = event.subagent_run_id, event.parent_subagent_run_id
        if name in run.subagents:
            raise Violation("a subagent began twice")
        if name in run.tags:
            raise Violation("a subagent was announced behind its own events")
        if parent is not UNSET and parent not in run.subagents and not self.is_midway:
            raise Violation("a subagent's parent was not announced")
        self._open(run, "subagent", name, event)
        run.subagents.add(name)

    def _subagent_end(self, run: _Run, event: SubagentFinished | SubagentError) -> None:
        self._close(run, "subagent", event.subagent_run_id)

    # Documents and messages

    def _state(self, run: _Run, event: StateSnapshot) -> None:
        self.documents.set_state(event.snapshot)

    def _state_patch(self, run: _Run, event: StateDelta) -> None:
        self.documents.patch_state(event.delta)

    def _activity(self, run: _Run, event: ActivitySnapshot) -> None:
        self._reopen("message", event.message_id, _Known("activity"))
        replaces = event.replace is not False
        is_new = self.documents.set_activity(event.message_id, event.content, replaces=replaces)
        if is_new or replaces:
            run.owners["activity", event.message_id] = event.subagent_run_id

    def _activity_patch(self, run: _Run, event: ActivityDelta) -> None:
        _check_owner(run, "activity", event.message_id, event.subagent_run_id)
        if self.is_midway and not self.documents.has_activity(event.message_id):
            return
        self.documents.patch_activity(event.message_id, event.patch)

    def _messages(self, run: _Run, event: MessagesSnapshot) -> None:
        messages = read_messages(event.messages)
        _check_holds_open(run, messages)
        activities = {m.id for m in messages if isinstance(m, ActivityMessage)}
        if activities:
            self.documents.keep_activities(activities)
        for message in messages:
            self._note_message(message)
            self._own_message(run, message, restated=True)

    def _note_message(self, message: AnyMessage) -> None:
        match message:
            case ActivityMessage():
                self.documents.set_activity(message.id, message.content, replaces=True)
            case AssistantMessage(tool_calls=list() as calls):
                for call in calls:
                    # Which message a call was said to be in at first is not in a snapshot.
                    self._known.setdefault(("call", call.id), _Known("call"))
            case _:
                pass
        role = str(message.__struct_config__.tag)
        is_streamed = role in ("assistant", "user", "developer", "system")
        known = _Known("text", (role,)) if is_streamed else _Known(role)
        self._known.setdefault(("message", message.id), known)

    def _own_message(self, run: _Run, message: AnyMessage, *, restated: bool) -> None:
        role = str(message.__struct_config__.tag)
        kind = role if role in ("reasoning", "activity") else "message"
        owned = {(kind, message.id): message.subagent_run_id}
        if isinstance(message, AssistantMessage) and message.tool_calls is not UNSET:
            for call in message.tool_calls:
                owned["call", call.id] = message.subagent_run_id
        for key, owner in owned.items():
            if restated or key not in run.owners:
                run.owners[key] = owner

    def _reopen(self, space: str, name: str, said: _Known) -> None:
        """An id that was used before must stand for the same thing."""
        known = self._known.setdefault((space, name), said)
        # Of what a snapshot tells, less is known: only that much is compared.
        if known.kind != said.kind or any(
            one != other for one, other in zip(known.about, said.about, strict=False)
        ):
            raise Violation("an id was used again for something else")

    _CHECKS: ClassVar[dict[type, Callable[..., bool | None]]] = {
        TextMessageStart: _message_start,
        TextMessageContent: _message_content,
        TextMessageEnd: _message_end,
        ToolCallStart: _call_start,
        ToolCallArgs: _call_args,
        ToolCallEnd: _call_end,
        ToolCallResult: _call_result,
        ReasoningStart: _span_start,
        ReasoningEnd: _span_end,
        ReasoningMessageStart: _reasoning_start,
        ReasoningMessageContent: _reasoning_content,
        ReasoningMessageEnd: _reasoning_end,
        ReasoningEncryptedValue: _encrypted,
        StepStarted: _step_start,
        StepFinished: _step_end,
        SubagentStarted: _subagent_start,
        SubagentFinished: _subagent_end,
        SubagentError: _subagent_end,
        StateSnapshot: _state,
        StateDelta: _state_patch,
        ActivitySnapshot: _activity,
        ActivityDelta: _activity_patch,
        MessagesSnapshot: _messages,
    }
    """What each type has to fulfil; a type that is not here may come at any time in a run. False
    drops the event."""


def _check_owner(run: _Run, kind: str, name: str, tag: Owner) -> None:
    if tag is not UNSET and run.owners.get((kind, name), tag) != tag:
        raise Violation("an event belongs to another subagent than its item")


def _check_holds_open(run: _Run, messages: list[AnyMessage]) -> None:
    """Clients drop what a snapshot leaves out; what goes on behind it would go nowhere."""
    texts = {m.id for m in messages if not isinstance(m, _NO_TEXT)}
    thoughts = {m.id for m in messages if isinstance(m, ReasoningMessage)}
    calls = {
        call.id
        for m in messages
        if isinstance(m, AssistantMessage) and m.tool_calls is not UNSET
        for call in m.tool_calls
    }
    held = {"message": texts, "call": calls, "reasoning": thoughts}
    for kind, name in run.open:
        # Without any reasoning in it, a snapshot leaves the client's as it is.
        if kind in held and name not in held[kind] and (kind != "reasoning" or thoughts):
            raise Violation("a snapshot leaves out what is still open")


def _closing(opener: AnyEvent) -> AnyEvent:
    """The end of what is open when a run is cancelled."""
    match opener:
        case TextMessageStart():
            end: AnyEvent = TextMessageEnd(message_id=opener.message_id)
        case ToolCallStart():
            end = ToolCallEnd(tool_call_id=opener.tool_call_id)
        case ReasoningStart():
            end = ReasoningEnd(message_id=opener.message_id)
        case ReasoningMessageStart():
            end = ReasoningMessageEnd(message_id=opener.message_id)
        case StepStarted():
            # A step is the one item whose end must repeat whose it is.
            end = StepFinished(step_name=opener.step_name, subagent_run_id=opener.subagent_run_id)
        case SubagentStarted():
            end = SubagentError(subagent_run_id=opener.subagent_run_id, message="cancelled")
        case _:
            raise AssertionError(f"{opener} opens nothing")
    return end


def _sound(usage: list[Usage] | UnsetType) -> list[Usage] | UnsetType:
    """The entries whose numbers agree with each other: a wrong number is worse than none."""
    if usage is UNSET:
        return UNSET
    return [entry for entry in usage if _adds_up(entry)] or UNSET


def _adds_up(usage: Usage) -> bool:
    given, taken, total = usage.input_tokens, usage.output_tokens, usage.total_tokens
    if given is not UNSET:
        cached = [usage.cached_input_tokens, usage.cache_write_input_tokens]
        if sum(part for part in cached if part is not UNSET) > given:
            return False
    if (
        taken is not UNSET
        and usage.reasoning_tokens is not UNSET
        and usage.reasoning_tokens > taken
    ):
        return False
    return given is UNSET or taken is UNSET or total is UNSET or total == given + taken
