"""The tasks that own workers: one task, one worker.

Each launches its worker, pumps its lines into the thread, and tells the thread when it is gone.
Browser commands leave the order of the lines and have a task each. Decides nothing about threads.
"""

import hmac
import secrets
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from sessions.domain import frames, lines
from sessions.domain.keys import Generation, ThreadKey
from sessions.domain.ports import BrowserRelay, LaunchFailed, LaunchWorker, Survivor, Worker
from sessions.domain.settings import RegistrySettings
from sessions.domain.thread import Phase, Thread

log = structlog.stdlib.get_logger()

# How long the tasks may take past the grace before they are cancelled: SIGTERM's two seconds, and
# a little for the drain.
STOP_MARGIN = 5.0
# How many workers may be starting at once: a start is an interpreter that imports, and two hundred
# of them at once would make everybody wait for the last. Those that nobody waits for any more when
# their turn comes are not started at all.
MAX_STARTING = 8
# How long a worker that says nothing counts as starting.
_LONGEST_START = 10.0


class Workers:
    """Owns the workers of all threads. `ended(thread)` is called behind each worker's end."""

    def __init__(
        self,
        launch: LaunchWorker,
        settings: RegistrySettings,
        relay: BrowserRelay | None,
        ended: Callable[[Thread], None],
    ) -> None:
        self._launch = launch
        self._settings = settings
        self._relay = relay
        self._ended = ended
        self._tasks: TaskGroup | None = None
        self._scope: anyio.CancelScope | None = None
        self._is_closing = False
        self.leaves_workers = False
        """They are to outlive the daemon, so the end of their tasks is not the end of them."""
        self._starting = anyio.CapacityLimiter(MAX_STARTING)
        self._borrowers: set[str] = set()
        self._tokens: dict[str, ThreadKey] = {}
        self._browsing: Counter[Generation] = Counter()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Run tasks while the block runs; leaving it waits for them, at most to `end_by`.

        They are not cancelled with the block: whatever ends a daemon, its workers get their grace.
        """
        closing = anyio.Event()
        async with anyio.create_task_group() as keeping:
            await keeping.start(self._keep, closing)
            try:
                yield
            finally:
                self._is_closing = True
                closing.set()

    async def _keep(self, closing: anyio.Event, *, task_status: TaskStatus[None]) -> None:
        with anyio.CancelScope(shield=True) as self._scope:
            async with anyio.create_task_group() as self._tasks:
                task_status.started()
                await closing.wait()
        self._tasks = None
        if self._scope.cancelled_caught and not self.leaves_workers:
            log.warning("workers_outlived_the_grace")

    def end_by(self, deadline: float) -> None:
        """What is left then is cancelled, and its processes are killed. Until then nothing is."""
        if self._scope is not None:
            self._scope.deadline = deadline

    def launch(self, thread: Thread, delay: float) -> None:
        """Start the task of a new worker, which begins after so many seconds."""
        assert self._tasks is not None, "frames are handled while `serving` is entered"
        self._tasks.start_soon(self._own, thread, delay)

    async def adopt(self, thread: Thread, survivor: Survivor) -> None:
        """Look after a worker that is there already; returns when the thread has it."""
        assert self._tasks is not None, "workers are adopted while `serving` is entered"
        await self._tasks.start(self._own_survivor, thread, survivor)

    def worker_with(self, token: str) -> ThreadKey | None:
        """Whose present worker was given this token. Takes as long for one as for another."""
        found = None
        given = token.encode("utf-8", "surrogatepass")
        for known, key in self._tokens.items():
            if hmac.compare_digest(known.encode(), given):
                found = key
        return found

    def browse(self, thread: Thread, line: bytes) -> None:
        """Relay a worker's browser command; its result goes back to that worker."""
        generation = thread.generation
        try:
            command_id = lines.id_of(line)
        except lines.BadLine:
            thread.dropped_lines += 1
            return
        if generation is None or self._tasks is None or self._is_closing:
            return
        waiting = self._browsing[generation]
        if waiting >= self._settings.max_browser_commands:
            text = f"{waiting} browser commands of this worker wait already"
            refused = frames.browser_failed(command_id, text)
            thread.browser_answered(generation, refused, anyio.current_time())
            return
        self._browsing[generation] += 1
        self._tasks.start_soon(self._browse, thread, generation, line)

    async def _browse(self, thread: Thread, generation: Generation, line: bytes) -> None:
        assert self._relay is not None, "without a relay no thread orders this"
        try:
            result = await self._relay.forward(line)
        finally:
            self._browsing[generation] -= 1
            if not self._browsing[generation]:
                del self._browsing[generation]
        thread.browser_answered(generation, result, anyio.current_time())

    async def _own(self, thread: Thread, delay: float) -> None:
        """One task, one worker: launch it, pump its lines, tell the thread when it is gone."""
        key = thread.key
        generation = Generation(uuid.uuid4().hex)
        with _log_context(key, generation):
            reason = "was ended with the daemon"
            token = secrets.token_hex(32)
            self._tokens[token] = key
            try:
                await anyio.sleep(delay)
                await self._starting.acquire_on_behalf_of(token)
                self._borrowers.add(token)
                if thread.is_stop_wanted or not thread.wants_worker:
                    reason = "was not needed any more when it was to begin"
                else:
                    async with self._launch(key, thread.options, token) as worker:
                        log.info("worker_launched", worker_pid=worker.pid)
                        now = anyio.current_time()
                        thread.launched(worker, generation, now, token)
                        reason = await self._pump(thread, worker, token)
            except LaunchFailed as exc:
                reason = str(exc)
                log.warning("launch_failed", reason=reason)
            except Exception:
                # A fault of ours in one worker's task must not take the other threads down.
                reason = "could not be looked after, which is a fault of roost"
                log.exception("worker_task_failed")
            finally:
                now = anyio.current_time()
                self._has_started(token)
                del self._tokens[token]
                if thread.phase is Phase.LAUNCHING:
                    thread.launch_failed(reason, now)
                else:
                    thread.exited(generation, reason, now)
                self._ended(thread)

    async def _own_survivor(
        self, thread: Thread, survivor: Survivor, *, task_status: TaskStatus[None]
    ) -> None:
        """As `_own`, for a worker that is there already."""
        note, kept = survivor.note, survivor.kept
        generation = Generation(note.generation)
        with _log_context(thread.key, generation):
            reason = "was ended with the daemon"
            self._tokens[note.token] = thread.key
            try:
                async with survivor.worker as worker:
                    log.info("worker_adopted", worker_pid=worker.pid, sequence=kept.sequence)
                    thread.adopted(worker, kept, note, anyio.current_time())
                    task_status.started()
                    reason = await self._pump(thread, worker, note.token)
            except Exception:
                reason = "could not be looked after, which is a fault of roost"
                log.exception("worker_task_failed")
            finally:
                del self._tokens[note.token]
                thread.exited(generation, reason, anyio.current_time())
                self._ended(thread)

    async def _pump(self, thread: Thread, worker: Worker, token: str) -> str:
        if self._is_closing:
            thread.stop(anyio.current_time(), grace=0.0)

        def take(batch: Sequence[bytes]) -> None:
            self._has_started(token)
            thread.take_lines(batch, anyio.current_time())

        async with anyio.create_task_group() as starting:
            starting.start_soon(self._start_is_over, token)
            await worker.pump(take)
            starting.cancel_scope.cancel()
        reason = worker.exit_reason()
        asked = thread.phase is Phase.STOPPING
        (log.info if asked else log.warning)(
            "worker_exited",
            worker_pid=worker.pid,
            reason=reason,
            dropped_lines=thread.dropped_lines,
            overgrown_states=thread.overgrown_states,
        )
        return reason

    async def _start_is_over(self, token: str) -> None:
        """A worker of another kind may say nothing until it is asked, and holds nobody up."""
        await anyio.sleep(_LONGEST_START if self._settings.announces_ready else 0)
        self._has_started(token)

    def _has_started(self, token: str) -> None:
        if token in self._borrowers:
            self._borrowers.discard(token)
            self._starting.release_on_behalf_of(token)


@contextmanager
def _log_context(key: ThreadKey, generation: Generation) -> Generator[None]:
    # This task began as a copy of its first client's; it is the thread's, not that client's.
    structlog.contextvars.clear_contextvars()
    with structlog.contextvars.bound_contextvars(
        project_dir=key.project_dir,
        conversation_id=key.conversation_id,
        generation=generation,
    ):
        yield
