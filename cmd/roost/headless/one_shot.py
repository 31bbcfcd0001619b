"""One task without a daemon: its answer on stdout as it comes, and an exit code that tells.

Nobody is there to approve: a task that needs it stops, says what waits and how to go on, and the
conversation keeps it.
"""

import signal

import anyio

from agent.domain import plans
from agent.domain.conversation import Answer
from agent.domain.events import Interrupt
from agent.domain.messages import Message
from agent.domain.ports import HistoryFailed, Lines
from agent.domain.questions import INPUT_REQUIRED, questions_of
from agent.equipment import StartFailed
from agent.infrastructure.stdio import StdoutLines
from agent.inputs import BadInput, RunInput
from agent.session import Session
from roost.exit_codes import ExitCode
from roost.headless.deferred_log import DeferredLog
from roost.headless.opened import Opened
from roost.headless.options import Options, new_id
from roost.headless.stderr import tell, write
from roost.headless.text_lines import TextLines

_LAST_LINES = 5.0
_OUTCOMES = {
    "success": ExitCode.DONE,
    "cancelled": ExitCode.INTERRUPTED,
    "error": ExitCode.FAILED,
    "interrupt": ExitCode.WAITING,
}


async def run_one(options: Options, parts: Opened, log: DeferredLog) -> ExitCode:
    """Run the task, or the decision, to its end."""
    out = StdoutLines(1) if options.event_lines else None
    lines: Lines = out or TextLines()
    session = parts.session(lines, log)
    code = ExitCode.FAILED
    async with anyio.create_task_group() as tasks:
        if out is not None:
            tasks.start_soon(out.serve)
        tasks.start_soon(_interrupt_on_signal, session)
        code = await _run(options, session)
        if out is not None:
            with anyio.move_on_after(_LAST_LINES):
                await out.flush()
        tasks.cancel_scope.cancel()
    return code


async def _run(options: Options, session: Session) -> ExitCode:
    waiting = session.conversation.interrupts()
    if options.decision is not None and not waiting:
        tell("nothing waits for a decision in this conversation")
        return ExitCode.FAILED
    if waiting and options.decision is None:
        _tell_what_waits(session)
        return ExitCode.WAITING
    answers = tuple(
        Answer(
            each.id,
            options.decision == "approve",
            payload=_own_words(session, each, options.answer),
        )
        for each in waiting
    )
    messages: tuple[Message, ...] = ()
    if options.task is not None:
        messages = (Message(id=new_id(), role="user", content=options.task),)
    try:
        await session.accept(RunInput(None, messages, answers, is_empty=False))
        await session.run_alone()
    except HistoryFailed as exc:
        tell(str(exc))
        return ExitCode.FAILED
    except BadInput as exc:
        tell(f"{exc} Answer it with --answer, or dismiss it with --decline.")
        return ExitCode.WAITING
    except StartFailed:
        return ExitCode.USAGE  # the line that says why has been written
    if session.conversation.interrupts():
        _tell_what_waits(session)
    end = session.last_end
    if session.waiting_children:
        _tell_what_children_wait_for(session)
        if end is None or end.outcome == "success":
            return ExitCode.WAITING
    if session.is_ending and (end is None or end.outcome == "success"):
        # The signal came before the task began, or between two of the runs that waited.
        return ExitCode.INTERRUPTED
    return _OUTCOMES[end.outcome] if end is not None else ExitCode.FAILED


def _own_words(session: Session, interrupt: Interrupt, text: str | None) -> object:
    """The same text for every question of the interrupt; none for what is only to approve."""
    if text is None or interrupt.reason != INPUT_REQUIRED:
        return None
    call = session.conversation.calls[interrupt.id].call
    return {"answers": [{"otherText": text} for _ in questions_of(call.function.arguments)]}


def _tell_what_waits(session: Session) -> None:
    conversation = session.conversation
    tell("stopped, because this needs a decision first; none of it has been run:")
    for interrupt in conversation.interrupts():
        write(f"  {interrupt.message}")
        call = conversation.calls[interrupt.id].call
        if call.function.name == plans.TOOL:
            write(plans.plan_of(call.function.arguments))
    go_on = f"roost headless --session-id {conversation.conversation_id}"
    write(f"Go on with one of:\n  {go_on} --approve\n  {go_on} --decline")
    if any(interrupt.reason == INPUT_REQUIRED for interrupt in conversation.interrupts()):
        write(f"  {go_on} --answer 'your words'")


def _tell_what_children_wait_for(session: Session) -> None:
    for child in session.waiting_children:
        tell(f"the subagent {child.label!r} stopped, because this needs a decision first:")
        for ask in child.asks:
            write(f"  {ask.message or ask.reason}")
        go_on = f"roost headless --session-id {child.id}"
        write(f"Go on with one of:\n  {go_on} --approve\n  {go_on} --decline")


async def _interrupt_on_signal(session: Session) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            session.end(grace=0)
