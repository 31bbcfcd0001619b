"""The panel as a client of its own: it stops a thread, or asks its worker something, and leaves."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
import msgspec

from sessions.domain.keys import Cursor, ThreadKey
from sessions.domain.ports import Threads, ThreadView

_ANSWER_TIMEOUT = 60.0
# Past a worker's own grace, its SIGTERM and its SIGKILL.
_STOP_TIMEOUT = 45.0


class WorkerRefused(Exception):
    """The worker did not do it. The message says why, for people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Answer(msgspec.Struct):
    type: str = ""
    id: str = ""
    success: bool = False
    code: str = "failed"
    error: str = ""
    message: str = ""


@dataclass(eq=False, slots=True)
class _Asking:
    """A client that waits for one answer."""

    id: str
    inside: ThreadKey | None = None
    answer: _Answer | None = None
    _came: anyio.Event = field(default_factory=anyio.Event)

    def deliver(self, frame: bytes, cursor: Cursor | None) -> None:
        if self.answer is None and cursor is None and self._is_for_us(frame):
            self._came.set()

    def deliver_row(self, events: Sequence[tuple[bytes, Cursor]]) -> None:
        """Live events are not what it waits for."""

    async def wait(self) -> _Answer:
        await self._came.wait()
        assert self.answer is not None
        return self.answer

    def _is_for_us(self, frame: bytes) -> bool:
        if not frame.startswith((b'{"type":"command_result"', b'{"type":"RUN_ERROR"')):
            return False
        decoded = msgspec.json.decode(frame, type=_Answer)
        if decoded.type == "RUN_ERROR" or decoded.id == self.id:
            self.answer = decoded
        return self.answer is not None


async def set_name(threads: Threads, key: ThreadKey, name: str) -> None:
    """Have a conversation's worker write down its name. Raises WorkerRefused."""
    asking = _Asking(str(uuid.uuid4()))
    opening = {
        "type": "resume_conversation", "project_dir": key.project_dir, "id": key.conversation_id
    }  # fmt: skip
    command = {"type": "command", "id": asking.id, "name": "set_name", "args": {"name": name}}
    try:
        with anyio.fail_after(_ANSWER_TIMEOUT):
            threads.handle(asking, msgspec.json.encode(opening))
            threads.handle(asking, msgspec.json.encode(command))
            answer = await asking.wait()
    except TimeoutError as exc:
        raise WorkerRefused("reply_timeout", "The thread's worker did not answer.") from exc
    finally:
        threads.detach(asking)
    if not answer.success:
        text = answer.error or answer.message or "the worker could not do it"
        raise WorkerRefused(answer.code, f"It keeps its old name: {text}.")


async def stop(threads: Threads, key: ThreadKey) -> None:
    """Stop a thread's worker, and those below, until it is gone. Raises TimeoutError."""
    asking = _Asking("")
    stopping = {
        "type": "stop_thread", "project_dir": key.project_dir, "id": key.conversation_id,
        "subagents": True,
    }  # fmt: skip
    changed = anyio.Event()

    def saw(thread: ThreadKey, view: ThreadView | None) -> None:
        if thread == key:
            changed.set()

    unwatch = threads.watch(saw)
    try:
        with anyio.fail_after(_STOP_TIMEOUT):
            threads.handle(asking, msgspec.json.encode(stopping))
            while _has_worker(threads, key):
                await changed.wait()
                changed = anyio.Event()
    finally:
        unwatch()


def _has_worker(threads: Threads, key: ThreadKey) -> bool:
    return any(
        view.worker_pid is not None or view.status == "launching"
        for view in threads.views()
        if (view.project_dir, view.conversation_id) == (key.project_dir, key.conversation_id)
    )
