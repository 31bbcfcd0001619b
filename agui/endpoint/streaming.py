"""The two requests that stream: a run of an input, and a connection to what goes on.

Up to the first byte everything that is wrong is a refusal; from then on the stream tells it. A
client that goes away takes nothing with it: the run goes on, and `connect` finds it again.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import anyio
import structlog

from agui.endpoint.agents import Agent
from agui.endpoint.beginnings import Beginnings
from agui.endpoint.event_stream import KEEP_ALIVE, EventStream, Stalled, framed
from agui.endpoint.follower import Ended, Frame
from agui.endpoint.joining import Join, knows_run
from agui.endpoint.refusal import Refused
from agui.endpoint.run_input import RunInput
from agui.endpoint.visit import Visit
from agui.settings import BindingSettings
from agui.stream.documents import Documents
from agui.stream.downgrade import Downgrade, is_old
from agui.stream.guard import StreamGuard
from agui.stream.json_patch import BadPatch, decoded
from agui.stream.outgoing import Outgoing
from sessions.domain.keys import Cursor
from sessions.domain.ports import ThreadView

Receive = Callable[[], Awaitable[Any]]

log = structlog.get_logger()


async def run(
    visit: Visit,
    given: RunInput,
    agent: Agent,
    stream: EventStream,
    receive: Receive,
    settings: BindingSettings,
    beginnings: Beginnings,
) -> None:
    """Have the input run, and stream that run to its end. Raises Refused."""
    # What can't be read in the input is refused before anything is run.
    telling = _Telling(stream, _outgoing(given), settings.keep_alive_interval)
    with beginnings.of(visit.key, given.run_id) as beginning:
        join = await _welcome(visit, given, agent, settings)
        _check(visit.view(), given)
        beginnings.hand_over(visit.key, beginning)
        frame = given.frame(join.snapshot, own_run=settings.own_worker)
        visit.threads.handle(visit.follower, frame)
        first, run_id = await visit.run_started(given.run_id, is_named=settings.own_worker)
        if beginning.is_stopped:
            visit.hand_over({"type": "interrupt"})
    telling.outgoing.guard.know(list(given.messages))
    telling.outgoing.rename(run_id, given.run_id)
    await telling.tell_all(visit, [first], receive)


async def _welcome(visit: Visit, given: RunInput, agent: Agent, settings: BindingSettings) -> Join:
    """The thread as it is, on which there was no run of this id. Raises Refused."""
    asks = settings.own_worker and visit.follower.inside is None
    visit.open(agent.options())
    if asks:
        visit.ask("find_run", {"runId": given.run_id})
    join = await visit.join()
    if asks and knows_run(await visit.answer("find_run")):
        text = "The thread has had a run of this id. Nothing was run; a new run needs a new id."
        raise Refused(409, "used_run_id", text)
    return join


async def connect(
    visit: Visit,
    given: RunInput,
    agent: Agent,
    cursor: Cursor | None,
    stream: EventStream,
    receive: Receive,
    settings: BindingSettings,
) -> None:
    """Tell what the client missed, or the thread as it is; then follow the open run to its end.

    Raises Refused.
    """
    telling = _Telling(stream, _outgoing(given), settings.keep_alive_interval)
    missed = visit.come_back(cursor, agent.options())
    if missed is not None:
        await telling.replay(visit, missed, receive)
        return
    telling.outgoing.guard.is_joiner = True
    join = await visit.join()
    if join.is_running:
        await telling.tell_all(visit, _uncounted(join.of_open_run()), receive)
    else:
        lines = await _restated(visit, join, given, settings)
        await telling.tell_all(visit, _uncounted(lines), receive)


async def _restated(
    visit: Visit, join: Join, given: RunInput, settings: BindingSettings
) -> list[bytes]:
    state: bytes | None = None
    if settings.own_worker and visit.follower.inside is None:
        visit.ask("get_state")
        state = await visit.answer("get_state")
    return join.restated(given.thread_id, given.run_id, state)


@dataclass(slots=True)
class _Telling:
    """One stream, from its first event to its last."""

    stream: EventStream
    outgoing: Outgoing
    keep_alive_interval: float

    async def tell_all(self, visit: Visit, first: Iterable[Frame], receive: Receive) -> None:
        """Tell these frames, and what follows up to the end of the run."""
        await self._until_gone(visit, receive, lambda: self._run(visit, first))

    async def replay(self, visit: Visit, missed: int, receive: Receive) -> None:
        """Tell the events that were missed, and the rest of a run that is open behind them."""
        view = visit.view()
        is_open = view is not None and view.run_id is not None
        await self._until_gone(visit, receive, lambda: self._replay(visit, missed, is_open))

    async def _until_gone(
        self, visit: Visit, receive: Receive, tell: Callable[[], Awaitable[None]]
    ) -> None:
        """Do it, unless the client leaves or takes nothing any more."""
        reason = "the run ended"
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_when_gone, receive, tasks.cancel_scope)
                try:
                    await tell()
                except Ended as exc:
                    reason = str(exc)
                    await self.stream.end()
                tasks.cancel_scope.cancel()
        except* Stalled:
            reason = visit.follower.has_ended or "it took nothing for the whole write deadline"
            self.stream.abort()
        guard = self.outgoing.guard
        log.info(
            "http_stream_ended",
            conversation_id=visit.key.conversation_id,
            reason=reason,
            violation=guard.violation,
            dropped_events=guard.dropped + self.outgoing.unknown,
            lost_in_downgrade=self.outgoing.downgrade.lossy if self.outgoing.downgrade else 0,
        )

    async def _run(self, visit: Visit, first: Iterable[Frame]) -> None:
        await self.stream.begin()
        await self._tell(visit, first)
        if not (self.outgoing.guard.is_open or self.outgoing.has_ended):
            await self._write(visit, framed(self.outgoing.fail_to_begin()))
        await self._follow(visit)

    async def _replay(self, visit: Visit, missed: int, is_open: bool) -> None:
        await self.stream.begin()
        frames = [await visit.follower.next() for _ in range(missed)]
        if is_open or frames:
            self.outgoing.guard.begin_midway()
        await self._tell(visit, frames, to_first_end=False)
        if is_open:
            await self._follow(visit)
        else:
            await self.stream.end()

    async def _follow(self, visit: Visit) -> None:
        while not self.outgoing.has_ended:
            with anyio.move_on_after(self.keep_alive_interval) as quiet:
                await visit.follower.wait()
            if quiet.cancelled_caught:
                await self._write(visit, KEEP_ALIVE)
            else:
                await self._tell(visit, visit.follower.take())
        await self.stream.end()

    async def _tell(
        self, visit: Visit, frames: Iterable[Frame], *, to_first_end: bool = True
    ) -> None:
        """Write what the frames come to, at once."""
        parts: list[bytes] = []
        for line, cursor in frames:
            parts.append(framed(self.outgoing.take(line), cursor))
            if to_first_end and self.outgoing.has_ended:
                break
        await self._write(visit, b"".join(parts))

    async def _write(self, visit: Visit, data: bytes) -> None:
        visit.follower.is_writing = True
        await self.stream.write(data, lambda: visit.follower.has_ended is not None)
        visit.follower.is_writing = False


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _outgoing(given: RunInput) -> Outgoing:
    guard = StreamGuard(given.thread_id)
    try:
        guard.documents = Documents(decoded(given.body.state) or {})
    except BadPatch as exc:
        raise Refused(400, "bad_input", "state: it can't be read.", {"path": "state"}) from exc
    downgrade = Downgrade() if is_old(given.protocol_version) else None
    return Outgoing(guard, downgrade)


def _uncounted(lines: Iterable[bytes]) -> list[Frame]:
    """Lines that are no events of the thread: they have no place in it."""
    return [(line, None) for line in lines]


def _check(view: ThreadView | None, given: RunInput) -> None:
    """Whether the thread can take the input now. Raises Refused."""
    if view is None:
        return
    if view.run_id is not None:
        text = "A run is open on this thread. Nothing was run: stop it, or wait for its end."
        raise Refused(409, "run_active", text, {"runId": view.run_id})
    missing = sorted(set(view.interrupts) - given.answered)
    if missing:
        text = f"Nothing was run: the thread waits for an answer to {', '.join(missing)}."
        raise Refused(422, "incomplete_resume", text, {"missing": missing})
    if given.answered and (view.is_answering or not view.interrupts):
        text = "Nothing was run: what this answers is no longer open, or is being answered."
        raise Refused(409, "resume_not_open", text)
