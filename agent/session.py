"""A worker's conversation while it is served: which line means what, and whose turn it is.

One task reads lines and decides; one task runs what waits, one run at a time. Answers that need no
turn (snapshots, command results) are written by the reader, between whole lines of a run. It knows
neither where lines come from nor what a model is.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
import msgspec
from anyio.abc import TaskGroup

from agent.choice_commands import ChoiceCommands
from agent.commands import CommandFailed, Commands
from agent.compaction_commands import CompactionCommands
from agent.domain import plans
from agent.domain.children import Child
from agent.domain.conversation import Answer, Conversation
from agent.domain.entries import Accepted, Entry, JobEnded, Said
from agent.domain.events import (
    PROTOCOL_VERSION,
    Event,
    MessagesSnapshot,
    RunError,
    RunStarted,
    SnapshotWindow,
    StateDelta,
    StateSnapshot,
)
from agent.domain.messages import HIDDEN, JOB, SUBAGENT, Message
from agent.domain.offer import NOTHING
from agent.domain.ports import Archive, HistoryFailed, Job, Lines, Log, Project, ToolResult
from agent.domain.questions import INPUT_REQUIRED, BadAnswer, answer_text, questions_of
from agent.domain.subagents import NO_DELEGATION, Delegation
from agent.equipment import Equipment
from agent.equipment_commands import EquipmentCommands
from agent.history_commands import HistoryCommands
from agent.inputs import (
    BadInput,
    RunInput,
    SaveAttachment,
    continue_message,
    json_object,
    read_run_input,
)
from agent.jobs import Jobs
from agent.outputs import fitted
from agent.panel import Panel
from agent.prompt_commands import PromptCommands
from agent.queue_commands import QueueCommands
from agent.recorder import Recorder
from agent.run import End, Run, Work
from agent.say import Say, encode_line
from agent.subagents.commands import WAITS as SUBAGENT_WAITS
from agent.subagents.commands import SubagentCommands
from agent.subagents.delegates import Delegates
from agent.subagents.reports import TurnReports
from agent.supply import Prepare, Supply
from agent.titles import Titles
from agent.tool_requests import ToolRequests

PROTOCOL = 1
# How long a call may take to end when stdin has ended; the daemon kills after 25 s.
CALL_GRACE = 20.0
# Bad lines are told to the operator one by one, up to here; then only counted.
_LOGGED_BAD_LINES = 20


class Session:
    """Everything that happens to one conversation in this process."""

    def __init__(
        self,
        recorder: Recorder,
        lines: Lines,
        prepare: Prepare,
        save: SaveAttachment,
        new_id: Callable[[], str],
        log: Log,
        project: Project,
        archive: Archive,
        delegation: Delegation = NO_DELEGATION,
    ) -> None:
        self.conversation: Conversation = recorder.conversation
        self._rec = recorder
        self._lines = lines
        self._save = save
        self._new_id = new_id
        self._log = log
        self._say = Say(recorder, lines, new_id)
        self._run: Run | None = None
        self._resume: Work | None = None
        self._wake = anyio.Event()
        self._blocked = False
        self._ending = False
        self._bad_lines = 0
        self._delegates = Delegates(
            delegation, recorder, lambda: self._supply.wait(), self, new_id, log
        )
        self._supply = Supply(prepare, recorder, log, self._with_agent_tools)
        self._panel = Panel(project, self._supply, self._write, log)
        self._requests = ToolRequests(recorder, self._supply, self._write, self._tell, log)
        self._jobs = Jobs(self._tell_jobs, self._end_job, log)
        self.conversation.background = self._background
        self.conversation.subagents = self._delegates.rows
        self._told_background: dict[str, object] | None = None
        self._reports = TurnReports(self.conversation) if delegation.reports else None
        self._tasks: TaskGroup | None = None
        self.last_end: End | None = None
        self._turn = anyio.Lock()
        self._titles = Titles(recorder, new_id, log)
        queue = QueueCommands(recorder, self._tell_queue)
        equipment = EquipmentCommands(self._supply).known
        self._compaction = CompactionCommands(
            recorder, self._supply, new_id, self._between_runs, self._tell_messages
        )
        self.commands = Commands(
            {
                "ping": self._ping,
                "get_state": self._get_state,
                "find_run": self._find_run,
                "stop_job": self._stop_job,
                **equipment,
                **ChoiceCommands(self._supply).known,
                **self._compaction.known,
                **queue.known,
                **PromptCommands(self, queue.clear).known,
                **HistoryCommands(recorder, archive, new_id, self._tell_messages).known,
                **SubagentCommands(self._delegates).known,
            },
            slow=("compact", "list_models", *SUBAGENT_WAITS, *equipment),
        )

    # -- the life of a session -------------------------------------------------------------

    def announce(self, version: str) -> None:
        """The first line: what a daemon must know of this conversation before all else."""
        ready: dict[str, object] = {"type": "ready", "protocol": PROTOCOL, "version": version}
        suspended = self.conversation.suspended_event()
        if suspended is not None:
            ready["suspended"] = suspended
        self._write(ready)
        if (asked := self._rec.asks_again) is not None:
            # Who follows saw the run of the answer fail: a run that only asks tells them the rest.
            thread_id = self.conversation.conversation_id
            self._tell(
                RunStarted(
                    thread_id=thread_id, run_id=asked.run_id, protocol_version=PROTOCOL_VERSION
                )
            )
            self._tell(StateSnapshot(snapshot=self.conversation.shared_state()))
            self._tell(self.conversation.end_event(asked))

    async def serve(
        self, stdin: AsyncIterator[Sequence[bytes]], call_grace: float = CALL_GRACE
    ) -> None:
        """Serve lines until they end; what runs then ends too, in the grace. Raises StartFailed."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self._jobs.serve_in(tasks)
            self._delegates.serve_in(tasks)
            tasks.start_soon(self._rec.serve_partials)
            tasks.start_soon(self._get_ready)
            tasks.start_soon(self._read, stdin, call_grace)
            await self.run_all()
            tasks.cancel_scope.cancel()
        self._raise_start_failure()

    async def run_alone(self) -> None:
        """Run all that waits, without reading lines, and return. Raises StartFailed."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._rec.serve_partials)
            tasks.start_soon(self._get_ready)
            self._jobs.serve_in(tasks)
            self._delegates.serve_in(tasks)
            while not (self._ending or self._blocked):
                if (work := self._next()) is not None:
                    await self._execute(work)
                elif self._delegates.at_work or (
                    self._jobs.running and self.conversation.suspended is None
                ):
                    self._wake = anyio.Event()
                    await self._wake.wait()
                else:
                    break
            tasks.cancel_scope.cancel()
        self._raise_start_failure()

    @property
    def waiting_children(self) -> list[Child]:
        """The subagents that wait for a person."""
        return [child for child in self._delegates.children() if child.asks]

    async def run_all(self) -> None:
        """Run what waits, one after the other, until the session ends."""
        while not self._ending:
            work = None if self._blocked else self._next()
            if work is not None:
                await self._execute(work)
                continue
            self._wake = anyio.Event()
            await self._wake.wait()

    @property
    def is_ending(self) -> bool:
        """It was told to end: nothing more begins."""
        return self._ending

    def interrupt(self) -> bool:
        """End the open run as cancelled, or the compaction that goes on. Was there one?"""
        if self._run is None:
            return self._compaction.abort()
        self._run.cancel()
        return True

    def end(self, grace: float = CALL_GRACE) -> None:
        """No more lines will come: end, letting a call that runs finish within the grace."""
        self._ending = True
        self._wake.set()
        if self._run is not None:
            self._run.finish_call_and_stop(grace)

    # -- lines -----------------------------------------------------------------------------

    async def _read(self, stdin: AsyncIterator[Sequence[bytes]], call_grace: float) -> None:
        async for batch in stdin:
            for line in batch:
                await self.take(line)
                await self._lines.wait_answerable()
        self.end(call_grace)

    async def take(self, line: bytes) -> None:
        """Do what one line says. A line that says nothing is counted."""
        try:
            frame = json_object(msgspec.json.decode(line)) or {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._count_bad_line(line, "not JSON")
            return
        kind = frame.get("type")
        if not isinstance(kind, str):
            self._count_bad_line(line, "no type")
            return
        match kind:
            case "run_agent_input":
                await self._take_input(frame.get("input"))
            case "interrupt":
                self.interrupt()
                if frame.get("subagents") is True:
                    await self._delegates.interrupt_all()
            case "new_session" | "resume_conversation":
                self._tell_messages(frame.get("last_messages"))
            case "command" if self._tasks and frame.get("name") in self.commands.slow:
                self._tasks.start_soon(self._answer, frame)
            case "command":
                await self._answer(frame)
            case "tool_request" if self._tasks is not None:
                self._requests.take(frame, self._tasks, self._panel.chosen)
            case "approval_response":
                self._requests.decide(frame)
            case _ if kind in self._panel.kinds and self._tasks is not None:
                await self._panel.take(kind, frame, self._tasks)
            case _:
                self._log("debug", "frame_ignored", frame_type=kind[:80])

    async def _take_input(self, value: object) -> None:
        try:
            await self.accept(await self.read_input(value))
        except (BadInput, HistoryFailed) as exc:
            code = "bad_input" if isinstance(exc, BadInput) else "history"
            self._tell(RunError(message=str(exc), code=code))

    async def read_input(self, value: object) -> RunInput:
        """A run input, checked, without the messages that are known. Raises BadInput."""
        return await read_run_input(value, self._new_id, self._save, self.conversation.is_known)

    async def accept(self, found: RunInput) -> str:
        """Queue what a run input asks for, and say how. Raises BadInput, HistoryFailed."""
        self._blocked = False
        answers = self._open_answers(found)
        results = self._open_results(found)
        messages = found.messages
        is_empty = found.is_empty or (found.has_own_run and not (messages or answers or results))
        goes_on = is_empty or (bool(results) and not answers)
        if goes_on and self.conversation.suspended is not None:
            raise BadInput("The run waits for a decision: answer that first.")
        if is_empty:
            messages = (continue_message(self._new_id),)
        is_follow_up = found.is_follow_up or is_empty
        accepted: Accepted | None = None
        is_busy = self.is_busy
        if messages:
            accepted = Accepted(
                messages=list(messages),
                run_id=found.run_id,
                follow_up=is_follow_up,
                offer=found.offer,
            )
            await self._rec.record(accepted)
            self._tell_queue()
            await self._note_inputs(accepted)
        if answers or results:
            # The messages of a resume belong to its run; others are taken as in any run.
            ids = tuple(message.id for message in messages)
            self._resume = Work(found.run_id, ids, answers, results, found.offer or NOTHING)
        elif accepted is None:
            return "ignored"
        self._wake.set()
        return "queued" if is_busy and not (answers or results) else "started"

    async def _note_inputs(self, accepted: Accepted) -> None:
        """What people typed can be called back in every conversation of the project."""
        for message in accepted.messages:
            if self._tasks is not None and not message.is_marked(HIDDEN):
                await self._panel.note_input(message.text, self._tasks)

    def _open_answers(self, found: RunInput) -> tuple[Answer, ...]:
        """The answers to what is open, all of it or nothing. Raises BadInput when some miss."""
        if not found.answers:
            return ()
        open_ids = [interrupt.id for interrupt in self.conversation.interrupts()]
        if self._resume is not None:
            open_ids = []
        unknown = [a.interrupt_id for a in found.answers if a.interrupt_id not in open_ids]
        if unknown:
            self._log("info", "answers_ignored", interrupt_ids=unknown[:20])
        if not open_ids:
            return ()
        given = {answer.interrupt_id: answer for answer in found.answers}
        if any(given[answer.interrupt_id] != answer for answer in found.answers):
            raise BadInput("Nothing was run: one decision was answered in two ways. Answer again.")
        if missing := sorted(open_id for open_id in open_ids if open_id not in given):
            raise BadInput(
                "Nothing was run: every open decision needs an answer in the same message;"
                f" missing: {', '.join(missing)}."
            )
        self._check_answers(given)
        return tuple(given[open_id] for open_id in open_ids)

    def _open_results(self, found: RunInput) -> tuple[Message, ...]:
        """What answers the calls that an application is to answer: the first result of each."""
        if self._resume is not None:
            return ()
        open_results = {
            message.tool_call_id: message
            for message in reversed(found.results)
            if self.conversation.awaits_result(message.tool_call_id)
        }
        return tuple(message for message in found.results if message in open_results.values())

    def _check_answers(self, given: Mapping[str, Answer]) -> None:
        """An answer that does not fit its question answers nothing. Raises BadInput."""
        for interrupt in self.conversation.interrupts():
            record = self.conversation.calls.get(interrupt.id)
            answer = given[interrupt.id]
            if not answer.approved or record is None:
                continue
            try:
                if record.call.function.name == plans.TOOL:
                    plans.next_mode(answer.payload)
                elif interrupt.reason == INPUT_REQUIRED:
                    answer_text(questions_of(record.call.function.arguments), answer.payload)
            except BadAnswer as exc:
                raise BadInput(f"Nothing was run, and the question is still open. {exc}") from exc

    @property
    def is_busy(self) -> bool:
        """Would a message that comes now have to wait?"""
        waits = bool(self.conversation.queue) or self.conversation.suspended is not None
        goes_on = self._run is not None or self._resume is not None
        return waits or goes_on or self._compaction.is_running

    # -- runs ------------------------------------------------------------------------------

    def _next(self) -> Work | None:
        """What runs next: an answered suspension first, and nothing before it is answered."""
        if self._resume is not None:
            work, self._resume = self._resume, None
            return work
        if self.conversation.suspended is not None or not self.conversation.queue:
            return None
        return Work()

    @asynccontextmanager
    async def _between_runs(self) -> AsyncGenerator[None]:
        """No run begins while the block lasts. Raises CommandFailed while one goes on or waits."""
        if self.conversation.suspended is not None:
            raise CommandFailed("suspended", "The run waits for a decision: answer that first.")
        if self.is_busy:
            raise CommandFailed(
                "busy", "A run goes on, or messages wait: stop or clear them first."
            )
        async with self._turn:
            yield

    async def _execute(self, work: Work) -> None:
        async with self._turn:
            await self._execute_now(work)

    async def _execute_now(self, work: Work) -> None:
        run = self._run = Run(self._say, self._log, work, self._jobs, self._reports)
        try:
            self.last_end = await run.execute(self._supply.wait) or self.last_end
            self._give_title()
        except HistoryFailed as exc:
            # Not even begun: the input keeps its place, and the next one that comes tries again.
            self._blocked = True
            self._tell(RunError(message=str(exc), code="history"))
        finally:
            self._run = None

    def _give_title(self) -> None:
        """In the background: nobody waits for it, and the end of the session ends it."""
        equipment = self._supply.ready
        if self._tasks is not None and equipment is not None and self._titles.is_due(equipment):
            self._tasks.start_soon(self._titles.give, equipment)

    async def _get_ready(self) -> None:
        await self._supply.get_ready()
        if (failure := self._supply.failure) is not None:
            if self._run is None:
                self._tell(RunError(message=str(failure), code="settings"))
            self.end(0)
        elif (equipment := self._supply.ready) is not None and equipment.servers is not None:
            self.conversation.servers = equipment.servers.state
            await equipment.servers.serve(self._tell_servers)

    async def _end_job(self, job_id: str, job: Job, result: ToolResult) -> None:
        """What a job came to is a message: for the run that goes on, or one of its own."""
        ready = self._supply.ready
        archive = ready.archive if ready else None
        result = await fitted(result, archive, self.conversation.conversation_id, job_id)
        how = "Completed" if result.success else "Failed"
        parts = [f"[{job.kind.capitalize()} {how}: {job.label}]", result.error, result.output]
        text = "\n".join(part for part in parts if part)
        metadata: dict[str, object] = {JOB: job_id}
        message = Message(id=self._new_id(), role="user", content=text, metadata=metadata)
        try:
            await self._rec.record(JobEnded(job_id=job_id), Accepted(messages=[message]))
        except HistoryFailed as exc:
            self._log("error", "job_not_recorded", job_id=job_id, reason=str(exc))
        self._blocked = False
        self._tell_queue()
        self._wake.set()

    def _tell_jobs(self) -> None:
        if self.conversation.open_run is not None:
            self._say.state("backgroundTasks", self._background())

    def _background(self) -> dict[str, object]:
        """Jobs, and the subagents that are at work: what keeps a worker that nobody follows."""
        return self._jobs.state(self._delegates.job_rows())

    def _with_agent_tools(self, equipment: Equipment) -> Equipment:
        # Their schemas take time that the first lines of a worker do not have.
        from agent.subagents.tools import with_agent_tools

        return with_agent_tools(equipment, self._delegates)

    # -- subagents: what `Delegates` asks of a conversation ----------------------------------

    async def note(
        self, entries: Sequence[Entry], thread_id: str, text: str, *, wakes: bool
    ) -> None:
        """A note of a subagent is a message. One that wakes nobody begins no run of its own."""
        metadata: dict[str, object] = {SUBAGENT: thread_id}
        message = Message(id=self._new_id(), role="user", content=text, metadata=metadata)

        def decision() -> list[Entry]:
            is_free = self.conversation.open_run is None and self.conversation.suspended is None
            is_said = not wakes and is_free
            said = Said(message=message) if is_said else Accepted(messages=[message])
            return [*entries, said]

        await self._rec.decide(decision)
        if message.id in self.conversation.queue:
            self._blocked = False
            self._tell_queue()
            self._wake.set()
        else:
            self._tell_messages()

    def children_changed(self, patch: list[dict[str, object]]) -> None:
        """Told between runs, too: who follows only the parent knows what each child does."""
        background = self._background()
        if background != self._told_background:
            self._told_background = background
            patch = [*patch, {"op": "add", "path": "/backgroundTasks", "value": background}]
        if patch:
            self._say(StateDelta(delta=patch))
        self._wake.set()

    def _tell_servers(self) -> None:
        if self.conversation.open_run is not None:
            self._say.state("mcpServers", self.conversation.servers())

    def _raise_start_failure(self) -> None:
        if self._supply.failure is not None:
            raise self._supply.failure

    # -- commands --------------------------------------------------------------------------

    async def _answer(self, frame: Mapping[str, object]) -> None:
        self._write(await self.commands.answer(frame))

    async def _ping(self, _args: Mapping[str, object]) -> object:
        return {"pong": True}

    async def _get_state(self, _args: Mapping[str, object]) -> object:
        context = await self._compaction.context()
        # Nothing waits from here on: the result is the state at its place among the lines.
        ready = self._supply.ready
        # What was chosen is known before what it is chosen for is prepared.
        chosen = self.conversation.choices
        last = self.conversation.last_end
        messages = self.conversation.transcript.visible()
        return {
            "conversationId": self.conversation.conversation_id,
            "runId": (self._run.run_id if self._run else None) or None,
            "interrupts": list(self.conversation.interrupts()),
            "queue": [waiting.message for waiting in self.conversation.queue],
            "state": self.conversation.shared_state(),
            "lastRun": last and self.conversation.end_event(last),
            "model": ready.model_name if ready else chosen.get("model"),
            "mode": ready.mode if ready else chosen.get("mode"),
            "thinking": ready.thinking if ready else chosen.get("thinking"),
            "name": self.conversation.name.name if self.conversation.name else None,
            "leafId": messages[-1].id if messages else None,
            "messageCount": len(messages),
            "isCompacting": self._compaction.is_running,
            "autoCompaction": (
                ready.auto_compaction if ready else chosen.get("auto_compaction") != "off"
            ),
            "context": context,
        }

    async def _find_run(self, args: Mapping[str, object]) -> object:
        run_id = args.get("runId")
        if not isinstance(run_id, str):
            raise CommandFailed("bad_arguments", "runId must be a string.")
        return {"known": run_id in self.conversation.run_ids or self._waits_with(run_id)}

    def _waits_with(self, run_id: str) -> bool:
        """Will one of the next runs have this id?"""
        waiting = any(each.run_id == run_id for each in self.conversation.queue)
        return waiting or (self._resume is not None and self._resume.run_id == run_id)

    async def _stop_job(self, args: Mapping[str, object]) -> object:
        if not self._jobs.stop(str(args.get("id"))):
            raise CommandFailed("unknown_job", "No job with this id runs.")
        return {}

    # -- out -------------------------------------------------------------------------------

    def _tell_messages(self, last: object = None) -> None:
        """For whoever asked, or for everybody when the messages are others than before.

        Whole, unless who asked can do with so many of the last ones.
        """
        transcript = self.conversation.transcript
        if not isinstance(last, int) or isinstance(last, bool) or last < 1:
            self._tell(MessagesSnapshot(messages=transcript.visible()))
            return
        page = transcript.page(None, last)
        window = SnapshotWindow(page.first, page.total) if page.first else None
        self._tell(MessagesSnapshot(messages=page.messages, window=window))

    def _tell_queue(self) -> None:
        """Followers of the open run see what waits; others with the next run's state."""
        if self.conversation.open_run is not None:
            self._say.state("queue", self.conversation.queue.shown())

    def _tell(self, event: Event) -> None:
        """A line that is no part of a run."""
        self._lines.write(encode_line(event))

    def _write(self, value: Mapping[str, object]) -> None:
        self._lines.write(encode_line(value))

    def _count_bad_line(self, line: bytes, reason: str) -> None:
        self._bad_lines += 1
        if self._bad_lines <= _LOGGED_BAD_LINES:
            self._log(
                "warning",
                "stdin_line_ignored",
                reason=reason,
                bytes=len(line),
                total=self._bad_lines,
            )
