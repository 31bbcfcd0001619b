"""The calls of one response: which run at once, which wait for a person, and what they came to.

A call with effects is recorded as started, synced, before it starts; with its result recorded too
it can never run twice, and without one its outcome is called unknown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import anyio
import msgspec

from agent.domain import plans
from agent.domain.approval import PLAN_REFUSAL, Effect, Verdict
from agent.domain.conversation import Answer
from agent.domain.entries import CallStarted, Entry, JobStarted, Resulted, StateSet
from agent.domain.events import Interrupt, ToolCallResult
from agent.domain.messages import ToolCall, result_text
from agent.domain.ports import BadArguments, PreparedCall, ResponseDone, ToolResult
from agent.domain.questions import (
    DISMISSED,
    INPUT_REQUIRED,
    TOOL,
    BadAnswer,
    answer_text,
    questions_of,
    response_schema,
)
from agent.domain.transcript import tool_message
from agent.equipment import Equipment
from agent.gate import gate
from agent.jobs import MOST, Jobs
from agent.judge import Judge
from agent.outputs import fitted
from agent.say import Say
from agent.tool_output import ToolOutput

_RESPONSE_SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "description": "false declines; absent approves"},
        "reason": {"type": "string", "description": "told to the model when declined"},
    },
}
_SHOWN_SUMMARY = 300
_CUT = (
    "Your answer reached the most that you may write at once before the call was whole: do it in"
    " smaller pieces, such as a short file first and then an Edit for each further part."
)
_OVERTAKEN = (
    "Not run: the user has said something meanwhile. Read it, and make this call again if it is"
    " still wanted."
)
_TOO_MANY_JOBS = f"Not run: {MOST} jobs run in the background already. Wait for one to end."


@dataclass(frozen=True, slots=True)
class _Ready:
    call: ToolCall
    effect: Effect
    prepared: PreparedCall


class Calls:
    """Runs the calls of one run, one after the other."""

    def __init__(
        self, say: Say, equipment: Equipment, jobs: Jobs, count: Callable[[ResponseDone], None]
    ) -> None:
        self._say = say
        self._judge = Judge(say, count)
        self._rec = say.recorder
        self._jobs = jobs
        self.equipment = equipment
        self.is_running = False
        self.succeeded = 0
        self.failed = 0

    async def handle(self, calls: Sequence[ToolCall], *, was_cut: bool = False) -> list[Interrupt]:
        """Run what may run, refuse what may not, and return what a person is asked for.

        Of an answer that was cut, the last call may be half. What a person says meanwhile is heard
        after the call that runs: those that have not begun are left to the model to make again.
        """
        waiting: list[Interrupt] = []
        for place, call in enumerate(calls):
            await self._say.wait_writable()
            if place and self._is_spoken_to():
                await self.finish(call.id, ToolResult(success=False, error=_OVERTAKEN))
                continue
            ready = self._prepare(call)
            if isinstance(ready, ToolResult):
                if was_cut and call is calls[-1]:
                    ready = replace(ready, error=f"{ready.error} {_CUT}")
                await self.finish(call.id, ready)
                continue
            name = call.function.name
            match await gate(self.equipment, name, ready.effect, ready.prepared):
                case Verdict.RUN:
                    await self._run(ready)
                case Verdict.REFUSE:
                    await self.finish(call.id, ToolResult(success=False, error=PLAN_REFUSAL))
                case Verdict.ASK:
                    waiting.append(_interrupt(ready))
                case Verdict.JUDGE:
                    judged = await self._judge.judge(self.equipment, call, ready.effect)
                    if judged.allows:
                        await self._run(ready)
                    else:
                        waiting.append(_interrupt(ready, judged.reason))
        return waiting

    async def resume(self, calls: Mapping[str, ToolCall], answers: Sequence[Answer]) -> None:
        """Run what was approved and say of the rest that it was declined, in the calls' order."""
        decided = {answer.interrupt_id: answer for answer in answers}
        for call_id, call in calls.items():
            await self._say.wait_writable()
            answer = decided.get(call_id)
            if call.function.name == TOOL:
                await self.finish(call_id, _answer(call, answer))
                continue
            if call.function.name == plans.TOOL:
                await self.finish(call_id, _plan_answer(answer))
                continue
            if answer is None or not answer.approved:
                reason = f": {answer.reason}" if answer and answer.reason else ""
                declined = f"Not run: declined by the user{reason}."
                await self.finish(call_id, ToolResult(success=False, error=declined))
                continue
            ready = self._prepare(call)
            if isinstance(ready, ToolResult):
                await self.finish(call_id, ready)
            else:
                await self._run(ready)

    async def finish(self, call_id: str, result: ToolResult) -> None:
        """Record and tell what a call came to; waits for the disk only. Raises HistoryFailed."""
        conversation_id = self._rec.conversation.conversation_id
        result = await fitted(result, self.equipment.archive, conversation_id, call_id)
        told = ToolCallResult(
            message_id=self._say.new_id(),
            tool_call_id=call_id,
            content=result_text(success=result.success, output=result.output, error=result.error),
            role="tool",
        )
        message = tool_message(told)
        if not result.success:
            message = msgspec.structs.replace(message, error=result.error or "failed")
        more: list[Entry] = [StateSet(key=key, value=value) for key, value in result.state.items()]
        if (job := result.job) is not None:
            more.append(JobStarted(job_id=call_id, label=job.label, detail=job.detail))
        await self._rec.record(Resulted(message=message), *more)
        self.succeeded += result.success
        self.failed += not result.success
        if job is not None:
            self._jobs.start(call_id, job, self._rec.now())
        self._say(told)
        for key, value in result.state.items():
            self._say.state(key, value)

    def _is_spoken_to(self) -> bool:
        """Does something wait that a person said, for this run to take in?"""
        waiting = self._rec.conversation.queue.steering()
        return any(each.message.is_of_a_person for each in waiting)

    def _prepare(self, call: ToolCall) -> _Ready | ToolResult:
        tool = self.equipment.find(call.function.name)
        if tool is None:
            return ToolResult(success=False, error=self.equipment.why_not(call.function.name))
        try:
            prepared = tool.prepare(call.function.arguments.encode() or b"{}")
        except BadArguments as exc:
            return ToolResult(success=False, error=f"Not run: {exc}")
        return _Ready(call, tool.spec.effect, prepared)

    async def _run(self, ready: _Ready) -> None:
        if ready.effect in (Effect.CHANGES, Effect.RUNS, Effect.DELEGATES):
            await self._rec.record(CallStarted(tool_call_id=ready.call.id))
        self.is_running = True
        try:
            result = await self._run_telling(ready)
        finally:
            self.is_running = False
        await self.finish(ready.call.id, result)

    async def _run_telling(self, ready: _Ready) -> ToolResult:
        output = ToolOutput(self._say, ready.call.id)
        result = ToolResult(success=False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(output.serve)
            result = await ready.prepared.run(output)
            tasks.cancel_scope.cancel()
        if result.job is not None and not self._jobs.has_room:
            return ToolResult(success=False, error=_TOO_MANY_JOBS)
        return result


def _interrupt(ready: _Ready, judged: str = "") -> Interrupt:
    call, summary = ready.call, ready.prepared.summary
    shown = summary if len(summary) <= _SHOWN_SUMMARY else summary[: _SHOWN_SUMMARY - 3] + "..."
    if ready.effect is Effect.ASKS:
        return Interrupt(
            id=call.id,
            reason=INPUT_REQUIRED,
            message=shown,
            tool_call_id=call.id,
            response_schema=response_schema(questions_of(call.function.arguments)),
        )
    if ready.effect is Effect.PLANS:
        message, schema = f"The plan waits for you: {shown}", plans.RESPONSE_SCHEMA
    else:
        message, schema = f"{call.function.name} waits for your approval: {shown}", _RESPONSE_SCHEMA
    return Interrupt(
        id=call.id,
        reason="tool_call",
        message=f"{message} (the judge: {judged})" if judged else message,
        tool_call_id=call.id,
        response_schema=schema,
    )


def _answer(call: ToolCall, answer: Answer | None) -> ToolResult:
    """The result of a question: what the person said, or that they said nothing."""
    if answer is None or not answer.approved:
        return ToolResult(success=False, error=DISMISSED)
    try:
        text = answer_text(questions_of(call.function.arguments), answer.payload)
    except BadAnswer as exc:
        return ToolResult(success=False, error=str(exc))
    return ToolResult(success=True, output=text)


def _plan_answer(answer: Answer | None) -> ToolResult:
    """The result of a plan: what accepting it changed, or that it was not accepted."""
    if answer is not None and answer.approved:
        return ToolResult(success=True, output=plans.accepted(answer.payload))
    reason = f": {answer.reason}" if answer and answer.reason else ""
    error = f"The user did not accept the plan{reason}. The mode is still 'plan'."
    return ToolResult(success=False, error=error)
