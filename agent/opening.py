"""Opening a conversation: its entries folded, and what a crash left open closed and recorded."""

from collections.abc import Callable
from pathlib import Path

from agent.domain import plans
from agent.domain.aftermath import Aftermath, left_by_a_crash, lost_jobs
from agent.domain.conversation import CallRecord, Conversation, fold
from agent.domain.entries import Begun, Entry
from agent.domain.lineage import Lineage
from agent.domain.messages import result_text
from agent.domain.ports import History, Log, Processes
from agent.domain.questions import answered
from agent.recorder import Recorder


async def open_conversation(
    conversation_id: str,
    project_dir: Path,
    history: History,
    entries: list[Entry],
    new_id: Callable[[], str],
    now: Callable[[], str],
    log: Log,
    processes: Processes,
    lineage: Lineage | None = None,
) -> Recorder:
    """The recorder of a conversation that is ready to go on. Raises HistoryFailed."""
    conversation: Conversation = fold(conversation_id, entries)
    last_id = entries[-1].id if entries else None
    recorder = Recorder(history, conversation, last_id, new_id, now, log, processes)
    if not entries:
        # Written with the first input: one that was only looked at has nothing in its file.
        begun = Begun(
            conversation_id=conversation_id, project_dir=str(project_dir), lineage=lineage
        )
        recorder.begin_with(begun)
        conversation.lineage = lineage
    else:
        lost = left_by_a_crash(conversation, Aftermath(_answered, processes, new_id))
        if lost:
            log("warning", "run_cut_off", run_id=conversation.open_run)
        lost += lost_jobs(conversation, new_id)
        if lost:
            was_suspended = conversation.suspended is not None
            await recorder.record(*lost)
            recorder.asks_again = None if was_suspended else conversation.suspended
    return recorder


def _answered(record: CallRecord, payload: object) -> str:
    """The result of a call that a person answered, whose telling was cut off."""
    if record.call.function.name == plans.TOOL:
        return result_text(success=True, output=plans.accepted(payload))
    return answered(record, payload)
