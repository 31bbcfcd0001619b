"""The operations that are built: each is one command of the table, or a few, and a decoded answer.

Both adapters inherit this. What they differ in is below: how a command is carried out (`_ask`), and
how the connection moves to another session (`_move_to`).
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import anyio
import msgspec

from connection.events import (
    Closed,
    ConnectionEvent,
    Listener,
    SessionEvent,
    SessionReplaced,
    SessionResynced,
)
from connection.failures import (
    AdmissionFailed,
    AdmissionStatus,
    CapabilityUnavailable,
    CommandRefused,
    ConnectionFailure,
    Disconnected,
    RequestTimedOut,
)
from connection.listeners import Changed, Listeners
from connection.run_watch import RunWatch
from connection.shapes import (
    Admission,
    Answer,
    Compacted,
    Forked,
    ForkPoint,
    Lane,
    MessagesPage,
    ModelCatalog,
    Navigated,
    QueuedMessage,
    QueueMutation,
    Removed,
    RunOutcome,
    SessionState,
    SessionStats,
    SessionSummary,
    SessionTree,
    Shape,
    SlashCommand,
    Snapshot,
    ToolDefinition,
)
from connection.unbuilt import Unbuilt
from sessions.domain.keys import ConversationId, ThreadKey

T = TypeVar("T")

THINKING = ("off", "minimal", "low", "medium", "high")


class _Done(Shape, frozen=True, kw_only=True):
    """There is nothing to tell."""


class _Text(Shape, frozen=True, kw_only=True):
    text: str | None = None


class _Queue(Shape, frozen=True, kw_only=True):
    queue: tuple[QueuedMessage, ...] = ()


class _Points(Shape, frozen=True, kw_only=True):
    messages: tuple[ForkPoint, ...] = ()


class _Commands(Shape, frozen=True, kw_only=True):
    commands: tuple[SlashCommand, ...] = ()


class _Chosen(Shape, frozen=True, kw_only=True):
    model: str = ""
    mode: str = ""
    level: str | None = None
    name: str = ""
    path: str = ""
    conversation_id: str = ""
    outcome: Literal["applied", "rejected", "invalid"] = "invalid"
    aborted: bool = False
    status: AdmissionStatus = "unknown"


class _Rows(Shape, frozen=True, kw_only=True):
    sessions: tuple[SessionSummary, ...] = ()


class SessionOperations(Unbuilt):
    """One client's session: what the adapters have in common."""

    def __init__(self) -> None:
        self._listeners = Listeners()
        self._before_invalidate: list[Callable[[], None]] = []

    # What an adapter gives

    @property
    def _key(self) -> ThreadKey:
        """The thread that the connection is at."""
        raise NotImplementedError

    async def _ask(self, command: str, answer: type[T], /, **fields: object) -> T:
        """Carry out a command; absent fields are None. Raises ConnectionFailure."""
        raise NotImplementedError

    async def _move_to(self, key: ThreadKey) -> None:
        """Leave the session for another one, and tell of it. Raises ConnectionFailure."""
        raise NotImplementedError

    async def _list_saved(
        self,
        project_dir: str | None,
        on_progress: Callable[[int, int], None],
        on_session: Callable[[SessionSummary], None],
    ) -> Sequence[SessionSummary]:
        """`list_saved_sessions`, with what comes of it meanwhile. Raises ConnectionFailure."""
        raise NotImplementedError

    # Lifecycle

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self._listeners.subscribe(listener)

    def on_before_session_invalidate(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._before_invalidate.append(listener)

        def end() -> None:
            if listener in self._before_invalidate:
                self._before_invalidate.remove(listener)

        return end

    def _leave_session(self) -> None:
        for listener in tuple(self._before_invalidate):
            listener()

    # Reads

    async def get_state(self) -> SessionState:
        return await self._ask("get_state", SessionState)

    async def get_messages(self) -> tuple[msgspec.Raw, ...]:
        return (await self._ask("get_snapshot", Snapshot)).messages

    async def get_earlier_messages(self, before: int, limit: int = 100) -> MessagesPage:
        return await self._ask("get_earlier_messages", MessagesPage, before=before, limit=limit)

    async def get_session_tree(self) -> SessionTree:
        return await self._ask("get_tree", SessionTree)

    async def get_commands(self) -> Sequence[SlashCommand]:
        return (await self._ask("get_commands", _Commands)).commands

    async def get_model_catalog(self) -> ModelCatalog:
        return await self._ask("list_models", ModelCatalog)

    async def get_available_models(self) -> Sequence[str]:
        return (await self.get_model_catalog()).models

    async def get_session_stats(self) -> SessionStats:
        return await self._ask("get_stats", SessionStats)

    async def get_queue(self) -> Sequence[QueuedMessage]:
        return (await self._ask("list_queue", _Queue)).queue

    async def list_sessions(self, *, include_saved: bool = False) -> Sequence[SessionSummary]:
        return (await self._ask("list", _Rows, all=include_saved)).sessions

    async def list_saved_sessions(
        self,
        scope: Literal["current", "all"] = "current",
        *,
        on_progress: Callable[[int, int], None] | None = None,
        on_session: Callable[[SessionSummary], None] | None = None,
    ) -> Sequence[SessionSummary]:
        project_dir = self._key.project_dir if scope == "current" else None
        return await self._list_saved(
            project_dir,
            on_progress or (lambda loaded, total: None),
            on_session or (lambda session: None),
        )

    async def get_user_messages_for_forking(self) -> Sequence[ForkPoint]:
        return (await self._ask("get_user_messages_for_forking", _Points)).messages

    async def get_last_assistant_text(self) -> str | None:
        return (await self._ask("get_last_assistant_text", _Text)).text

    async def get_system_prompt(self) -> str:
        return (await self._ask("get_system_prompt", _Text)).text or ""

    async def get_tool_definition(self, name: str) -> ToolDefinition:
        return await self._ask("get_tool_definition", ToolDefinition, name=name)

    # Input

    async def prompt(
        self,
        text: str,
        *,
        lane: Lane = "steering",
        message_id: str | None = None,
        queue_if_busy: bool = True,
        cancel: anyio.Event | None = None,
    ) -> Admission:
        _check(text)
        fields: dict[str, object] = {
            "text": text,
            # An id of our own: a message that was sent twice is in the conversation once.
            "messageId": message_id or uuid.uuid4().hex,
            "lane": lane,
            "ifBusy": None if queue_if_busy else "refuse",
        }
        return await self._admit(fields, cancel)

    async def _admit(self, fields: dict[str, object], cancel: anyio.Event | None) -> Admission:
        """Send a prompt that `cancel` takes back while it can. Raises AdmissionFailed."""
        if cancel is None:
            return await self._ask("prompt", Admission, **fields)
        if cancel.is_set():
            raise AdmissionFailed("cancelled", "the prompt was taken back before it was sent")
        attempt = Attempt(uuid.uuid4().hex)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._take_back, attempt, cancel)
            try:
                fields = {**fields, "admissionId": attempt.admission_id}
                attempt.admission = await self._ask("prompt", Admission, **fields)
            except ConnectionFailure as exc:
                attempt.failure = exc
            if not cancel.is_set():
                tasks.cancel_scope.cancel()
        return attempt.outcome()

    async def _take_back(self, attempt: "Attempt", cancel: anyio.Event) -> None:
        await cancel.wait()
        try:
            told = await self._ask(
                "cancel_prompt_admission", _Chosen, admissionId=attempt.admission_id
            )
            attempt.status = told.status
        except ConnectionFailure:
            attempt.status = "unknown"

    async def prompt_and_wait(
        self, text: str, *, message_id: str | None = None, cancel: anyio.Event | None = None
    ) -> RunOutcome:
        waiting = _Outcome(RunWatch(message_id or uuid.uuid4().hex))
        end = self.subscribe(waiting)
        try:
            await self.prompt(text, message_id=waiting.watch.message_id, cancel=cancel)
            while waiting.outcome is None:
                if waiting.closed is not None:
                    raise Disconnected(waiting.closed)
                if waiting.must_look:
                    waiting.must_look = False
                    waiting.look(await self.get_state())
                    continue
                await waiting.changed.next().wait()
            return waiting.outcome
        finally:
            end()

    async def steer(self, text: str) -> Admission:
        return await self.prompt(text, lane="steering")

    async def follow_up(self, text: str) -> Admission:
        return await self.prompt(text, lane="follow_up")

    async def abort(self) -> bool:
        return (await self._ask("abort", _Chosen)).aborted

    async def answer(self, answers: Sequence[Answer]) -> None:
        await self._ask("answer", _Done, answers=[msgspec.to_builtins(a) for a in answers])

    async def wait_for_idle(self) -> SessionState:
        changed = Changed()
        closed: list[Closed] = []
        ends = [self.subscribe(changed), self.subscribe(_only_closed(closed))]
        try:
            while True:
                happened = changed.next()
                state = await self.get_state()
                queue = state.worker.state.get("queue") if state.worker else None
                is_open = state.run_id is not None or state.status in ("launching", "stopping")
                if not is_open and (state.waits_for or not queue):
                    return state
                if closed:
                    raise Disconnected(closed[0].message)
                await happened.wait()
        finally:
            for end in ends:
                end()

    async def clear_queue(self) -> Removed:
        return await self._ask("clear_queue", Removed)

    async def abort_and_clear_queue(self) -> Removed:
        return await self._ask("abort_and_clear_queue", Removed)

    async def mutate_queued_message(
        self, lane: Lane, index: int, expected_text: str, mutation: QueueMutation
    ) -> Literal["applied", "rejected", "invalid", "unsupported"]:
        try:
            told = await self._ask(
                "mutate_queued_message",
                _Chosen,
                lane=lane,
                index=index,
                expectedText=expected_text,
                mutation=msgspec.to_builtins(mutation),
            )
        except CapabilityUnavailable:
            return "unsupported"
        except CommandRefused as exc:
            if exc.code == "unknown_command":
                return "unsupported"
            raise
        return told.outcome

    # Settings

    async def set_model(self, model: str) -> str:
        return (await self._ask("set_model", _Chosen, model=model)).model

    async def cycle_model(self, direction: Literal["forward", "backward"] = "forward") -> str:
        catalog = await self.get_model_catalog()
        names = list(catalog.models)
        if not names:
            raise CommandRefused("unknown_model", "no model is configured")
        step = 1 if direction == "forward" else -1
        place = names.index(catalog.current) if catalog.current in names else -step
        return await self.set_model(names[(place + step) % len(names)])

    async def set_mode(self, mode: str) -> str:
        return (await self._ask("set_mode", _Chosen, mode=mode)).mode

    async def set_thinking_level(self, level: str | None) -> str | None:
        # A level of null is a value here, so it is sent as such.
        return (await self._ask("set_thinking", _Chosen, level=level or NULL)).level

    async def cycle_thinking_level(self) -> str | None:
        worker = (await self.get_state()).worker
        if worker is None:
            raise CommandRefused("unknown_state", "the worker does not say how much it thinks now")
        level = worker.thinking
        place = THINKING.index(level) if level in THINKING else -1
        return await self.set_thinking_level(THINKING[(place + 1) % len(THINKING)])

    async def set_auto_compaction_enabled(self, enabled: bool) -> None:
        await self._ask("set_auto_compaction", _Done, enabled=enabled)

    # What the model remembers

    async def compact(self, instructions: str | None = None) -> Compacted:
        return await self._ask("compact", Compacted, instructions=instructions)

    async def abort_compaction(self) -> bool:
        return (await self._ask("abort_compaction", _Chosen)).aborted

    # Other sessions and places

    async def new_session(self) -> str:
        return await self._move(str(uuid.uuid4()))

    async def switch_session(self, selector: str) -> str:
        found = await self._ask("resolve", SessionSummary, selector=selector)
        await self._move_to(ThreadKey.parse(found.project_dir, found.session_id))
        return found.session_id

    async def fork(
        self, message_id: str | None, *, position: Literal["before", "at"] | None = None
    ) -> Forked:
        forked = await self._ask("fork", Forked, id=message_id or NULL, position=position)
        await self._move(forked.conversation_id)
        return forked

    async def import_from_jsonl(self, path: str) -> str:
        return await self._move(
            (await self._ask("import_jsonl", _Chosen, path=path)).conversation_id
        )

    async def navigate_tree(self, message_id: str | None, *, label: str | None = None) -> Navigated:
        return await self._ask("navigate_tree", Navigated, id=message_id or NULL, label=label)

    async def export_to_html(self, path: str | None = None) -> str:
        return (await self._ask("export", _Chosen, format="html", path=path)).path

    async def export_to_jsonl(self, path: str | None = None) -> str:
        return (await self._ask("export", _Chosen, format="jsonl", path=path)).path

    async def set_session_name(self, name: str) -> str:
        _check(name)
        return (await self._ask("set_name", _Chosen, name=name.strip())).name

    async def set_session_entry_label(self, message_id: str, label: str | None) -> None:
        await self._ask("set_label", _Done, id=message_id, label=label or NULL)

    async def rename_saved_session(self, selector: str, name: str) -> None:
        _check(name)
        found = await self._ask("resolve", SessionSummary, selector=selector)
        where = {"projectDir": found.project_dir, "sessionId": found.session_id}
        await self._ask("rename", _Done, **where, name=name.strip())

    async def delete_saved_session(self, selector: str) -> None:
        found = await self._ask("resolve", SessionSummary, selector=selector)
        where = {"projectDir": found.project_dir, "sessionId": found.session_id}
        await self._ask("delete_saved_session", _Done, **where)

    async def kill_session(self, selector: str | None = None) -> None:
        if selector is None:
            key = self._key
        else:
            found = await self._ask("resolve", SessionSummary, selector=selector)
            key = ThreadKey.parse(found.project_dir, found.session_id)
        await self._ask("kill", _Done, projectDir=key.project_dir, sessionId=key.conversation_id)

    def supports_acp_mcp_servers(self) -> bool:
        return False

    async def _move(self, conversation_id: str) -> str:
        await self._move_to(ThreadKey(self._key.project_dir, ConversationId(conversation_id)))
        return conversation_id


@dataclass(slots=True)
class Attempt:
    """A prompt that may be taken back: what came of sending it, and of taking it back."""

    admission_id: str
    admission: Admission | None = None
    failure: ConnectionFailure | None = None
    status: AdmissionStatus | None = None
    """What the cancellation was told; None when there was none."""

    def outcome(self) -> Admission:
        """One truth from two answers. Raises AdmissionFailed, or what the prompt failed with."""
        if self.admission is not None:
            if self.status == "cancelled":
                raise AdmissionFailed("cancelled", "the prompt was taken back; nothing ran")
            return self.admission
        failure = self.failure
        assert failure is not None, "a prompt is admitted or fails"
        if isinstance(failure, CapabilityUnavailable) and not failure.after_reconnect:
            raise AdmissionFailed("unsupported", "the daemon can't take prompts back") from failure
        if isinstance(failure, CommandRefused) and failure.code == "admission_cancelled":
            raise AdmissionFailed("cancelled", str(failure)) from failure
        is_lost = isinstance(failure, (Disconnected, RequestTimedOut))
        if not is_lost or self.status is None:
            raise failure
        if self.status == "cancelled":
            raise AdmissionFailed("cancelled", "the prompt was taken back; nothing ran")
        if self.status == "owned":
            return Admission(admission="queued")
        raise AdmissionFailed(
            "unknown", "nobody can tell whether the prompt was taken; look before you repeat it"
        )


class _Outcome:
    """Watches for the end of the run that took a message, also across a lost connection."""

    def __init__(self, watch: RunWatch) -> None:
        self.watch = watch
        self.outcome: RunOutcome | None = None
        self.closed: str | None = None
        self.must_look = False
        """What was missed may have held the end: the state tells whether the run goes on."""
        self.changed = Changed()

    def __call__(self, event: ConnectionEvent) -> None:
        match event:
            case SessionEvent(event=line) if self.outcome is None:
                self.outcome = self.watch.feed(line)
            case SessionResynced(snapshot=Snapshot() as snapshot):
                for line in snapshot.events:
                    self.watch.feed(line)
                self.must_look = True
            case SessionReplaced():
                self.closed = "the connection went to another session"
            case Closed(message=message):
                self.closed = message
            case _:
                pass
        self.changed(event)

    def look(self, state: SessionState) -> None:
        """After a snapshot: is there still a run whose end will come?"""
        if state.run_id is not None or self.outcome is not None:
            return
        waits = bool(state.waits_for)
        self.outcome = RunOutcome(outcome="interrupt" if waits else "unknown")


class Null:
    """A null that is sent, where None means that a field is absent."""


NULL = Null()


def given(fields: dict[str, object]) -> dict[str, object]:
    """The fields that are there."""
    return {
        name: None if isinstance(value, Null) else value
        for name, value in fields.items()
        if value is not None
    }


def _check(text: str) -> None:
    if not text.strip():
        raise ValueError("an empty text says nothing")


def _only_closed(kept: list[Closed]) -> Listener:
    def listen(event: ConnectionEvent) -> None:
        if isinstance(event, Closed):
            kept.append(event)

    return listen
