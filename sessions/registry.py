"""The registry: every thread of the daemon.

Decides which thread a client's frame is for; what it means there is `sessions.domain.thread`, and
the tasks that own workers are in `sessions.workers`. `handle` and the other ports are plain
functions, to be called from the event loop while `serving` is entered.
"""

import math
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
import structlog

from sessions.domain import frames, rights
from sessions.domain.done import AgentsDone
from sessions.domain.frames import BadFrame
from sessions.domain.keys import BadKey, Cursor, ThreadKey, ThreadOptions
from sessions.domain.ports import (
    BrowserRelay,
    Client,
    FindSurvivors,
    LaunchWorker,
    SessionsError,
    ThreadView,
    Watcher,
)
from sessions.domain.ring import Attachment, Coverage
from sessions.domain.settings import RegistrySettings
from sessions.domain.thread import Orders, Phase, Thread
from sessions.domain.waiting import Held
from sessions.workers import STOP_MARGIN, Workers

log = structlog.stdlib.get_logger()

_CLOSING = "the daemon is shutting down; nothing was started. Connect again when it is back"
_FORWARDED = frozenset({"run_agent_input", "interrupt", "user_question_response", "command"})


class RequestFailed(SessionsError):
    """A request of the daemon itself got no reply. The message says why."""


class Registry:
    """Implements `Threads`. Everything it knows is in memory; the truth is in the conversations."""

    def __init__(
        self,
        launch: LaunchWorker,
        settings: RegistrySettings,
        relay: BrowserRelay | None = None,
        survivors: FindSurvivors | None = None,
    ) -> None:
        self._settings = settings
        self._survivors = survivors
        self._workers = Workers(launch, settings, relay, self._worker_ended)
        self._orders = Orders(
            launch=self._launch,
            browser=None if relay is None else self._workers.browse,
            changed=self._changed,
            deadline_moved=self._deadline_moved_to,
        )
        self._threads: dict[ThreadKey, Thread] = {}
        self._following: dict[Client, Thread] = {}
        self._is_closing = False
        self._grace = settings.stop_grace
        self._deadline_moved = anyio.Event()
        self._sleeps_until = -math.inf
        self._some_worker_ended = anyio.Event()
        self._watchers: list[Watcher] = []
        self._done = AgentsDone()
        self.ignored: Counter[str] = Counter()
        """Client frames that were ignored: undecodable ones, and unknown types."""

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Own the workers while the block runs; leaving it ends them all, in the grace.

        That holds when the block is cancelled, too: the wait is shielded, and bounded. Workers that
        an earlier daemon left are ours before the block begins.
        """
        async with anyio.create_task_group() as deadlines:
            deadlines.start_soon(self._keep_deadlines)
            async with self._workers.serving():
                try:
                    await self._adopt_survivors()
                    yield
                finally:
                    self._is_closing = True
                    if self._workers.leaves_workers:
                        self._workers.end_by(anyio.current_time())
                    else:
                        self._stop_all()
            deadlines.cancel_scope.cancel()
        if self.ignored:
            log.info("frames_ignored", **self.ignored)

    def leave_workers(self) -> None:
        """Leave the workers running at the end, where the launcher can do that."""
        self._workers.leaves_workers = True

    async def _adopt_survivors(self) -> None:
        found = await self._survivors() if self._survivors is not None else ()
        for survivor in found:
            if survivor.thread in self._threads:
                # Two workers of one conversation: only one of them can have its file.
                async with survivor.worker:
                    log.warning(
                        "second_worker_ended", conversation_id=survivor.thread.conversation_id
                    )
                continue
            now = anyio.current_time()
            options = survivor.note.options()
            thread = Thread(survivor.thread, options, self._settings, self._orders, now)
            self._threads[survivor.thread] = thread
            await self._workers.adopt(thread, survivor)

    def hurry(self) -> None:
        """Shorten every grace to zero: of the stop that goes on, or of the one that will come."""
        self._grace = 0.0
        if self._is_closing:
            self._stop_all()

    def _stop_all(self) -> None:
        now = anyio.current_time()
        self._workers.end_by(now + self._grace + STOP_MARGIN)
        for thread in self._threads.values():
            thread.stop(now, grace=self._grace, reason="was stopped with the daemon")

    # Threads, the driving side

    def handle(self, client: Client, frame: bytes) -> None:
        """Decide what a frame from this client means. Bad frames never raise."""
        kind = frames.kind(frame)
        try:
            if kind in ("new_session", "resume_conversation"):
                self._open(client, frame, is_new=kind == "new_session")
            elif kind in _FORWARDED:
                self._forward(client, kind, frame)
            elif kind in frames.PANEL:
                self._ask(client, kind, frame)
            elif kind == "approval_response":
                self._decide(client, frame)
            elif kind == "stop_thread":
                self._stop_thread(client, frame)
            else:
                self.ignored["undecodable" if kind is None else "unknown_type"] += 1
        except (BadFrame, BadKey) as exc:
            client.deliver(frames.bare_error(f"{kind}: {exc}", "bad_frame"), None)
        except rights.NotAllowed as exc:
            client.deliver(frames.bare_error(f"{kind}: {exc}", "not_allowed"), None)

    def detach(self, client: Client) -> None:
        """Forget the client, at once. A run goes on without it."""
        self._following.pop(client, None)
        now = anyio.current_time()
        for thread in list(self._threads.values()):
            thread.detach(client, now)
            self._forget_if_over(thread)

    def attach(
        self,
        client: Client,
        thread: ThreadKey,
        cursor: Cursor | None = None,
        *,
        options: ThreadOptions | None = None,
        last_messages: int | None = None,
    ) -> Attachment:
        """Make the client follow the thread from where it left off, or from a snapshot on.

        For adapters of people's clients: it asks for no rights.
        """
        known = self._threads.get(thread)
        if self._is_closing or (known is not None and known.refuses(client)):
            if self._is_closing:
                client.deliver(frames.bare_error(_CLOSING, "shutting_down"), None)
            return Attachment(coverage=Coverage.UNAVAILABLE, current=None, reason="refused")
        project_dir, conversation_id = thread.project_dir, thread.conversation_id
        frame = frames.resume_conversation(project_dir, conversation_id, last_messages)
        state = self._follow(client, thread, options or ThreadOptions())
        return state.attach(client, frame, cursor, anyio.current_time())

    def view(self, thread: ThreadKey) -> ThreadView | None:
        """One thread, or None when it is not known now."""
        known = self._threads.get(thread)
        return None if known is None else known.view()

    def views(self) -> Sequence[ThreadView]:
        """Every thread the registry knows now."""
        return [thread.view() for thread in self._threads.values()]

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Tell the watcher of every change of a view. Returns what ends that; safe to repeat."""
        self._watchers.append(watcher)

        def end() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return end

    def worker_with(self, token: str) -> ThreadKey | None:
        """The thread whose present worker was given this token."""
        return self._workers.worker_with(token)

    # Hooks for whoever moves sessions between daemons, and for a daemon that ends by itself

    async def quiesce(self, key: ThreadKey) -> None:
        """End the run and the worker of a thread and keep its clients; returns when it is gone.

        The next run input launches a worker again. Raises TimeoutError when the worker outlives
        its grace by far.
        """
        thread = self._threads.get(key)
        if thread is None:
            return
        with anyio.fail_after(self._settings.stop_grace + STOP_MARGIN):
            thread.stop(anyio.current_time(), reason="was moved")
            while thread.phase is not Phase.ABSENT:
                await self._some_worker_ended.wait()

    def deliver(self, key: ThreadKey, frame: bytes) -> None:
        """Deliver one frame to everyone who follows a thread."""
        thread = self._threads.get(key)
        if thread is not None:
            thread.tell(frame)

    async def request(self, project_dir: str, frame: bytes) -> bytes:
        """Put one panel request to a worker of that project. Raises RequestFailed."""
        asking = _Asking()
        kind = frames.kind(frame)
        if kind not in frames.PANEL:
            raise RequestFailed(f"{kind} is no panel request")
        try:
            self._ask(asking, kind, frame, project_dir=project_dir)
            await asking.answered.wait()
        except (BadFrame, BadKey) as exc:
            raise RequestFailed(str(exc)) from exc
        finally:
            self.detach(asking)
        reply = asking.replies[0]
        if frames.kind(reply) == "RUN_ERROR":
            raise RequestFailed(reply.decode())
        return reply

    def teleported_here(self, key: ThreadKey) -> None:
        """A session has arrived from another daemon."""
        self._done.teleported_here(key)

    def teleported_away(self, key: ThreadKey) -> None:
        """A session has left for another daemon."""
        self._done.teleported_away(key)

    def all_teleported_away(self) -> bool:
        """Every session that came here has left; false when none ever came."""
        return self._done.all_teleported_away

    def agents_done(self) -> bool:
        """Of every thread that ever ran here the last run has ended, and waits for nobody."""
        return self._done.agents_done

    def idle(self) -> bool:
        """Nobody follows, no run is open, nobody waits, and no background job runs."""
        return not any(thread.is_needed for thread in self._threads.values())

    # Decisions

    def _open(self, client: Client, frame: bytes, *, is_new: bool) -> None:
        opened = frames.decode(frames.open_frame, frame)
        conversation_id = str(uuid.uuid4()) if is_new else opened.id
        key = ThreadKey.parse(opened.project_dir, conversation_id)
        options = opened.options()
        if client.inside is not None:
            recorded = {k: t.options for k, t in self._threads.items()}
            rights.check_thread(client.inside, key, options, recorded)
        if self._is_closing:
            client.deliver(frames.bare_error(_CLOSING, "shutting_down"), None)
            return
        if self._is_too_long(Held(client=client, frame=frame, relaunches=True)):
            return
        known = self._threads.get(key)
        if known is not None and known.refuses(client):
            return
        self._follow(client, key, options).open(client, frame, anyio.current_time())

    def _follow(self, client: Client, key: ThreadKey, options: ThreadOptions) -> Thread:
        """The client's thread from here on; it leaves the one it followed."""
        now = anyio.current_time()
        thread = self._threads.get(key)
        if thread is None:
            thread = Thread(key, options, self._settings, self._orders, now)
            self._threads[key] = thread
        before = self._following.get(client)
        if before is not None and before is not thread:
            before.detach(client, now)
            self._forget_if_over(before)
        self._following[client] = thread
        return thread

    def _forward(self, client: Client, kind: str, frame: bytes) -> None:
        held = Held(client=client, frame=frame, relaunches=kind in ("run_agent_input", "command"))
        if kind == "run_agent_input":
            held.answered = frames.decode(frames.run_input_frame, frame).answered
        else:
            held.replies = frames.asks_for(kind, frame)
        if client.inside is not None:
            rights.check_frame(kind, held.answered)
        thread = self._following.get(client)
        if thread is None:
            self._refuse(held, "you follow no thread: open a thread first", "no_thread")
        elif self._admits(held):
            thread.forward(held, anyio.current_time())

    def _ask(self, client: Client, kind: str, frame: bytes, project_dir: str | None = None) -> None:
        """A panel request, for the client's own thread or for any worker of the project."""
        asked = frames.decode(frames.panel_frame, frame)
        replies = frames.asks_for(kind, frame)
        held = Held(client=client, frame=frame, relaunches=True, replies=replies)
        if client.inside is not None:
            rights.check_frame(kind, frozenset())
        project_dir = project_dir or asked.project_dir
        own = self._following.get(client)
        if project_dir is None:
            if own is None:
                text = "name a project_dir, or open a thread first"
                self._refuse(held, text, "no_thread")
                return
            thread = own
        else:
            thread = self._serving(own, ThreadKey.parse(project_dir, str(uuid.uuid4())))
        if self._admits(held):
            self._threads.setdefault(thread.key, thread)
            thread.forward(held, anyio.current_time())

    def _serving(self, own: Thread | None, fresh: ThreadKey) -> Thread:
        """Which thread answers for a project: one's own, one with a worker, or a fresh one."""
        if own is not None and own.key.project_dir == fresh.project_dir:
            return own
        for phase in (Phase.RUNNING, Phase.LAUNCHING):
            for thread in self._threads.values():
                if thread.key.project_dir == fresh.project_dir and thread.phase is phase:
                    return thread
        return Thread(fresh, ThreadOptions(), self._settings, self._orders, anyio.current_time())

    def _decide(self, client: Client, frame: bytes) -> None:
        """The first decision about a tool request counts; others find nothing to decide."""
        decision = frames.decode(frames.approval_frame, frame)
        if client.inside is not None:
            rights.check_frame("approval_response", frozenset())
        now = anyio.current_time()
        for thread in self._threads.values():
            if thread.decide(
                client, decision.tool_call_id, approved=decision.approved, frame=frame, now=now
            ):
                return

    def _admits(self, held: Held) -> bool:
        if self._is_closing:
            self._refuse(held, _CLOSING, "shutting_down")
            return False
        return not self._is_too_long(held)

    def _refuse(self, held: Held, text: str, code: str) -> None:
        """Answer a frame that goes nowhere, as its kind is answered."""
        for key in held.replies:
            kind, _, request = key.partition(":")
            if kind == "command_result":
                held.client.deliver(frames.command_failed(request, "no_worker", text), None)
                return
            if kind == "tool_result":
                held.client.deliver(frames.tool_failed(request, text), None)
        held.client.deliver(frames.bare_error(text, code), None)

    def _is_too_long(self, held: Held) -> bool:
        limit = self._settings.max_line_bytes
        size = len(held.frame)
        if size <= limit:
            return False
        text = f"this is {size:,} bytes; a worker takes at most {limit:,}. Nothing was sent"
        self._refuse(held, text, "line_too_long")
        return True

    def _stop_thread(self, client: Client, frame: bytes) -> None:
        named = frames.decode(frames.stop_frame, frame)
        key = ThreadKey.parse(named.project_dir, named.id)
        recorded = {k: t.options for k, t in self._threads.items()}
        if client.inside is not None:
            rights.check_thread(client.inside, key, ThreadOptions(), recorded)
        for known, thread in list(self._threads.items()):
            is_child = named.subagents and rights.is_below(key, thread.options, recorded)
            if known == key or is_child:
                thread.stop(anyio.current_time())

    def _forget_if_over(self, thread: Thread) -> None:
        """But for one with subagents: those are found by way of it when what is above it stops."""
        name = thread.key.conversation_id
        if (
            not thread.is_forgettable
            or self._threads.get(thread.key) is not thread
            or any(other.parent == name for other in self._threads.values())
        ):
            return
        del self._threads[thread.key]
        self._tell_watchers(thread.key, None)
        for other in [t for t in self._threads.values() if t.key.conversation_id == thread.parent]:
            self._forget_if_over(other)

    def _changed(self, thread: Thread) -> None:
        view = thread.view()
        is_running, is_waiting = view.run_id is not None, bool(view.interrupts)
        self._done.saw(thread.key, is_running=is_running, is_waiting=is_waiting)
        self._tell_watchers(thread.key, view)

    def _tell_watchers(self, key: ThreadKey, view: ThreadView | None) -> None:
        for watcher in tuple(self._watchers):
            watcher(key, view)

    # Workers and deadlines

    def _launch(self, thread: Thread, delay: float) -> None:
        if self._is_closing:
            thread.launch_failed(_CLOSING, anyio.current_time())
        else:
            self._workers.launch(thread, delay)

    def _worker_ended(self, thread: Thread) -> None:
        self._forget_if_over(thread)
        ended, self._some_worker_ended = self._some_worker_ended, anyio.Event()
        ended.set()

    def _deadline_moved_to(self, deadline: float | None) -> None:
        """One that is later than before is found when the earlier one is looked at."""
        if deadline is not None and deadline < self._sleeps_until:
            self._deadline_moved.set()

    async def _keep_deadlines(self) -> None:
        """Sleep until the earliest deadline of any thread, or until there is an earlier one."""
        while True:
            self._deadline_moved = anyio.Event()
            now = anyio.current_time()
            for thread in list(self._threads.values()):
                deadline = thread.next_deadline
                if deadline is not None and deadline <= now:
                    thread.check_deadlines(now)
                    self._forget_if_over(thread)
            due = [t.next_deadline for t in self._threads.values()]
            self._sleeps_until = min((d for d in due if d is not None), default=math.inf)
            with anyio.CancelScope(deadline=self._sleeps_until):
                await self._deadline_moved.wait()


class _Asking:
    """The daemon itself as a client: keeps what it is told, and says when something came."""

    inside = None

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.answered = anyio.Event()

    def deliver(self, frame: bytes, cursor: Cursor | None) -> None:
        self.replies.append(frame)
        self.answered.set()

    def deliver_row(self, events: Sequence[tuple[bytes, Cursor]]) -> None:
        for frame, cursor in events:
            self.deliver(frame, cursor)
