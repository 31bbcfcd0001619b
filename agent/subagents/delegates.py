"""The children of one conversation: opened, followed, fed, and left when they are done.

One task follows each child through the port; what its news mean is decided in
`agent.domain.children`. A turn's end becomes a note in the conversation, or the result of a call
that waits for it. Rules for editing: record before you tell, and change what is known of a child
only in plain functions, so that a limit that was checked still holds when the child is there.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from agent.domain.children import Child, Note
from agent.domain.conversation import Conversation
from agent.domain.delegation import LONGEST_TEXT, Parent, Refused, depth_refusal, plan
from agent.domain.entries import ChildChanged, ChildOpened, Entry
from agent.domain.lineage import ChildThread
from agent.domain.ports import HistoryFailed, Log, ModelFailed
from agent.domain.subagents import (
    ChildLink,
    ChildLost,
    Delegation,
    Limits,
    News,
    Preset,
    Settled,
    Task,
)
from agent.equipment import Equipment
from agent.recorder import Recorder

# How long a child's process may take to be told that it is over.
_PARTING = 5.0
# The state of a child that calls one tool after the other is told so often, and no oftener.
_PACE = 0.1
# Children that were closed are shown for a while, the last ones.
_MOST_CLOSED = 20
_BUG = "Something went wrong inside roost; the log has the details."
_ENDED = "It ended before it was done; what it did until then is done."
_ENDED_WITH_US = "It ended with the program that ran it; what it did until then is done."


class Voice(Protocol):
    """How the conversation is told of its children."""

    async def note(
        self, entries: Sequence[Entry], thread_id: str, text: str, *, wakes: bool
    ) -> None:
        """Record the entries and the note, as one. Raises HistoryFailed."""
        ...

    def children_changed(self, patch: list[dict[str, object]]) -> None:
        """What is shown of the children changed; the patch is one of the state object."""


@dataclass(slots=True, eq=False)
class Tended:
    """A child, and what belongs to following it."""

    child: Child
    link: ChildLink | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    opened: anyio.Event = field(default_factory=anyio.Event)
    failure: str | None = None
    """Why it could not be opened."""
    listener: "Listener | None" = None
    """A call that waits takes the notes in place of the conversation."""
    changed: anyio.Event = field(default_factory=anyio.Event)

    def tell(self) -> None:
        """Something about it is other than before."""
        changed, self.changed = self.changed, anyio.Event()
        changed.set()


Listener = Callable[[Tended, Note], None]


class NoSuchChild(ValueError):
    """The message is for whoever named it."""


class Delegates:
    """All children that this process knows of."""

    def __init__(
        self,
        delegation: Delegation,
        recorder: Recorder,
        equipment: Callable[[], Awaitable[Equipment]],
        voice: Voice,
        new_id: Callable[[], str],
        log: Log,
    ) -> None:
        self.delegation = delegation
        self._rec = recorder
        self._conversation: Conversation = recorder.conversation
        self._equipment = equipment
        self._voice = voice
        self._new_id = new_id
        self._log = log
        self._tended: dict[str, Tended] = {}
        self._tasks: TaskGroup | None = None
        self._limits = Limits()
        self._told: dict[str, object] | None = None
        self._is_dirty = anyio.Event()
        self._deadline_moved = anyio.Event()

    # -- life ------------------------------------------------------------------------------

    def serve_in(self, tasks: TaskGroup) -> None:
        """Children are followed in this task group from now on, those of an earlier process too."""
        if self.delegation.open_child is None:
            return
        self._tasks = tasks
        tasks.start_soon(self._tell_state)
        tasks.start_soon(self._keep_deadlines)
        self._adopt()

    @property
    def at_work(self) -> int:
        return sum(each.child.is_at_work for each in self._tended.values())

    def rows(self) -> dict[str, object]:
        """The `subagents` of the shared state, by thread."""
        return {key: each.child.row() for key, each in self._tended.items()}

    def job_rows(self) -> list[dict[str, object]]:
        """Those at work, as jobs in the background: so a parent is kept alive for them."""
        return [
            {
                "id": each.child.id,
                "kind": "subagent",
                "label": each.child.label,
                "description": each.child.label,
                "detail": each.child.id,
                "status": "running",
                "started_at": each.child.started_at,
            }
            for each in self._tended.values()
            if each.child.is_at_work
        ]

    async def presets(self) -> Sequence[Preset]:
        return await self.delegation.presets.listed() if self.delegation.presets else ()

    # -- what a model and a person may ask for -----------------------------------------------

    async def open(self, tasks: Sequence[Task], listener: "Listener | None" = None) -> list[Tended]:
        """Open a child for each task, or none at all. Raises Refused, HistoryFailed.

        Returns when each is open or has failed to. A listener gets their notes, in place of the
        conversation, until it is taken away.
        """
        equipment = await self._equipment()
        presets = await self.presets() if any(task.preset for task in tasks) else ()
        places = await _places(tasks, equipment.folder)
        begun = self._begin(tasks, equipment, presets, places)
        try:
            await self._rec.record(*(ChildOpened(thread=each.child.thread) for each in begun))
        except BaseException:
            for each in begun:
                del self._tended[each.child.id]
            raise
        for each, task in zip(begun, tasks, strict=True):
            each.listener = listener
            self._follow_soon(each, task.prompt, is_known=False)
        for each in begun:
            await each.opened.wait()
        return begun

    async def send(self, name: str, text: str) -> Child:
        """Give a child more to do; a closed one is opened again for it.

        Raises NoSuchChild, Refused, ChildLost, HistoryFailed.
        """
        if not text.strip() or len(text) > LONGEST_TEXT:
            raise Refused(f"Not sent: the text must have 1 to {LONGEST_TEXT:,} characters.")
        each = self._find(name)
        child = each.child
        if child.is_open:
            await each.opened.wait()
        if not child.is_at_work and self.at_work >= self._limits.max_parallel:
            raise Refused(
                f"Not sent: {self._limits.max_parallel} subagents work already, and no more do at"
                " once (subagents.max_parallel)."
            )
        if each.link is None:
            again = self._begin_again(each)
            await self._rec.record(ChildChanged(thread_id=child.id, at_work=True))
            self._follow_soon(again, text, is_known=True)
            await again.opened.wait()
            if again.failure is not None:
                raise ChildLost(again.failure)
            return child
        link = each.link
        await self._rec.record(ChildChanged(thread_id=child.id, at_work=True))
        await link.send(self._new_id(), text)
        child.sent()
        self._changed(each)
        return child

    async def close(self, name: str) -> Child:
        """End a child, whatever it does. Silent. Raises NoSuchChild, HistoryFailed."""
        each = self._find(name)
        if each.child.is_open:
            each.child.close()
            self._changed(each)
            await self._part(each, stops=True)
            await self._rec.record(ChildChanged(thread_id=each.child.id, is_open=False))
        return each.child

    async def interrupt_all(self) -> None:
        """End the turns of all children, because somebody asked for that."""
        for each in list(self._tended.values()):
            if each.link is not None and each.child.status == "running":
                try:
                    await each.link.interrupt()
                except ChildLost as exc:
                    self._log("warning", "subagent_not_interrupted", reason=str(exc))

    async def waits(self, asked: bool | None) -> bool:
        """Does a call wait for its results: as it asks, else as it is set."""
        return asked if asked is not None else (await self._equipment()).limits.wait

    def unlisten(self, listener: Listener) -> None:
        """From now on the conversation is told again."""
        for each in self._tended.values():
            if each.listener is listener:
                each.listener = None

    def hand_back(self, heard: Sequence[tuple[Tended, Note]]) -> None:
        """Notes that a call has taken and can't tell any more go to the conversation after all."""
        assert self._tasks is not None
        for each, note in heard:
            self._tasks.start_soon(self._tell, each, note)

    async def wait_settled(self, wanted: Sequence[Tended]) -> None:
        """Return when none of these is at work any more."""
        for each in wanted:
            while each.child.is_at_work:
                await each.changed.wait()

    def children(self) -> list[Child]:
        return [each.child for each in self._tended.values()]

    # -- decisions: plain functions ------------------------------------------------------------

    def _begin(
        self,
        tasks: Sequence[Task],
        equipment: Equipment,
        presets: Sequence[Preset],
        places: dict[str, str | ValueError],
    ) -> list[Tended]:
        self._limits = equipment.limits

        def place(directory: str) -> str:
            found = places[directory]
            if isinstance(found, ValueError):
                raise found
            return found

        def check_model(name: str) -> None:
            try:
                equipment.models.find(name)
            except ModelFailed as exc:
                raise ValueError(str(exc)) from exc

        parent = Parent(
            conversation_id=self._conversation.conversation_id,
            project_dir=equipment.project_dir,
            delegation=self.delegation,
            limits=equipment.limits,
            mode=equipment.mode,
            model=equipment.model_name,
            tools={name: tool.spec.effect for name, tool in equipment.offered().items()},
            at_work=self.at_work,
            presets=presets,
            place=place,
            check_model=check_model,
        )
        threads = plan(tasks, parent, lambda: self._new_id()[:12])
        return [self._register(thread) for thread in threads]

    def _register(self, thread: ChildThread) -> Tended:
        each = Tended(Child(thread, self._rec.now()))
        self._tended[thread.conversation_id] = each
        self._forget_old()
        self._changed(each)
        return each

    def _begin_again(self, before: Tended) -> Tended:
        """A child that was left gets a new follower; what is known of it stays."""
        before.child.sent()
        each = Tended(before.child)
        self._tended[each.child.id] = each
        self._changed(each)
        return each

    def _find(self, name: str) -> Tended:
        """By thread id, by the last part of it, or by a label that only one child has."""
        if (each := self._tended.get(name)) is not None:
            return each
        found = [t for t in self._tended.values() if t.child.id.endswith(f"-{name}")]
        found = found or [t for t in self._tended.values() if t.child.label == name]
        if len(found) > 1:
            found = [t for t in found if t.child.is_open] or found
        if len(found) == 1:
            return found[0]
        known = ", ".join(repr(t.child.label) for t in self._tended.values()) or "none"
        what = "Several subagents are called" if found else "There is no subagent"
        raise NoSuchChild(f"{what} {name!r}. Known: {known}. A thread id names exactly one.")

    def _forget_old(self) -> None:
        closed = [key for key, each in self._tended.items() if not each.child.is_open]
        for key in closed[:-_MOST_CLOSED]:
            del self._tended[key]

    def _changed(self, each: Tended) -> None:
        each.tell()
        self._is_dirty.set()
        self._deadline_moved.set()

    def _adopt(self) -> None:
        """Children that an earlier process left: those at work are followed again."""
        assert self.delegation.open_child is not None and self._tasks is not None
        for known in list(self._conversation.children.values()):
            is_ours = known.thread.lineage.parent == self._conversation.conversation_id
            if not (known.is_open and is_ours):
                continue  # a copy of a conversation tells of children that are not its own
            each = Tended(Child(known.thread, known.opened_at))
            self._tended[each.child.id] = each
            if known.at_work and self.delegation.open_child.children_last:
                each.child.sent()
                self._follow_soon(each, None, is_known=True)
            else:
                each.opened.set()
                note = each.child.lost(_ENDED_WITH_US) if known.at_work else None
                each.child.close()
                self._tasks.start_soon(self._tell, each, note)
            self._changed(each)

    # -- following -------------------------------------------------------------------------

    def _follow_soon(self, each: Tended, text: str | None, *, is_known: bool) -> None:
        assert self._tasks is not None
        self._tasks.start_soon(self._follow, each, text, is_known)

    async def _follow(self, each: Tended, text: str | None, is_known: bool) -> None:
        assert self.delegation.open_child is not None
        lost = _ENDED
        with each.scope:
            try:
                async with self.delegation.open_child(
                    each.child.thread, is_known=is_known
                ) as each.link:
                    if text is not None:
                        each.child.sent()
                        await each.link.send(self._new_id(), text)
                    self._opened(each)
                    # Where a child stands that gets more to do is no result of that.
                    is_old = is_known and text is not None
                    async for news in each.link:
                        if not (is_old and isinstance(news, Settled)):
                            await self._take(each, news)
                        is_old = False
            except ChildLost as exc:
                lost = str(exc)
            except HistoryFailed as exc:
                self._log("error", "subagent_not_recorded", reason=str(exc))
            except Exception as exc:  # a bug ends one child, not the worker
                self._log("error", "subagent_crashed", exc_info=exc)
                lost = _BUG
        each.link = None
        if each.scope.cancelled_caught:
            # It was closed, and whoever did so has recorded it.
            each.opened.set()
            return
        note = each.child.lost(lost)
        if not each.opened.is_set():
            # Whoever opens it is told, and nobody else has heard of it.
            each.failure, note = lost, None
        note = self._heard(each, note)
        each.opened.set()
        self._changed(each)
        await self._tell(each, note)

    def _opened(self, each: Tended) -> None:
        each.opened.set()
        self._changed(each)

    async def _take(self, each: Tended, news: News) -> None:
        was_at_work = each.child.is_at_work
        note = each.child.take(news, anyio.current_time())
        note = self._heard(each, note)
        self._changed(each)
        if note is not None or each.child.is_at_work != was_at_work:
            await self._tell(each, note)

    def _heard(self, each: Tended, note: Note | None) -> Note | None:
        """A call that waits takes the note, before it can see that there is nothing to wait for."""
        if note is None or each.listener is None:
            return note
        each.listener(each, note)
        return None

    async def _tell(self, each: Tended, note: Note | None) -> None:
        """Record where the child stands, with the note of it. Trouble with the disk is logged."""
        child = each.child
        stands = ChildChanged(thread_id=child.id, at_work=child.is_at_work, is_open=child.is_open)
        try:
            if note is None:
                await self._rec.record(stands)
            else:
                text = note.message(child.label)
                await self._voice.note([stands], child.id, text, wakes=note.wakes)
        except HistoryFailed as exc:
            self._log("error", "subagent_not_recorded", thread=child.id, reason=str(exc))
        each.tell()

    async def _part(self, each: Tended, *, stops: bool) -> None:
        """Leave a child; with `stops` its process ends, too."""
        if stops and each.link is not None:
            with anyio.move_on_after(_PARTING):
                await each.link.stop()
        each.scope.cancel()

    async def _tell_state(self) -> None:
        while True:
            await self._is_dirty.wait()
            self._is_dirty = anyio.Event()
            self._voice.children_changed(self._patch())
            await anyio.sleep(_PACE)

    def _patch(self) -> list[dict[str, object]]:
        """What makes of the rows that were told those of now: small, so it can be told often."""
        before, rows = self._told, self.rows()
        self._told = rows
        if before is None or before.keys() - rows.keys():
            return [{"op": "add", "path": "/subagents", "value": rows}]
        return [
            {"op": "add", "path": f"/subagents/{key}", "value": row}
            for key, row in rows.items()
            if before.get(key) != row
        ]

    async def _keep_deadlines(self) -> None:
        """Close what has been idle for too long, or longest, when too many are."""
        while True:
            self._deadline_moved = anyio.Event()
            now = anyio.current_time()
            ends = {key: self._end_of(each) for key, each in self._tended.items()}
            ends |= dict.fromkeys(self._too_many(), now)
            for key in [key for key, end in ends.items() if end <= now]:
                each = self._tended[key]
                # What a person was asked for is theirs to answer, also later.
                stops = each.child.status == "idle"
                note = each.child.expire()
                self._changed(each)
                await self._part(each, stops=stops)
                await self._tell(each, note)
            earliest = min((end for end in ends.values() if end > now), default=None)
            with anyio.move_on_after(None if earliest is None else earliest - now):
                await self._deadline_moved.wait()

    def _too_many(self) -> list[str]:
        """Those that have been idle longest, of more than may work at once: each is a process."""
        idle = [
            (each.child.resting_since, key)
            for key, each in self._tended.items()
            if each.child.status == "idle"
            and each.child.resting_since is not None
            and not each.child.jobs
        ]
        return [key for _, key in sorted(idle)[: -self._limits.max_parallel]]

    def _end_of(self, each: Tended) -> float:
        child, limits = each.child, self._limits
        if child.status == "waiting" and child.resting_since is not None:
            return child.resting_since + limits.approval_timeout
        if child.resting_since is None or child.jobs or limits.idle_timeout <= 0:
            return float("inf")
        return child.resting_since + limits.idle_timeout

    # -- equipment ---------------------------------------------------------------------------

    def refusal(self, equipment: Equipment) -> str | None:
        """Why this worker opens no subagents, if it opens none."""
        if self.delegation.open_child is None:
            return "Not opened: this program has no way to run subagents."
        return depth_refusal(self.delegation.depth, equipment.limits)


async def _places(
    tasks: Sequence[Task], folder: Callable[[str], str]
) -> dict[str, str | ValueError]:
    """Where the tasks' directories really are, or why not. Looked up off the loop."""
    places: dict[str, str | ValueError] = {}
    for task in tasks:
        if task.directory is not None:
            try:
                places[task.directory] = await anyio.to_thread.run_sync(folder, task.directory)
            except ValueError as exc:
                places[task.directory] = exc
    return places
