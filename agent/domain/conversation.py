"""What a conversation is now: its entries, folded one by one.

It decides what a resume answers, which message is new, which runs were seen, what an earlier
process left open, and what of that is uncertain. It writes nothing and knows no clock: the caller
records an entry first and applies it then, so that memory is never ahead of the disk.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields

from agent.domain.entries import (
    Accepted,
    Begun,
    Called,
    CallRuns,
    CallStarted,
    ChildChanged,
    ChildOpened,
    Choice,
    Chosen,
    Compacted,
    Entry,
    JobEnded,
    JobStarted,
    Labelled,
    Named,
    Navigated,
    Partial,
    QueueDeleted,
    QueueEdited,
    QueueMoved,
    Responded,
    Resulted,
    RunEnded,
    RunOpened,
    Said,
    StateSet,
    Taken,
    ToolAnswered,
    ToolRequested,
    branch,
)
from agent.domain.events import Interrupt, Outcome, RunError, RunFinished
from agent.domain.lineage import ChildThread, Lineage
from agent.domain.messages import NOTICE, ToolCall
from agent.domain.queue import Lane, Queue, Waiting
from agent.domain.transcript import Transcript


@dataclass(frozen=True, slots=True)
class Answer:
    """One entry of a resume: the decision on one interrupt."""

    interrupt_id: str
    approved: bool
    reason: str | None = None
    payload: object = None


@dataclass(slots=True)
class ModelUsage:
    """Tokens of one model over the whole conversation."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cost: float | None = None
    """In US dollars, of what has a known price."""


@dataclass(slots=True)
class CallRecord:
    """A call that a model wanted. `started_at` is set when its effect may have begun."""

    call: ToolCall
    started_at: str | None = None
    process: CallRuns | None = None
    answered: bool = False


@dataclass(slots=True)
class KnownChild:
    """A subagent that was opened from here, as far as the history knows."""

    thread: ChildThread
    opened_at: str
    at_work: bool = True
    is_open: bool = True


def no_jobs() -> dict[str, object]:
    """The background of a process that has none."""
    return {"running": 0, "jobs": []}


@dataclass(slots=True)
class Conversation:
    """The folded history of one conversation."""

    conversation_id: str
    transcript: Transcript = field(default_factory=Transcript)
    run_ids: set[str] = field(default_factory=set[str])
    open_run: str | None = None
    suspended: RunEnded | None = None
    last_end: RunEnded | None = None
    app_state: dict[str, object] = field(default_factory=dict[str, object])
    """What the application that sent the last input added to the shared state."""
    given: dict[str, object] = field(default_factory=dict[str, object])
    """What people answered to the questions that the last run goes on with."""
    jobs: dict[str, JobStarted] = field(default_factory=dict[str, JobStarted])
    """What was left running and has not ended, as far as the history knows."""
    background: Callable[[], dict[str, object]] = no_jobs
    """What runs in the background of this very process."""
    children: dict[str, KnownChild] = field(default_factory=dict[str, KnownChild])
    lineage: Lineage | None = None
    """Whose subagent this conversation is."""
    subagents: Callable[[], dict[str, object]] = dict
    """The children of this very process, as the state shows them."""
    is_direct: bool = False
    """Is the last run a person's own shell command?"""
    project_dir: str = ""
    answering: RunEnded | None = None
    """The suspension whose interrupts the open run answers."""
    decided: dict[str, bool] = field(default_factory=dict[str, bool])
    """What a person decided on each of them."""
    queue: Queue = field(default_factory=Queue)
    calls: dict[str, CallRecord] = field(default_factory=dict[str, CallRecord])
    responses: dict[str, Responded] = field(default_factory=dict[str, Responded])
    todos: list[object] = field(default_factory=list[object])
    usage: dict[str, ModelUsage] = field(default_factory=dict[str, ModelUsage])
    name: Named | None = None
    compacted: Compacted | None = None
    """The last summary that a model reads in place of what was said before it."""
    choices: dict[Choice, str | None] = field(default_factory=dict[Choice, str | None])
    chosen_in: dict[Choice, str] = field(default_factory=dict[Choice, str])
    """The id of the entry that made each choice: the same choice again is another one."""
    """What was chosen last, by a person or with a launch."""
    launched_with: dict[Choice, str | None] = field(default_factory=dict[Choice, str | None])
    """What the last launch that said anything said."""
    is_mode_new: bool = True
    """Was the mode chosen since a notice told of it?"""
    servers: Callable[[], list[dict[str, object]]] = list[dict[str, object]]
    """The MCP servers of this very process."""
    _message_ids: set[str] = field(default_factory=set[str])

    def apply(self, entry: Entry) -> None:
        """Take one recorded entry."""
        match entry:
            case Begun(project_dir=project_dir, lineage=lineage):
                self.project_dir = project_dir
                self.lineage = lineage
            case Accepted():
                lane: Lane = "follow_up" if entry.follow_up else "steering"
                self.queue.add(
                    Waiting(message, entry.id, entry.run_id, lane, entry.offer)
                    for message in entry.messages
                )
                self._message_ids.update(message.id for message in entry.messages)
            case Taken(message_ids=message_ids) | QueueDeleted(message_ids=message_ids):
                taken = self.queue.take(message_ids)
                for waiting in taken if isinstance(entry, Taken) else ():
                    self.transcript.put(waiting.message)
            case QueueMoved(message_id=message_id, place=place):
                self.queue.move(message_id, place)
            case QueueEdited(message_id=message_id, text=text, lane=wanted):
                self.queue.edit(message_id, text, wanted)
            case RunOpened():
                self._open(entry)
            case Partial(events=events):
                for event in events:
                    self.transcript.apply(event)
            case Said(message=message):
                self.transcript.put(message)
                self._note_calls(message.tool_calls or ())
                if message.activity_type == NOTICE and "mode" in (message.content or ()):
                    self.is_mode_new = False
            case Called(message_id=message_id, calls=calls):
                self.transcript.put_calls(message_id, calls)
                self._note_calls(calls)
            case Responded():
                for message_id in entry.message_ids:
                    self.responses[message_id] = entry
                self._count(entry)
            case CallStarted(tool_call_id=call_id, at=at):
                if call_id in self.calls:
                    self.calls[call_id].started_at = at
            case CallRuns(tool_call_id=call_id):
                if call_id in self.calls:
                    self.calls[call_id].process = entry
            case Resulted(message=message):
                self.transcript.put(message)
                if message.tool_call_id in self.calls:
                    self.calls[message.tool_call_id].answered = True
            case StateSet(key=key, value=value):
                if key == "todos" and isinstance(value, list):
                    self.todos = list(value)  # pyright: ignore[reportUnknownArgumentType]
            case Chosen():
                self._choose(entry)
            case RunEnded():
                self.open_run, self.answering, self.decided = None, None, {}
                if entry.asked_in is not None:
                    self.run_ids.add(entry.asked_in)
                    entry = RunEnded(
                        run_id=entry.asked_in, outcome="interrupt", interrupts=entry.interrupts
                    )
                self.last_end = entry
                self.suspended = entry if entry.outcome == "interrupt" else None
            case JobStarted(job_id=job_id):
                self.jobs[job_id] = entry
            case JobEnded(job_id=job_id):
                self.jobs.pop(job_id, None)
            case ChildOpened(thread=thread):
                self.children[thread.conversation_id] = KnownChild(thread, entry.at)
            case ChildChanged(thread_id=thread_id):
                if thread_id in self.children:
                    self.children[thread_id].at_work = entry.at_work
                    self.children[thread_id].is_open = entry.is_open
            case Navigated():
                # What was open, was open elsewhere.
                self.open_run, self.suspended, self.is_direct, self.given = None, None, False, {}
                self.answering, self.decided = None, {}
            case Named():
                self.name = entry
            case Compacted(message=message):
                self.compacted = entry
                self.transcript.put(message)
            case ToolRequested() | ToolAnswered() | Labelled():
                pass  # recorded, and no part of what was said

    def note(self, entry: Entry) -> None:
        """Take one recorded entry of another branch: what is true of all of them."""
        match entry:
            case Accepted(messages=messages):
                self._message_ids.update(message.id for message in messages)
            case RunOpened(run_id=run_id):
                self.run_ids.add(run_id)
            case Responded():
                self._count(entry)
            case Named() | Chosen() | JobStarted() | JobEnded() | ChildOpened() | ChildChanged():
                self.apply(entry)
            case _:
                pass

    def become(self, other: "Conversation") -> None:
        """Be at another place of the same history. Whoever holds this object sees it there."""
        for each in fields(self):
            if each.name not in ("background", "servers", "subagents"):
                setattr(self, each.name, getattr(other, each.name))

    def is_known(self, message_id: str) -> bool:
        """Does the conversation already have this message, or a place in the queue for it?"""
        return message_id in self._message_ids or message_id in self.transcript

    def interrupts(self) -> Sequence[Interrupt]:
        """What the suspended run waits for; empty when nothing is suspended."""
        return self.suspended.interrupts if self.suspended else ()

    def suspended_event(self) -> RunFinished | RunError | None:
        """The RUN_FINISHED that the open interrupts came with."""
        return self.end_event(self.suspended) if self.suspended else None

    def end_event(self, ended: RunEnded) -> RunFinished | RunError:
        """How a run's end is told."""
        if ended.outcome == "error" or ended.outcome == "interrupted":
            lost = "The run was cut off: its worker ended before it did."
            return RunError(
                message=ended.error or lost,
                run_id=ended.run_id,
                code=ended.code or ("worker_exit" if ended.outcome == "interrupted" else None),
                usage=ended.usage,
            )
        return RunFinished(
            thread_id=self.conversation_id,
            run_id=ended.run_id,
            outcome=Outcome(
                type=ended.outcome,
                interrupts=ended.interrupts or None,
                pending_tool_call_ids=ended.pending or None,
            ),
            result=ended.result,
            usage=ended.usage,
        )

    def awaits_result(self, call_id: str | None) -> bool:
        """Is this a call that an application is to answer?"""
        record = self.calls.get(call_id or "")
        if record is None or record.answered or record.started_at is not None:
            return False
        return self.open_run is None and all(i.id != call_id for i in self.interrupts())

    def reopened(self) -> list[Interrupt]:
        """What the open run was allowed to do and has not begun: it can be asked for again."""
        asked = self.answering.interrupts if self.answering else ()
        return [
            interrupt
            for interrupt in asked
            if self.decided.get(interrupt.id)
            and interrupt.id not in self.given
            and (record := self.calls.get(interrupt.id)) is not None
            and not record.answered
            and record.started_at is None
        ]

    def unanswered(self) -> list[CallRecord]:
        """Calls without a result, in the order the model made them."""
        return [record for record in self.calls.values() if not record.answered]

    def shared_state(self) -> dict[str, object]:
        """The state object: what the application keeps in it, and all keys of ours."""
        return {
            **self.app_state,
            "todos": self.todos,
            "usage": self.usage_rows(),
            "backgroundTasks": self.background(),
            "subagents": self.subagents(),
            "queue": self.queue.shown(),
            "retry": None,
            "mcpServers": self.servers(),
        }

    def usage_rows(self) -> list[dict[str, object]]:
        """The `usage` key of the state: one row a model."""
        return [_usage_row(model, usage) for model, usage in self.usage.items()]

    def _open(self, opened: RunOpened) -> None:
        self.open_run = opened.run_id
        self.run_ids.add(opened.run_id)
        self.answering = (self.suspended or self.answering) if opened.answers else None
        self.decided = opened.answers or {}
        self.suspended = None
        self.is_direct = opened.direct
        if opened.app_state is not None:
            self.app_state = opened.app_state
        self.given = opened.payloads or {}
        whole = self.queue.of_input(opened.input) if opened.input else []
        ids = [*opened.messages, *(waiting.message.id for waiting in whole)]
        for waiting in self.queue.take(ids):
            self.transcript.put(waiting.message)

    def _choose(self, chosen: Chosen) -> None:
        self.choices[chosen.what] = chosen.value
        self.chosen_in[chosen.what] = chosen.id
        if chosen.at_launch:
            self.launched_with[chosen.what] = chosen.value
        if chosen.what == "mode":
            self.is_mode_new = True

    def _note_calls(self, calls: Iterable[ToolCall]) -> None:
        for call in calls:
            if call.id in self.calls:
                self.calls[call.id].call = call
            else:
                self.calls[call.id] = CallRecord(call)

    def _count(self, response: Responded) -> None:
        row = self.usage.setdefault(f"{response.provider}:{response.model}", ModelUsage())
        row.input_tokens += response.input_tokens
        row.output_tokens += response.output_tokens
        row.cached_input_tokens += response.cached_input_tokens
        if response.cost is not None:
            row.cost = (row.cost or 0.0) + response.cost


def fold(conversation_id: str, entries: Sequence[Entry]) -> Conversation:
    """The conversation that a history tells of: where its last entry is."""
    conversation = Conversation(conversation_id)
    here = {entry.id for entry in branch(entries)}
    for entry in entries:
        if entry.id in here:
            conversation.apply(entry)
        else:
            conversation.note(entry)
    return conversation


def _usage_row(model: str, usage: ModelUsage) -> dict[str, object]:
    row: dict[str, object] = {
        "model": model,
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
    }
    if usage.cached_input_tokens:
        row["cachedInputTokens"] = usage.cached_input_tokens
    if usage.cost is not None:
        row["cost"] = round(usage.cost, 6)
    return row
