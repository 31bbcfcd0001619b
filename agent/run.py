"""One run: from RUN_STARTED to exactly one RUN_FINISHED or RUN_ERROR.

The tool loop is ours and not a framework's, for three promises that a ready-made loop does not
make: a call with effects is on the disk as started before it starts, so that no crash runs it
twice; all calls of a response that need a person suspend together, after those that need none ran;
and whatever ends a run (a stop, an error, a full disk) closes what is open in legal order first.
Only the streaming of one response is the library's, behind the LanguageModel port.

Rules for editing: record before you tell; what follows `_settle` waits for nothing but the history.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Literal

import anyio
import msgspec

from agent.app_tools import app_tools
from agent.calls import Calls
from agent.compaction import Compaction, Reason, window_of
from agent.direct import direct_call
from agent.domain import plans
from agent.domain.aftermath import still_unknown
from agent.domain.approval import AUTO_NOTICE, PLAN_NOTE
from agent.domain.compaction import ACTIVITY as COMPACTION
from agent.domain.compaction import KEPT, cut, is_due, read_by_model
from agent.domain.conversation import Answer
from agent.domain.entries import Chosen, Entry, Resulted, RunEnded, RunOpened, Said, Taken
from agent.domain.events import (
    PROTOCOL_VERSION,
    ActivitySnapshot,
    Custom,
    InputEcho,
    Interrupt,
    RunStarted,
    StateSnapshot,
    Usage,
)
from agent.domain.messages import HIDDEN, NOTICE, Message, ToolCall
from agent.domain.offer import NOTHING, Offer
from agent.domain.ports import (
    HistoryFailed,
    Log,
    ModelFailed,
    ModelInput,
    ResponseDone,
    ToolResult,
    ToolSpec,
)
from agent.domain.questions import TOOL as QUESTION_TOOL
from agent.domain.queue import Waiting, shell_command
from agent.domain.skills import with_skills
from agent.domain.transcript import activity_message, told_activity
from agent.equipment import Equipment, StartFailed
from agent.jobs import Jobs
from agent.response import Response
from agent.say import Say
from agent.subagents.reports import STOPPED, TurnReports

# What a run may still take to record how it ended, once it has to end.
_CLOSING = 10.0
_BUG = (
    "Something went wrong inside roost; the log has the details. Nothing recorded is lost, and the"
    " conversation can go on."
)
_NOT_RECORDED = "The end of this run could not be recorded in time; the disk may be stuck."
_DECLINED = "Not run, as you decided. Say what you want instead, or say 'continue'."
_EMPTY = "The model answered nothing. Say 'continue' to ask it again."
_CUT_BY = {
    "length": "The answer is cut: it reached the most that the model may write at once. Say"
    " 'continue' to let it go on.",
    "filter": "The provider ended the answer: its filter did not let the rest through. Say it in"
    " another way, or choose another model.",
}
_ASKED_AGAIN = " Asked again, for it was not run:"

Prepared = Callable[[], Awaitable[Equipment]]


@dataclass(frozen=True, slots=True)
class Work:
    """What a run is for: what waits next, or what a suspended or unanswered one goes on with."""

    run_id: str | None = None
    messages: tuple[str, ...] = ()
    answers: tuple[Answer, ...] = ()
    """To open interrupts."""
    results: tuple[Message, ...] = ()
    """Of calls that the application was to answer."""
    offer: Offer = NOTHING


@dataclass(slots=True)
class End:
    """How a run ended."""

    outcome: Literal["success", "interrupt", "cancelled", "error"]
    interrupts: list[Interrupt] = field(default_factory=list[Interrupt])
    error: str = ""
    code: str = ""
    pending: list[str] = field(default_factory=list[str])
    """Calls that the application is to answer."""


class _StoppedAfterCall(Exception):
    """The worker is to end, and the call that was allowed to finish has finished."""


class Run:
    """One run. `execute` it once; `cancel` and `finish_call_and_stop` may be called meanwhile."""

    def __init__(
        self, say: Say, log: Log, work: Work, jobs: Jobs, reports: TurnReports | None = None
    ) -> None:
        self._say = say
        self._rec = say.recorder
        self._conversation = say.recorder.conversation
        self._log = log
        self._work = work
        self._jobs = jobs
        self._reports = reports
        self.run_id = ""
        self._taken: tuple[Message, ...] = ()
        self._offer = work.offer
        self._scope = anyio.CancelScope()
        self._compaction = Compaction(say.recorder, say.new_id)
        self._calls: Calls | None = None
        self._response: Response | None = None
        self._usage: dict[tuple[str, str], Usage] = {}
        self._call_count = 0
        self._cost: float | None = None
        self._stop_after_call = False

    def cancel(self) -> None:
        """End the run as cancelled, with all that it started."""
        self._scope.cancel()

    def finish_call_and_stop(self, grace: float) -> None:
        """End the run as cancelled; a call that runs now may end within the grace."""
        if self._calls is not None and self._calls.is_running:
            self._stop_after_call = True
            self._scope.deadline = min(self._scope.deadline, anyio.current_time() + grace)
        else:
            self._scope.cancel()

    async def execute(self, equipment: Prepared) -> End | None:
        """Do the work; None if it was taken back. Raises HistoryFailed: then it did not begin."""
        await self._open()
        if not self.run_id:
            return None
        return await self._settle(await self._to_its_end(equipment))

    async def _open(self) -> None:
        await self._rec.decide(self._opened)
        if not self.run_id:
            return
        thread_id = self._conversation.conversation_id
        self._say(
            RunStarted(
                thread_id=thread_id,
                run_id=self.run_id,
                protocol_version=PROTOCOL_VERSION,
                input=self._echo(thread_id),
            )
        )
        self._say(StateSnapshot(snapshot=self._conversation.shared_state()))

    def _opened(self) -> list[Entry]:
        """Decide what the run takes, of what waits now: messages may have been deleted."""
        queue, answers, results = self._conversation.queue, self._work.answers, self._work.results
        if answers or results:
            taken = [each for each in queue if each.message.id in self._work.messages]
            direct = bool(answers) and self._conversation.is_direct and not taken
            wanted = [self._work.run_id]
        else:
            taken = queue.next()
            if not taken:
                return []
            direct = shell_command(taken[0].message) is not None
            wanted = [each.run_id for each in taken]
            self._offer = next((each.offer for each in taken if each.offer), self._offer)
        known = self._conversation.run_ids
        new = (run_id for run_id in wanted if run_id and run_id not in known)
        self.run_id = next(new, None) or self._say.new_id()
        self._taken = (*results, *(each.message for each in taken))
        return [
            *still_unknown(self._conversation, self._say.new_id),
            *(Resulted(message=message) for message in results),
            RunOpened(
                run_id=self.run_id,
                messages=[each.message.id for each in taken],
                answers={answer.interrupt_id: answer.approved for answer in answers} or None,
                payloads=self._payloads(QUESTION_TOOL, plans.TOOL) or None,
                direct=direct,
                app_state=self._offer.state or None,
            ),
            *self._accepted_plans(),
        ]

    def _payloads(self, *tools: str) -> dict[str, object]:
        """The answers to these tools: on the disk with the decision, or a crash would lose them."""
        calls = self._conversation.calls
        return {
            answer.interrupt_id: answer.payload
            for answer in self._work.answers
            if answer.approved
            and answer.interrupt_id in calls
            and calls[answer.interrupt_id].call.function.name in tools
        }

    def _accepted_plans(self) -> list[Entry]:
        """Accepting a plan ends the mode in the very step that records the decision."""
        return [
            Chosen(what="mode", value=plans.next_mode(payload))
            for payload in self._payloads(plans.TOOL).values()
        ]

    def _echo(self, thread_id: str) -> InputEcho | None:
        """The user's messages, so that every follower learns them. Hidden ones stay hidden."""
        shown = [message for message in self._taken if not message.is_marked(HIDDEN)]
        if not shown:
            return None
        return InputEcho(thread_id=thread_id, run_id=self.run_id, messages=shown)

    async def _to_its_end(self, equipment: Prepared) -> End:
        try:
            with self._scope:
                return await self._go(equipment)
        except _StoppedAfterCall:
            return End("cancelled")
        except ModelFailed as exc:
            return End("error", error=str(exc), code=exc.code)
        except StartFailed as exc:
            return End("error", error=str(exc), code="settings")
        except HistoryFailed as exc:
            return End("error", error=str(exc), code="history")
        except Exception as exc:  # the one place: a bug ends its run, not the worker
            self._log("error", "run_crashed", run_id=self.run_id, exc_info=exc)
            return End("error", error=_BUG, code="internal")
        return End("cancelled")

    async def _go(self, prepared: Prepared) -> End:
        equipment = await prepared()
        calls = self._calls = Calls(self._say, equipment, self._jobs, self._count)
        await self._give_notice(equipment)
        if self._work.answers:
            await calls.resume(self._suspended_calls(), self._work.answers)
            self._check_stop()
            if not self._conversation.is_direct:
                is_steered = await self._take_steering() or bool(self._taken)
                if not is_steered and self._was_declined_without_a_word():
                    await self._notice(_DECLINED)
                    return End("success")
        if self._conversation.is_direct:
            return await self._run_directly(calls)
        for _ in range(equipment.max_turns):
            # What was chosen meanwhile (the model, the mode) counts from this turn on.
            equipment = calls.equipment = await prepared()
            await self._give_notice(equipment)
            response = self._response = Response(self._say)
            await self._respond(response, equipment)
            wanted = await response.close()
            self._call_count += len(wanted)
            if not wanted:
                await self._tell_shortfall(response)
                return End("success")
            theirs = {spec.name for spec in self._app_tools(equipment, equipment.tools)}
            ours = [call for call in wanted if call.function.name not in theirs]
            was_cut = response.done is not None and response.done.cut == "length"
            if interrupts := await calls.handle(ours, was_cut=was_cut):
                return End("interrupt", interrupts)
            self._check_stop()
            if pending := [call.id for call in wanted if call not in ours]:
                return End("success", pending=pending)
            await self._take_steering()
        raise ModelFailed(
            f"The run stopped after {equipment.max_turns} model turns, the most that one run may"
            " take. Say 'continue' to let it go on, or raise the setting agent.max_turns.",
            "max_turns",
        )

    async def _run_directly(self, calls: Calls) -> End:
        """The person's own command: the call and its result, without a word of a model."""
        command = shell_command(self._taken[0]) if self._taken else None
        if command is None or self._work.answers:
            return End("success")
        response = self._response = Response(self._say)
        await response.stream(direct_call(self._say.new_id(), command))
        wanted = await response.close()
        self._call_count += len(wanted)
        interrupts = await calls.handle(wanted)
        self._check_stop()
        return End("interrupt", interrupts) if interrupts else End("success")

    def _was_declined_without_a_word(self) -> bool:
        """A no with a reason is for the model to go on with; a plain no is the person's turn."""
        calls = self._conversation.calls
        return any(
            not answer.approved and not answer.reason
            for answer in self._work.answers
            if answer.interrupt_id in calls
            and calls[answer.interrupt_id].call.function.name != QUESTION_TOOL
        )

    async def _take_steering(self) -> bool:
        """Take in what people said meanwhile, and tell it to everybody. Was there anything?"""
        taken: list[Waiting] = []

        def decision() -> list[Entry]:
            taken.extend(self._conversation.queue.steering())
            ids = [waiting.message.id for waiting in taken]
            return [Taken(message_ids=ids)] if ids else []

        await self._rec.decide(decision)
        if not taken:
            return False
        for waiting in taken:
            self._say.message(waiting.message)
        self._say.state("queue", self._conversation.queue.shown())
        return True

    async def _respond(self, response: Response, equipment: Equipment) -> None:
        if equipment.auto_compaction:
            window = await window_of(equipment)
            if is_due(self._compaction.tokens(), window):
                await self._make_room(equipment, "threshold")
        try:
            await self._request(response, equipment)
        except ModelFailed as exc:
            # The provider knows its window best. Nothing came yet, so the request can be repeated.
            if exc.code != "model_context" or response.has_begun:
                raise
            if not (equipment.auto_compaction and await self._make_room(equipment, "overflow")):
                raise
            await self._request(response, equipment)
        if response.done is not None:
            self._count(response.done)

    def _app_tools(self, equipment: Equipment, taken: Collection[str]) -> list[ToolSpec]:
        """The application's tools, as far as a subagent's list has them."""
        found = app_tools(self._offer, taken)
        return [spec for spec in found if equipment.may_use(spec.name)]

    async def _request(self, response: Response, equipment: Equipment) -> None:
        mode = PLAN_NOTE if equipment.mode == "plan" else ""
        told = filter(None, (equipment.instructions, self._offer.words(), mode))
        offered = equipment.offered()
        request = ModelInput(
            instructions="\n\n".join(told),
            messages=with_skills(read_by_model(self._conversation), equipment.skills),
            responses=self._conversation.responses,
            tools=[
                *(tool.spec for tool in offered.values()),
                *self._app_tools(equipment, {*equipment.tools, *offered}),
            ],
            thinking=equipment.thinking,
        )
        async with equipment.model.respond(request) as pieces:
            await response.stream(pieces)

    async def _make_room(self, equipment: Equipment, reason: Reason) -> bool:
        """Let the model summarize what was said, if there is enough of it. Did it?"""
        window = await window_of(equipment)
        place = cut(self._conversation, window, int((window or 0) * KEPT))
        if place is None:
            return False
        self._say(Custom(name=COMPACTION, value={"phase": "started", "reason": reason}))
        try:
            compacted, done = await self._compaction.compact(place, equipment, reason)
        except ModelFailed as exc:
            self._log("warning", "compaction_failed", reason=str(exc), code=exc.code)
            value: dict[str, object] = {"phase": "failed", "reason": reason, "error": str(exc)}
            self._say(Custom(name=COMPACTION, value=value))
            return False
        self._say(told_activity(compacted.message))
        self._say(Custom(name=COMPACTION, value={"phase": "ended", "reason": reason}))
        if done is not None:
            self._count(done)
            self._say.state("usage", self._conversation.usage_rows())
        return True

    async def _give_notice(self, equipment: Equipment) -> None:
        """A mode that never asks says so whenever it was chosen, before it does anything."""
        if equipment.mode == "auto" and self._conversation.is_mode_new:
            await self._notice(AUTO_NOTICE, mode="auto")

    async def _tell_shortfall(self, response: Response) -> None:
        """Half an answer, or none, is not taken for a whole one without a word."""
        if response.done is not None and response.done.cut is not None:
            await self._notice(_CUT_BY[response.done.cut])
        elif not response.has_begun:
            await self._notice(_EMPTY)

    async def _notice(self, text: str, **more: object) -> None:
        """Say something to people that no model reads."""
        notice = ActivitySnapshot(
            message_id=self._say.new_id(),
            activity_type=NOTICE,
            content={"text": text, **more},
        )
        await self._rec.record(Said(message=activity_message(notice)))
        self._say(notice)

    def _suspended_calls(self) -> dict[str, ToolCall]:
        known = self._conversation.calls
        ids = [answer.interrupt_id for answer in self._work.answers]
        return {call_id: known[call_id].call for call_id in ids if call_id in known}

    def _check_stop(self) -> None:
        if self._stop_after_call:
            raise _StoppedAfterCall

    def _count(self, done: ResponseDone) -> None:
        if done.cost is not None:
            self._cost = (self._cost or 0.0) + done.cost
        key = (done.provider, done.model)
        before = self._usage.get(key)
        given = done.input_tokens + (before.input_tokens or 0 if before else 0)
        taken = done.output_tokens + (before.output_tokens or 0 if before else 0)
        cached = done.cached_input_tokens + (before.cached_input_tokens or 0 if before else 0)
        self._usage[key] = Usage(
            provider=done.provider,
            model=done.model,
            input_tokens=given,
            output_tokens=taken,
            total_tokens=given + taken,
            cached_input_tokens=cached or None,
        )

    async def _settle(self, end: End) -> End:
        """Close, record and tell the end. A history that can't be written makes it an error.

        What a person had allowed and has not begun is asked for again then: the decision was made
        on something that did not happen.
        """
        usage = list(self._usage.values()) or None
        end = self._asking_again(end)
        with anyio.CancelScope(shield=True, deadline=anyio.current_time() + _CLOSING) as scope:
            try:
                await self._close(end)
                await self._rec.record(self._ended(end, usage))
            except HistoryFailed as exc:
                end = self._unrecorded(end, str(exc), usage)
        if scope.cancelled_caught:
            end = self._unrecorded(end, _NOT_RECORDED, usage)
        self._report(end)
        self._say(self._conversation.end_event(self._ended(end, usage)))
        self._log(
            "warning" if end.outcome == "error" else "info",
            "run_ended",
            run_id=self.run_id,
            outcome=end.outcome,
            code=end.code or None,
            tool_calls=self._call_count,
        )
        return end

    def _asking_again(self, end: End) -> End:
        """The same end, unless the disk stood between a decision and what it allowed."""
        again = self._conversation.reopened()
        if end.code != "history" or not again:
            return end
        asked = [(each, (each.message or "").partition(_ASKED_AGAIN)[0]) for each in again]
        return End(
            "interrupt",
            [
                msgspec.structs.replace(each, message=f"{words}{_ASKED_AGAIN} {end.error}")
                for each, words in asked
            ],
        )

    def _unrecorded(self, end: End, reason: str, usage: list[Usage] | None) -> End:
        """How a run ends whose end is on no disk. The next load ends it there in the same way."""
        if end.outcome != "error":
            end = self._asking_again(End("error", [], reason, "history"))
        # Nobody may take it for open.
        self._conversation.open_run = None
        if end.outcome == "interrupt":
            self._conversation.suspended = self._ended(end, usage)
        return end

    def _report(self, end: End) -> None:
        """A subagent's turn is over, unless the run waits for a person."""
        if self._reports is None:
            return
        calls = self._calls
        self._reports.add(
            calls.succeeded if calls else 0, calls.failed if calls else 0, self._usage.values()
        )
        if end.outcome != "interrupt":
            error = STOPPED if end.outcome == "cancelled" else end.error or None
            self._say(self._reports.tell(error))

    def _ended(self, end: End, usage: list[Usage] | None) -> RunEnded:
        return RunEnded(
            run_id=self.run_id,
            outcome=end.outcome,
            interrupts=end.interrupts,
            error=end.error or None,
            code=end.code or None,
            usage=usage,
            result=self._result(end),
            pending=end.pending,
        )

    def _result(self, end: End) -> dict[str, object] | None:
        """A cancelled run carries no result; the protocol wants it so."""
        if end.outcome in ("cancelled", "error"):
            return None
        result: dict[str, object] = {"totalToolCalls": self._call_count}
        if self._cost is not None:
            result["cost"] = round(self._cost, 6)
        return result

    async def _close(self, end: End) -> None:
        """Leave nothing open: the response's items, and calls that nobody will answer now."""
        if self._response is not None:
            self._call_count += len(await self._response.close())
        if end.outcome not in ("cancelled", "error") or self._calls is None:
            return
        for record in self._conversation.unanswered():
            if record.started_at is None:
                error = "Not run: the run ended before."
            else:
                error = "Stopped before it was done; what it did until then is done."
            await self._calls.finish(record.call.id, ToolResult(success=False, error=error))
