"""A panel's requests for one tool each: the same rules as a model's calls, outside of any run.

Every request is answered by exactly one `tool_result`, whatever happens. One that needs approval
asks its requester, and nobody answers for long: it counts as declined then. It is recorded in the
history as what it is, and is no part of what the model reads.
"""

from collections.abc import Callable, Mapping

import anyio
from anyio.abc import TaskGroup

from agent.domain.approval import PLAN_REFUSAL, Effect, Verdict
from agent.domain.entries import Entry, StateSet, ToolAnswered, ToolRequested
from agent.domain.events import Custom
from agent.domain.ports import BadArguments, HistoryFailed, Log, PreparedCall, ToolResult
from agent.equipment import Equipment, StartFailed
from agent.gate import gate
from agent.outputs import fitted
from agent.recorder import Recorder
from agent.supply import Supply

Frame = Mapping[str, object]

# At the same time; a panel that wants more is told to wait.
_MOST = 64
_RECORDING = 5.0


def _failed(error: str) -> ToolResult:
    return ToolResult(success=False, error=error)


class ToolRequests:
    """The requests that are under way, by id."""

    def __init__(
        self,
        recorder: Recorder,
        supply: Supply,
        write: Callable[[Mapping[str, object]], None],
        tell: Callable[[Custom], None],
        log: Log,
    ) -> None:
        self._rec = recorder
        self._supply = supply
        self._write = write
        self._tell = tell
        self._log = log
        self._open: set[str] = set()
        self._asked: dict[str, tuple[anyio.Event, list[bool]]] = {}

    def take(self, frame: Frame, tasks: TaskGroup, chosen: anyio.Event) -> None:
        """Serve a request in a task of its own, once the mode that was chosen before it counts."""
        request_id = frame.get("id")
        if not isinstance(request_id, str) or not request_id:
            self._log("info", "tool_request_without_id")
        elif request_id in self._open:
            self._answer(request_id, _failed("A request with this id is being served."))
        elif len(self._open) >= _MOST:
            self._answer(request_id, _failed("Too many requests at once; try again later."))
        else:
            self._open.add(request_id)
            tasks.start_soon(self._serve, request_id, frame, chosen)

    def decide(self, frame: Frame) -> None:
        """An `approval_response`: the first one that fits counts, and only a plain yes approves."""
        asked = self._asked.pop(str(frame.get("tool_call_id")), None)
        if asked is None:
            self._log("info", "approval_ignored")
            return
        answered, approved = asked
        approved.append(frame.get("approved") is True)
        answered.set()

    async def _serve(self, request_id: str, frame: Frame, chosen: anyio.Event) -> None:
        result = _failed("The worker ended before the tool did; what it did until then is done.")
        try:
            await chosen.wait()
            result = await self._result(request_id, frame)
        except StartFailed as exc:
            result = _failed(str(exc))
        except Exception as exc:  # a bug in a tool ends its request, not the worker
            self._log("error", "tool_request_crashed", exc_info=exc)
            result = _failed("Something went wrong inside roost; the log has the details.")
        finally:
            self._open.discard(request_id)
            self._asked.pop(request_id, None)
            with anyio.move_on_after(_RECORDING, shield=True):
                await self._record(request_id, str(frame.get("tool_name")), result)
            self._answer(request_id, result)

    async def _result(self, request_id: str, frame: Frame) -> ToolResult:
        equipment = await self._supply.wait()
        name, arguments = frame.get("tool_name"), frame.get("tool_args") or "{}"
        tool = equipment.find(name) if isinstance(name, str) else None
        if tool is None:
            return _failed(equipment.why_not(str(name)[:80]))
        if tool.spec.effect in (Effect.ASKS, Effect.PLANS):
            return _failed("Not run: a person can only be asked in a run.")
        if not isinstance(arguments, str):
            return _failed("Not run: tool_args must be a string that holds JSON.")
        try:
            call = tool.prepare(arguments.encode("utf-8", "replace"))
        except BadArguments as exc:
            return _failed(f"Not run: {exc}")
        # No judge is asked: whoever sent the request is there to be asked (docs/how-to/modes.md).
        match await gate(equipment, tool.spec.name, tool.spec.effect, call):
            case Verdict.REFUSE:
                return _failed(PLAN_REFUSAL)
            case Verdict.ASK | Verdict.JUDGE if not await self._approved(
                request_id, frame, equipment
            ):
                return _failed("Not run: it was not approved.")
            case _:
                pass
        return await self._run(request_id, tool.spec.name, tool.spec.effect, arguments, call)

    async def _run(
        self, request_id: str, name: str, effect: Effect, arguments: str, call: PreparedCall
    ) -> ToolResult:
        if effect in (Effect.CHANGES, Effect.RUNS):
            try:
                await self._rec.record(
                    ToolRequested(request_id=request_id, tool=name, arguments=arguments)
                )
            except HistoryFailed as exc:
                return _failed(f"Not run: {exc}")
        result = await call.run()
        if result.job is not None:
            return _failed("Not run: only a run can leave work in the background.")
        archive = self._supply.ready.archive if self._supply.ready else None
        return await fitted(result, archive, self._rec.conversation.conversation_id, request_id)

    async def _approved(self, request_id: str, frame: Frame, equipment: Equipment) -> bool:
        answered = anyio.Event()
        approved: list[bool] = []
        self._asked[request_id] = (answered, approved)
        value: dict[str, object] = {
            "type": "approval_request",
            "tool_name": frame.get("tool_name"),
            "tool_args": frame.get("tool_args") or "{}",
            "tool_call_id": request_id,
        }
        self._tell(Custom(name="approval_request", value=value))
        with anyio.move_on_after(equipment.tool_approval_timeout):
            await answered.wait()
        return approved == [True]

    async def _record(self, request_id: str, name: str, result: ToolResult) -> None:
        answered = ToolAnswered(
            request_id=request_id,
            tool=name[:80],
            success=result.success,
            output=result.output,
            error=result.error,
        )
        states: list[Entry] = [StateSet(key=k, value=v) for k, v in result.state.items()]
        try:
            await self._rec.record(answered, *states)
        except HistoryFailed as exc:
            self._log("warning", "tool_request_not_recorded", reason=str(exc))

    def _answer(self, request_id: str, result: ToolResult) -> None:
        self._write(
            {
                "type": "tool_result",
                "id": request_id,
                "success": result.success,
                "output": result.output,
                "error": result.error,
            }
        )
