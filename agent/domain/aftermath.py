"""What is recorded of things that will not end by themselves any more.

A crash cut a run off, a person went back to the middle of one, a result found no room on the disk:
nothing stays open, nothing is taken for undone that may have been done, nothing runs again by
itself. It decides entries and writes none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.domain.conversation import CallRecord, Conversation
from agent.domain.entries import (
    Entry,
    JobEnded,
    QueueDeleted,
    Resulted,
    RunEnded,
    Said,
)
from agent.domain.messages import (
    INTERRUPTED,
    JOB,
    UNCERTAIN,
    FunctionCall,
    Message,
    ToolCall,
    result_text,
)
from agent.domain.ports import Processes

DECLINED = "Not run: declined by the user."
_SHOWN_ARGUMENTS = 1_000


def unfinished(
    conversation: Conversation, new_id: Callable[[], str], started: Mapping[str, str]
) -> list[Entry]:
    """What to record so that a place in the middle of things is one to go on from.

    `started` tells when calls began that did, on any branch.
    """
    entries: list[Entry] = [
        Said(message=message) for message in conversation.transcript.mark_interrupted()
    ]
    answered = {m.tool_call_id for m in conversation.transcript if m.role == "tool"}
    for call_id in (c for c in noted_in_order(conversation) if c not in answered):
        message = left_behind(call_id, new_id(), started.get(call_id))
        entries.append(Resulted(message=message))
    if ids := [waiting.message.id for waiting in conversation.queue]:
        entries.append(QueueDeleted(message_ids=ids))
    return entries


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What a later process can tell of a run that was cut off."""

    answer_result: Callable[[CallRecord, object], str]
    """The result of a question that the person had answered."""
    processes: Processes
    new_id: Callable[[], str]


def left_by_a_crash(conversation: Conversation, aftermath: Aftermath) -> list[Entry]:
    """What to record for a run that the process before this one did not end.

    A call that had begun is never run again by itself: its result says that the outcome is unknown,
    so that the model looks before it repeats. One that had not begun says so, unless a person had
    allowed it: then the decision is open again, in a run of its own that only asks. Partial
    messages stay, marked.
    """
    if conversation.open_run is None:
        return []
    entries: list[Entry] = [
        Said(message=message) for message in conversation.transcript.mark_interrupted()
    ]
    again = conversation.reopened()
    waits = {interrupt.id for interrupt in again}
    answered = {m.tool_call_id for m in conversation.transcript if m.role == "tool"} | waits
    for call_id in (c for c in noted_in_order(conversation) if c not in answered):
        message = _told_after(conversation, call_id, aftermath)
        entries.append(Resulted(message=message))
    asked_in = aftermath.new_id() if again else None
    entries.append(
        RunEnded(
            run_id=conversation.open_run,
            outcome="interrupted",
            interrupts=again,
            asked_in=asked_in,
        )
    )
    return entries


def _told_after(conversation: Conversation, call_id: str, aftermath: Aftermath) -> Message:
    """The result of a call that has none, as far as one can tell now."""
    record = conversation.calls.get(call_id)
    message_id = f"result-{call_id}"
    if record is None:
        return lost_result(
            CallRecord(ToolCall(call_id, FunctionCall("", ""))), message_id, "", None
        )
    if call_id in conversation.given:
        # The person has answered; only the telling was cut off.
        content = aftermath.answer_result(record, conversation.given[call_id])
        return Message(id=message_id, role="tool", tool_call_id=call_id, content=content)
    if conversation.decided.get(call_id) is False:
        content = result_text(success=False, error=DECLINED)
        return Message(
            id=message_id, role="tool", tool_call_id=call_id, content=content, error=DECLINED
        )
    lives = None
    if record.process is not None:
        lives = aftermath.processes.lives(record.process.pid, record.process.process_start)
    return lost_result(record, message_id, conversation.project_dir, lives)


def still_unknown(conversation: Conversation, new_id: Callable[[], str]) -> list[Entry]:
    """What to record, when that works again, of calls whose result found no room on the disk."""
    return [
        Resulted(message=lost_result(record, new_id(), conversation.project_dir, None))
        for record in conversation.unanswered()
        if record.started_at is not None
    ]


def lost_jobs(conversation: Conversation, new_id: Callable[[], str]) -> list[Entry]:
    """What to record for jobs that ended with the process that ran them."""
    entries: list[Entry] = []
    for job in conversation.jobs.values():
        text = (
            f"[Shell Failed: {job.label}]\nIt ended with the worker that ran it; what it did until"
            " then is done."
        )
        metadata: dict[str, object] = {JOB: job.job_id}
        message = Message(id=new_id(), role="user", content=text, metadata=metadata)
        entries += [JobEnded(job_id=job.job_id), Said(message=message)]
    return entries


def noted_in_order(conversation: Conversation) -> list[str]:
    """The ids of all calls in the transcript, in its order."""
    return [c.id for m in conversation.transcript for c in m.tool_calls or ()]


def left_behind(call_id: str, message_id: str, started_at: str | None) -> Message:
    """The result of a call that the user went back to before it had one."""
    if started_at is None:
        error = "Not run: the user went back to before it."
    else:
        error = (
            f"It was started at {started_at}; then the user went back to before its result. What it"
            " did is done: check it before you repeat it."
        )
    content = result_text(success=False, error=error)
    return Message(id=message_id, role="tool", tool_call_id=call_id, content=content, error=error)


def lost_result(
    record: CallRecord, message_id: str, project_dir: str, lives: bool | None
) -> Message:
    """The result of a call of which nobody could record one. `lives`: its process, if known."""
    call = record.call
    metadata: dict[str, object] = {INTERRUPTED: True}
    if record.started_at is None:
        error = "It was not run: the worker ended before it began."
    else:
        arguments = call.function.arguments
        if len(arguments) > _SHOWN_ARGUMENTS:
            arguments = arguments[: _SHOWN_ARGUMENTS - 1] + "…"
        where = f" in {project_dir}" if project_dir else ""
        error = (
            f"It was started at {record.started_at}{where} with {call.function.name} {arguments};"
            f" its outcome is unknown, because it could not be recorded. {_life(record, lives)}"
            "Check what it did before you repeat it."
        )
        metadata[UNCERTAIN] = {
            "tool": call.function.name,
            "arguments": arguments,
            "projectDir": project_dir,
            "startedAt": record.started_at,
            "pid": record.process.pid if record.process else None,
            "processLives": lives,
        }
    return Message(
        id=message_id,
        role="tool",
        tool_call_id=call.id,
        content=result_text(success=False, error=error),
        error=error,
        metadata=metadata,
    )


def _life(record: CallRecord, lives: bool | None) -> str:
    if record.process is None or lives is None:
        return ""
    state = "still runs" if lives else "has ended"
    return f"Its process (pid {record.process.pid}) {state}. "
