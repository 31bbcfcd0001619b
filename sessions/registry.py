"""The registry: every thread of the daemon, and the tasks that own their workers.

Decides which thread a client's frame is for; what it means there is `sessions.domain.thread`.
`handle` and the other ports are plain functions, to be called from the event loop while `serving`
is entered. Each worker is owned by one task: it launches it, pumps its lines, and tells the thread
when it is gone.
"""

import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio
import structlog
from anyio.abc import TaskGroup

from sessions.domain import frames
from sessions.domain.frames import BadFrame
from sessions.domain.keys import BadKey, Cursor, Generation, ThreadKey, ThreadOptions
from sessions.domain.ports import Client, LaunchFailed, LaunchWorker, ThreadView, Worker
from sessions.domain.ring import Attachment
from sessions.domain.settings import RegistrySettings
from sessions.domain.thread import Phase, Thread
from sessions.domain.waiting import Held

log = structlog.stdlib.get_logger()

# How long the registry waits for its workers' tasks past the grace before it cancels them:
# SIGTERM's two seconds, and a little for the drain.
_STOP_MARGIN = 5.0
_CLOSING = "the daemon is shutting down; nothing was started. Connect again when it is back"
_FORWARDED = frozenset({"run_agent_input", "interrupt", "user_question_response", "command"})


class Registry:
    """Implements `Threads`. Everything it knows is in memory; the truth is in the conversations."""

    def __init__(self, launch: LaunchWorker, settings: RegistrySettings) -> None:
        self._launch = launch
        self._settings = settings
        self._threads: dict[ThreadKey, Thread] = {}
        self._following: dict[Client, Thread] = {}
        self._workers: TaskGroup | None = None
        self._is_closing = False
        self._deadline_moved = anyio.Event()
        self.ignored: Counter[str] = Counter()
        """Client frames that were ignored: undecodable ones, and unknown types."""

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Own the workers while the block runs; leaving it ends them all, in the grace.

        That holds when the block is cancelled, too: the wait is shielded, and bounded.
        """
        async with anyio.create_task_group() as deadlines:
            deadlines.start_soon(self._keep_deadlines)
            async with anyio.create_task_group() as workers:
                self._workers = workers
                try:
                    yield
                finally:
                    self._is_closing = True
                    workers.cancel_scope.shield = True
                    self._stop_all(self._settings.stop_grace)
            self._workers = None
            if workers.cancel_scope.cancelled_caught:
                log.warning("workers_outlived_the_grace")
            deadlines.cancel_scope.cancel()

    def hurry(self) -> None:
        """Shorten every grace to zero. Before the end has begun, it does nothing."""
        if self._is_closing:
            self._stop_all(0.0)

    def _stop_all(self, grace: float) -> None:
        now = anyio.current_time()
        if self._workers is not None:
            self._workers.cancel_scope.deadline = now + grace + _STOP_MARGIN
        for thread in self._threads.values():
            thread.stop(now, grace=grace, reason="was stopped with the daemon")

    # Threads, the driving side

    def handle(self, client: Client, frame: bytes) -> None:
        """Decide what a frame from this client means. Bad frames never raise."""
        kind = frames.kind(frame)
        try:
            if kind in ("new_session", "resume_conversation"):
                self._open(client, frame, is_new=kind == "new_session")
            elif kind in _FORWARDED:
                self._forward(client, kind, frame)
            elif kind == "stop_thread":
                self._stop_thread(frame)
            else:
                self.ignored["undecodable" if kind is None else "unknown_type"] += 1
        except (BadFrame, BadKey) as exc:
            client.deliver(frames.bare_error(f"{kind}: {exc}", "bad_frame"), None)

    def detach(self, client: Client) -> None:
        """Forget the client, at once. A run goes on without it."""
        self._following.pop(client, None)
        now = anyio.current_time()
        for thread in list(self._threads.values()):
            thread.detach(client, now)
            self._forget_if_over(thread)
        self._deadline_moved.set()

    def attach(self, client: Client, thread: ThreadKey, cursor: Cursor | None = None) -> Attachment:
        """Make the client follow the thread from where it left off, or from a snapshot on."""
        frame = frames.resume_conversation(thread.project_dir, thread.conversation_id)
        state = self._follow(client, thread, ThreadOptions())
        attachment = state.attach(client, frame, cursor, anyio.current_time())
        self._deadline_moved.set()
        return attachment

    def views(self) -> Sequence[ThreadView]:
        """Every thread the registry knows now."""
        return [thread.view() for thread in self._threads.values()]

    # Decisions

    def _open(self, client: Client, frame: bytes, *, is_new: bool) -> None:
        opened = frames.decode(frames.open_frame, frame)
        conversation_id = str(uuid.uuid4()) if is_new else opened.id
        key = ThreadKey.parse(opened.project_dir, conversation_id)
        options = opened.options()
        if self._is_closing:
            client.deliver(frames.bare_error(_CLOSING, "shutting_down"), None)
            return
        if self._is_too_long(client, frame):
            return
        self._follow(client, key, options).open(client, frame, anyio.current_time())
        self._deadline_moved.set()

    def _follow(self, client: Client, key: ThreadKey, options: ThreadOptions) -> Thread:
        """The client's thread from here on; it leaves the one it followed."""
        now = anyio.current_time()
        thread = self._threads.get(key)
        if thread is None:
            thread = Thread(key, options, self._settings, self._order_launch, now)
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
        elif kind == "command":
            held.command_id = frames.decode(frames.command_frame, frame).id
        thread = self._following.get(client)
        if thread is None:
            self._refuse(held, "you follow no thread: open a thread first", "no_thread")
        elif self._is_closing:
            self._refuse(held, _CLOSING, "shutting_down")
        elif not self._is_too_long(client, frame, held.command_id):
            thread.forward(held, anyio.current_time())
            self._deadline_moved.set()

    def _refuse(self, held: Held, text: str, code: str) -> None:
        if held.command_id is not None:
            answer = frames.command_failed(held.command_id, "no_worker", text)
        else:
            answer = frames.bare_error(text, code)
        held.client.deliver(answer, None)

    def _is_too_long(self, client: Client, frame: bytes, command_id: str | None = None) -> bool:
        limit = self._settings.max_line_bytes
        if len(frame) <= limit:
            return False
        text = f"this is {len(frame):,} bytes; a worker takes at most {limit:,}. Nothing was sent"
        held = Held(client=client, frame=frame, relaunches=False, command_id=command_id)
        self._refuse(held, text, "line_too_long")
        return True

    def _stop_thread(self, frame: bytes) -> None:
        named = frames.decode(frames.stop_frame, frame)
        thread = self._threads.get(ThreadKey.parse(named.project_dir, named.id))
        if thread is not None:
            thread.stop(anyio.current_time())

    def _forget_if_over(self, thread: Thread) -> None:
        if thread.is_forgettable and self._threads.get(thread.key) is thread:
            del self._threads[thread.key]

    # Workers

    def _order_launch(self, thread: Thread, delay: float) -> None:
        assert self._workers is not None, "frames are handled while `serving` is entered"
        if self._is_closing:
            thread.launch_failed(_CLOSING, anyio.current_time())
        else:
            self._workers.start_soon(self._own_worker, thread, delay)

    async def _own_worker(self, thread: Thread, delay: float) -> None:
        """One task, one worker: launch it, pump its lines, tell the thread when it is gone."""
        key = thread.key
        generation = Generation(uuid.uuid4().hex)
        # This task began as a copy of its first client's; it is the thread's, not that client's.
        structlog.contextvars.clear_contextvars()
        with structlog.contextvars.bound_contextvars(
            project_dir=key.project_dir,
            conversation_id=key.conversation_id,
            generation=generation,
        ):
            reason = "was ended with the daemon"
            try:
                await anyio.sleep(delay)
                if thread.is_stop_wanted:
                    reason = "was stopped before it began"
                else:
                    async with self._launch(key, thread.options) as worker:
                        reason = await self._pump(thread, worker, generation)
            except LaunchFailed as exc:
                reason = str(exc)
                log.warning("launch_failed", reason=reason)
            except Exception:
                # A fault of ours in one worker's task must not take the other threads down.
                reason = "could not be looked after, which is a fault of roost"
                log.exception("worker_task_failed")
            finally:
                now = anyio.current_time()
                if thread.phase is Phase.LAUNCHING:
                    thread.launch_failed(reason, now)
                else:
                    thread.exited(generation, reason, now)
                self._forget_if_over(thread)
                self._deadline_moved.set()

    async def _pump(self, thread: Thread, worker: Worker, generation: Generation) -> str:
        log.info("worker_launched", worker_pid=worker.pid)
        thread.launched(worker, generation, anyio.current_time())
        if self._is_closing:
            thread.stop(anyio.current_time(), grace=0.0)
        async for batch in worker:
            thread.take_lines(batch, anyio.current_time())
            if thread.next_deadline is not None:
                self._deadline_moved.set()
        reason = worker.exit_reason()
        asked = thread.phase is Phase.STOPPING
        (log.info if asked else log.warning)("worker_exited", worker_pid=worker.pid, reason=reason)
        return reason

    async def _keep_deadlines(self) -> None:
        """Sleep until the earliest deadline of any thread, or until one moved."""
        while True:
            self._deadline_moved = anyio.Event()
            now = anyio.current_time()
            for thread in list(self._threads.values()):
                deadline = thread.next_deadline
                if deadline is not None and deadline <= now:
                    thread.check_deadlines(now)
                    self._forget_if_over(thread)
            due = [t.next_deadline for t in self._threads.values()]
            earliest = min((d for d in due if d is not None), default=None)
            timeout = None if earliest is None else earliest - now
            with anyio.move_on_after(timeout):
                await self._deadline_moved.wait()
