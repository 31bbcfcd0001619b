"""The tasks of one chat: its lines to threads, its messages to the agent, its screen.

Joins the decisions of `domain.chat` to the clock, the daemon and the service. One task each reads
the threads, hands over messages whose files have to be fetched, and does what the screen says.
None of them waits for another, and nothing that the registry calls waits at all.
"""

import base64
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec
import structlog
from anyio import to_thread

from roost.channels.domain.chat import Chat
from roost.channels.domain.messages import ChatId, MessageId
from roost.channels.domain.ports import (
    ChatClosed,
    Daemon,
    Line,
    MarkupRefused,
    Messaging,
    MessagingError,
    Refused,
    TryLater,
)
from roost.channels.domain.posts import Step
from roost.channels.domain.state import Input
from roost.channels.saver import Saver
from sessions.domain.keys import ThreadKey

# A thread that says more than this before it is read is opened again, for its snapshot.
_MOST_FRAMES = 2048
_FRAMES_AT_ONCE = 64
_PATIENCE = (0.5, 1.0, 2.0, 5.0, 15.0, 30.0)
# Past every timeout of the service's own.
_LONGEST_REQUEST = 300.0

log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class _Followed:
    """A line, and what came on it and was not read yet."""

    stir: Callable[[], None]
    frames: deque[bytes] = field(default_factory=deque[bytes])
    is_lost: bool = False
    line: Line | None = None

    def receive(self, frame: bytes | None) -> None:
        if self.is_lost:
            return
        if frame is None or len(self.frames) >= _MOST_FRAMES:
            self.is_lost = True
            self.frames.clear()
        else:
            self.frames.append(frame)
        self.stir()


@dataclass(slots=True)
class Conversation:
    """One chat at work."""

    chat: Chat
    service: Messaging
    daemon: Daemon
    saver: Saver
    last: Callable[[], Mapping[ChatId, int]]
    """The newest message that is known of every chat."""
    went: Callable[[MessagingError | None], None]
    """Is told how each request to the service went."""
    _lines: dict[ThreadKey, _Followed] = field(default_factory=dict[ThreadKey, _Followed])
    _again_at: dict[ThreadKey, tuple[float, int]] = field(
        default_factory=dict[ThreadKey, tuple[float, int]]
    )
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _to_show: anyio.Event = field(default_factory=anyio.Event)
    _to_send: anyio.Event = field(default_factory=anyio.Event)

    @property
    def id(self) -> ChatId:
        return ChatId(self.chat.state.id)

    def stir(self) -> None:
        """Something happened that the chat has to look at."""
        self._changed.set()

    async def serve(self) -> None:
        """Until cancelled; then no line is left."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._follow)
                tasks.start_soon(self._hand_over)
                tasks.start_soon(self._show)
        finally:
            for followed in self._lines.values():
                if followed.line is not None:
                    followed.line.close()

    # Threads

    async def _follow(self) -> None:
        while True:
            self._changed = anyio.Event()
            now = anyio.current_time()
            if not self._has_frames():
                # Not before: a view must never be held against what is older than it.
                self.chat.saw_views(self.daemon.views(), now)
            self._keep_lines(now)
            self._send_orders()
            self.tell()
            if self._has_frames():
                await self._read()
                continue
            with anyio.CancelScope(deadline=self._next_look(now)):
                await self._changed.wait()

    def _has_frames(self) -> bool:
        return any(followed.frames for followed in self._lines.values())

    def tell(self) -> None:
        """What the chat decided is kept, shown and handed over."""
        self.saver.touch()
        self._to_show.set()
        self._to_send.set()

    def _keep_lines(self, now: float) -> None:
        wanted = self.chat.wants(now)
        for thread, followed in list(self._lines.items()):
            if followed.is_lost:
                failures = self._again_at.get(thread, (0.0, 0))[1]
                wait = _PATIENCE[min(failures, len(_PATIENCE) - 1)]
                self._again_at[thread] = (now + wait, failures + 1)
            if followed.is_lost or thread not in wanted:
                self._drop(thread, followed, now)
        for thread in wanted:
            if thread not in self._lines and self._again_at.get(thread, (0.0, 0))[0] <= now:
                self._open(thread)

    def _open(self, thread: ThreadKey) -> None:
        followed = self._lines[thread] = _Followed(self.stir)
        self.chat.followed(thread)
        followed.line = self.daemon.follow(thread, followed.receive)

    def _drop(self, thread: ThreadKey, followed: _Followed, now: float) -> None:
        del self._lines[thread]
        self.chat.left(thread, now)
        if followed.line is not None:
            followed.line.close()

    def _next_look(self, now: float) -> float:
        again = (at for at, _ in self._again_at.values() if at > now)
        return min(self.chat.next_deadline(now), min(again, default=float("inf")))

    def _send_orders(self) -> None:
        waiting: list[Any] = []
        while self.chat.orders:
            order = self.chat.orders.popleft()
            if not self._send(order.thread, order.frame):
                waiting.append(order)
        self.chat.orders.extend(waiting)

    def _send(self, thread: ThreadKey, frame: Mapping[str, Any]) -> bool:
        followed = self._lines.get(thread)
        if followed is None or followed.line is None or followed.is_lost:
            return False
        followed.line.send(msgspec.json.encode(frame))
        return True

    async def _read(self) -> None:
        """Take in what came, so much at once."""
        count = 0
        for thread, followed in list(self._lines.items()):
            while followed.frames and count < _FRAMES_AT_ONCE:
                self.chat.take(thread, followed.frames.popleft(), anyio.current_time())
                count += 1
            if self.chat.is_joined(thread):
                self._again_at.pop(thread, None)
        await anyio.lowlevel.checkpoint()

    # Messages to the agent

    async def _hand_over(self) -> None:
        while True:
            self._to_send = anyio.Event()
            while self.chat.outbound:
                input_ = self.chat.outbound[0]
                content = await self._content(input_)
                # The line may have been lost meanwhile; then the next snapshot asks for it again.
                message = {"id": input_.id, "role": "user", "content": content}
                frame = {"type": "run_agent_input", "input": {"messages": [message]}}
                self._send(input_.thread, frame)
                if self.chat.outbound and self.chat.outbound[0] is input_:
                    self.chat.outbound.popleft()
            await self._to_send.wait()

    async def _content(self, input_: Input) -> str | list[dict[str, str]]:
        """The text, or parts with the files in them."""
        if not input_.files:
            return input_.text
        parts = [{"type": "text", "text": input_.text}] if input_.text else []
        failures = 0
        for file in input_.files:
            data: bytes | None = None
            while data is None:
                try:
                    data = await self.service.fetch(file, self.chat.rules.largest_file)
                except Refused as exc:
                    note = f"[The file {file.name} did not come through: {exc}]"
                    parts.append({"type": "text", "text": note})
                    break
                except MessagingError as exc:
                    self.went(exc)
                    await anyio.sleep(_PATIENCE[min(failures, len(_PATIENCE) - 1)])
                    failures += 1
            else:
                encoded = base64.b64encode(data).decode()
                part = {"type": "image", "mimeType": file.mime_type, "filename": file.name}
                parts.append({**part, "data": encoded})
        return parts

    # The screen

    async def _show(self) -> None:
        screen = self.chat.screen
        while True:
            self._to_show = anyio.Event()
            now = anyio.current_time()
            if (post := screen.unrendered(now)) is not None:
                text = post.text
                made = await to_thread.run_sync(self.service.chunks, text)
                screen.rendered(post, text, made)
            step = None if self.chat.state.is_closed else screen.next_step(now)
            if step is not None:
                await self._do(step)
                continue
            with anyio.CancelScope(deadline=screen.wake_at(now)):
                await self._to_show.wait()

    async def _do(self, step: Step) -> None:
        """One request, and what came of it."""
        screen = self.chat.screen
        failure: MessagingError | None = None
        try:
            with anyio.fail_after(_LONGEST_REQUEST):
                await self._request(step)
        except TryLater as exc:
            screen.hold(step, exc.seconds, anyio.current_time())
            failure = exc
        except MarkupRefused as exc:
            log.info("markup_refused", reason=str(exc))
            screen.markup_refused(step)
        except Refused as exc:
            log.warning("message_refused", reason=str(exc))
            screen.refused(step)
        except ChatClosed as exc:
            log.warning("chat_closed", chat=self.id, reason=str(exc))
            self.chat.state.is_closed = True
            step.post.place = None
        except (MessagingError, TimeoutError) as exc:
            screen.failed(step, anyio.current_time())
            failure = exc if isinstance(exc, MessagingError) else MessagingError("no answer")
        self.went(failure)
        self.saver.touch()

    async def _request(self, step: Step) -> None:
        screen, message = self.chat.screen, step.message
        match step.kind:
            case "edit":
                if step.message_id:
                    await self.service.edit(self.id, step.message_id, message)
                screen.done(step, step.message_id, anyio.current_time())
            case "find":
                found = await self.service.find(self.id, step.place, message)
                if found is None:
                    screen.absent(step)
                else:
                    log.info("message_found", chat=self.id)
                    self._sent(step, found)
            case "send":
                screen.began(step, self.service.place(self.id, self.last()))
                self.saver.touch()
                await self.saver.wait_saved()
                self._sent(step, await self.service.send(self.id, message))

    def _sent(self, step: Step, message_id: MessageId) -> None:
        state = self.chat.state
        state.last_message = max(state.last_message, message_id)
        self.chat.screen.done(step, message_id, anyio.current_time())
