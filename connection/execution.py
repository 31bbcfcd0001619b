"""Carries out the commands of the table, on the side where the registry is.

One object per client and followed session, or one for what needs no session. Whoever calls it has
checked the command against the table: both adapters do, the in-process one and the local server.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import anyio
import msgspec

from connection.admission import Admissions, Status
from connection.commands import COMMANDS, REQUEST_TIMEOUT
from connection.failures import CommandRefused, RequestTimedOut, refused
from connection.follower import Follower, Joined, Pending
from connection.selectors import ActiveIds, Candidate, chosen
from connection.shapes import (
    Answer,
    SessionState,
    SessionSummary,
    Snapshot,
    WorkerState,
)
from sessions.domain.keys import BadKey, ThreadKey, clean_dir
from sessions.domain.ports import Threads, ThreadView

FOREIGN_PATIENCE = 1.0
"""For a worker of another make, which may not know commands and say nothing: what is known of the
state without it has to do."""
KILLED = "the session was stopped; its conversation is safe"


Progress = Callable[[int, int], None]
"""Is told how many of how many were looked at. Returns at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSession:
    """A conversation on disk."""

    project_dir: str
    session_id: str
    name: str | None
    title: str
    updated_at: str
    """When it was last written to, ISO 8601."""


class SavedSessions(Protocol):
    """The conversations on disk."""

    async def list(
        self, project_dir: str | None, progress: Progress | None = None
    ) -> Sequence[SavedSession]:
        """Those of one project, or of all; newest first. `progress` is told while it looks."""
        ...

    async def delete(self, key: ThreadKey) -> None:
        """Put it out of the list. Raises CommandRefused when it can't be, or is in use."""
        ...


class Directory:
    """Which sessions there are, and which one a selector names."""

    def __init__(
        self,
        threads: Threads,
        saved: SavedSessions,
        now: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._threads = threads
        self._saved = saved
        self._now = now
        self.ids = ActiveIds()

    async def list(self, *, include_saved: bool) -> list[SessionSummary]:
        """Open ones first, in the order they were opened; then the saved ones, newest first."""
        views = [view for view in self._threads.views() if view.status != "stopped"]
        saved = await self._saved.list(None)
        known = {(s.project_dir, s.session_id): s for s in saved}
        rows: list[SessionSummary] = []
        for view in views:
            on_disk = known.pop((view.project_dir, view.conversation_id), None)
            rows.append(self._row(view, on_disk))
        return rows + [self._saved_row(s) for s in known.values()] if include_saved else rows

    async def saved(
        self, project_dir: str | None, progress: Progress | None = None
    ) -> Sequence[SessionSummary]:
        """The conversations on disk, of one project or of all; newest first."""
        found = await self._saved.list(project_dir, progress)
        return [self._saved_row(each) for each in found]

    async def resolve(self, selector: str) -> SessionSummary:
        """Open sessions first, then saved ones. Raises UnknownSession, AmbiguousSession."""
        rows = await self.list(include_saved=True)
        live = [row for row in rows if row.status != "saved"]
        for candidates, by_prefix in ((live, False), (rows, True)):
            found = chosen(
                selector,
                [Candidate(r.active_session_id, r.session_id, r.name) for r in candidates],
                by_prefix=by_prefix,
            )
            if found is not None:
                return candidates[found]
        raise _unknown(selector)

    async def delete_saved(self, key: ThreadKey) -> None:
        self._check_unused(key)
        await self._saved.delete(key)

    def _check_unused(self, key: ThreadKey) -> None:
        view = self._threads.view(key)
        if view is not None and view.status != "stopped":
            raise CommandRefused(
                "in_use", "this session is open now: stop it first, or do it in the session"
            )

    def _saved_row(self, saved: SavedSession) -> SessionSummary:
        return SessionSummary(
            active_session_id=self.ids.of(saved.project_dir, saved.session_id),
            session_id=saved.session_id,
            project_dir=saved.project_dir,
            status="saved",
            name=saved.name,
            title=saved.title,
            updated_at=saved.updated_at,
        )

    def _row(self, view: ThreadView, saved: SavedSession | None) -> SessionSummary:
        return SessionSummary(
            active_session_id=self.ids.of(view.project_dir, view.conversation_id),
            session_id=view.conversation_id,
            project_dir=view.project_dir,
            status=view.status,
            name=saved.name if saved else None,
            title=saved.title if saved else None,
            run_id=view.run_id,
            waits_for=view.interrupts,
            followers=view.followers,
            since_seconds=round(self._now() - view.since, 1),
            updated_at=saved.updated_at if saved else None,
            worker_pid=view.worker_pid,
        )


class Household:
    """The commands that are about no session that is followed."""

    def __init__(self, threads: Threads, directory: Directory) -> None:
        self._threads = threads
        self._directory = directory
        self._own: Mapping[str, Callable[[Mapping[str, object]], Awaitable[object]]] = {
            "list": self._list,
            "resolve": self._resolve,
            "kill": self._kill,
            "rename": self._rename,
            "delete_saved_session": self._delete_saved,
        }

    async def execute(self, name: str, fields: Mapping[str, object]) -> object:
        """Carry out a command of the table. Raises ConnectionFailure."""
        return await self._own[name](fields)

    async def _list(self, fields: Mapping[str, object]) -> object:
        include_saved = fields.get("all") is True
        return {"sessions": await self._directory.list(include_saved=include_saved)}

    async def list_saved(
        self, fields: Mapping[str, object], progress: Progress | None = None
    ) -> Sequence[SessionSummary]:
        """`list_saved_sessions`, which tells how far it has come."""
        project_dir = fields.get("projectDir")
        wanted = clean_dir(project_dir) if isinstance(project_dir, str) else None
        return await self._directory.saved(wanted, progress)

    async def _resolve(self, fields: Mapping[str, object]) -> object:
        return await self._directory.resolve(str(fields.get("selector", "")))

    async def _kill(self, fields: Mapping[str, object]) -> object:
        self._stop(thread_of(fields))
        return {}

    def _stop(self, key: ThreadKey) -> None:
        """End its worker, and those of its subagents, which would work for nobody."""
        frame = {
            "type": "stop_thread",
            "project_dir": key.project_dir,
            "id": key.conversation_id,
            "subagents": True,
        }
        once = Follower(self._threads, key, lambda events: None)
        try:
            once.send(frame)
        finally:
            once.close()

    async def _rename(self, fields: Mapping[str, object]) -> object:
        """The name is in the conversation, so its own worker writes it, also for a saved one."""
        once = Follower(self._threads, thread_of(fields), lambda events: None)
        try:
            await once.open(last_messages=1)
            return await once.request("set_name", {"name": fields.get("name")}, REQUEST_TIMEOUT)
        finally:
            once.close()

    async def _delete_saved(self, fields: Mapping[str, object]) -> object:
        key = thread_of(fields)
        await self._directory.delete_saved(key)
        self._stop(key)
        return {}


class Session:
    """The commands of one client on the session that it follows."""

    def __init__(
        self,
        threads: Threads,
        follower: Follower,
        ids: ActiveIds,
        state_patience: float = REQUEST_TIMEOUT,
    ) -> None:
        self.follower = follower
        self._ids = ids
        self._state_patience = state_patience
        self.admissions = Admissions()
        self._threads = threads
        self._message_ids: dict[str, str] = {}
        self._own: Mapping[str, Callable[[Mapping[str, object]], Awaitable[object]]] = {
            "prompt": self._prompt,
            "cancel_prompt_admission": self._cancel_prompt,
            "get_snapshot": self._get_snapshot,
            "get_state": self._get_state,
            "abort": self._abort,
            "answer": self._answer,
        }

    def begin(self, name: str, fields: Mapping[str, object], *, is_repeat: bool = False) -> None:
        """A command has come: what it promises before it is carried out. Raises CommandRefused."""
        admission_id = fields.get("admissionId")
        if name != "prompt" or not isinstance(admission_id, str):
            return
        self.admissions.begin(admission_id)
        self._message_ids[admission_id] = str(fields.get("messageId"))
        if is_repeat:
            # It went to the session on an earlier connection: nobody can say that it did not.
            self.admissions.own(admission_id)

    def ended(self, name: str, fields: Mapping[str, object]) -> None:
        """A command that has begun was answered."""
        admission_id = fields.get("admissionId")
        if name == "prompt" and isinstance(admission_id, str):
            self._message_ids.pop(admission_id, None)

    async def execute(self, name: str, fields: Mapping[str, object]) -> object:
        """Carry out a command of the table that has begun. Raises ConnectionFailure."""
        if (own := self._own.get(name)) is not None:
            return await own(fields)
        return await self.follower.request(name, fields, COMMANDS[name].timeout)

    async def snapshot(self, joined: Joined, messages: tuple[msgspec.Raw, ...]) -> Snapshot:
        """What was joined, with the state around it."""
        return Snapshot(
            state=self.view() if joined.state is None else await self.state(joined.state),
            messages=messages,
            events=joined.events,
            cursor=joined.cursor,
            replay=joined.replay,
            window=joined.window,
        )

    async def state(self, asked: Pending | None = None) -> SessionState:
        """What there is to know besides the messages."""
        worker: WorkerState | None = None
        asked = asked or self.follower.ask("get_state", {})
        try:
            told = await self.follower.answer(asked, self._state_patience)
            worker = msgspec.json.decode(told, type=WorkerState)
        except (CommandRefused, RequestTimedOut, msgspec.ValidationError):
            pass  # it is what is known without it
        return self.view(worker)

    def view(self, worker: WorkerState | None = None) -> SessionState:
        """What the registry knows, and what the worker told."""
        return self.seen(self._threads.view(self.follower.key), worker)

    def seen(self, view: ThreadView | None, worker: WorkerState | None = None) -> SessionState:
        """The same of a view that is here already."""
        key = self.follower.key
        return SessionState(
            active_session_id=self._ids.of(key.project_dir, key.conversation_id),
            session_id=key.conversation_id,
            project_dir=key.project_dir,
            status=view.status if view else "stopped",
            run_id=view.run_id if view else None,
            waits_for=view.interrupts if view else (),
            followers=view.followers if view else 0,
            answered_by=view.answered_by if view else None,
            worker=worker,
        )

    async def _prompt(self, fields: Mapping[str, object]) -> object:
        args = {name: value for name, value in fields.items() if name != "admissionId"}
        admission_id = fields.get("admissionId")
        if isinstance(admission_id, str) and not self.admissions.own(admission_id):
            raise CommandRefused("admission_cancelled", "the prompt was taken back; nothing ran")
        return await self.follower.request("prompt", args, COMMANDS["prompt"].timeout)

    async def _cancel_prompt(self, fields: Mapping[str, object]) -> object:
        """What waits is taken back here; what the session owns, if it still waits in its queue."""
        admission_id = str(fields.get("admissionId"))
        message_id = self._message_ids.get(admission_id)
        status = self.admissions.cancel(admission_id)
        if status is Status.OWNED and message_id is not None:
            try:
                await self.follower.request("delete_queued", {"id": message_id}, REQUEST_TIMEOUT)
                self.admissions.taken_back(admission_id)
                status = Status.CANCELLED
            except (CommandRefused, RequestTimedOut):
                pass  # a run has taken it, or nobody knows: it is the session's
        return {"status": status.value}

    async def _get_state(self, fields: Mapping[str, object]) -> object:
        return await self.state()

    async def _get_snapshot(self, fields: Mapping[str, object]) -> Snapshot:
        """Through a follower of its own, so that the events of this client's go on."""
        last = fields.get("lastMessages")
        aside = Follower(self._threads, self.follower.key, lambda events: None)
        try:
            joined = await aside.open(last_messages=last if isinstance(last, int) else None)
            return await self.snapshot(joined, joined.messages or ())
        finally:
            aside.close()

    async def _abort(self, fields: Mapping[str, object]) -> object:
        view = self._threads.view(self.follower.key)
        self.follower.send({"type": "interrupt"})
        return {"aborted": view is not None and view.run_id is not None}

    async def _answer(self, fields: Mapping[str, object]) -> object:
        answers = msgspec.convert(fields.get("answers"), type=list[Answer])
        view = self._threads.view(self.follower.key)
        open_ids = set(view.interrupts) if view else set[str]()
        if (
            view is not None
            and view.generation
            and not open_ids & {a.interrupt_id for a in answers}
        ):
            raise CommandRefused("not_open", "nothing of this waits any more: it has been decided")
        entries = [_entry(answer) for answer in answers]
        self.follower.send(
            {"type": "run_agent_input", "input": {"messages": [], "resume": entries}}
        )
        return {}


def thread_of(fields: Mapping[str, object]) -> ThreadKey:
    """The thread that a command names. Raises CommandRefused."""
    project_dir, session_id = fields.get("projectDir"), fields.get("sessionId")
    try:
        return ThreadKey.parse(
            project_dir if isinstance(project_dir, str) else None,
            session_id if isinstance(session_id, str) else None,
        )
    except BadKey as exc:
        raise CommandRefused("bad_arguments", str(exc)) from exc


def _entry(answer: Answer) -> dict[str, object]:
    entry: dict[str, object] = {
        "interruptId": answer.interrupt_id,
        "status": "resolved" if answer.approved else "cancelled",
    }
    if answer.payload is not None:
        entry["payload"] = answer.payload
    return entry


def _unknown(selector: str) -> CommandRefused:
    return refused(
        "unknown_session",
        f"no session goes by {selector[:80]!r}; `roost list` shows those that are open",
    )
