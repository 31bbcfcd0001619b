"""Record first, then believe: an entry is written before the conversation knows of it.

It stamps entries with id, parent and time, in the order they are written, and keeps the partial
text of a growing message on disk at least every quarter of a second, without a sync.
"""

from collections.abc import Callable, Sequence

import anyio
import msgspec

from agent.domain.conversation import Conversation, fold
from agent.domain.entries import CallRuns, Entry, Navigated, Partial, RunEnded
from agent.domain.events import (
    Growth,
    ReasoningMessageContent,
    TextMessageContent,
    ToolCallArgs,
)
from agent.domain.ports import History, HistoryFailed, Log, Processes

# How much of a streamed answer a `kill -9` may cost.
PARTIAL_INTERVAL = 0.25


class Recorder:
    """The only writer of a conversation's history."""

    def __init__(
        self,
        history: History,
        conversation: Conversation,
        last_id: str | None,
        new_id: Callable[[], str],
        now: Callable[[], str],
        log: Log,
        processes: Processes,
    ) -> None:
        self.conversation = conversation
        self._history = history
        self._last_id = last_id
        self._new_id = new_id
        self.now = now
        self._log = log
        self._lock = anyio.Lock()
        self._kernel = processes
        self._running: list[CallRuns] = []
        self._partial: list[Growth] = []
        self._has_partial = anyio.Event()
        self._first: tuple[Entry, ...] = ()
        self.asks_again: RunEnded | None = None
        """A decision that a crash cut off, and that this process asks for again."""

    def begin_with(self, entry: Entry) -> None:
        """An entry that goes before the next one that is recorded, after others given so."""
        self._first = (*self._first, entry)

    async def record(self, *entries: Entry) -> list[Entry]:
        """Write and sync the entries, then apply them. Raises HistoryFailed: then neither is so."""
        return await self.decide(lambda: entries)

    async def decide(self, decision: Callable[[], Sequence[Entry]]) -> list[Entry]:
        """Record what is decided when its turn has come: nothing changes between the two.

        Nothing is written for no entries. Raises HistoryFailed, and what the decision raises.
        """
        async with self._lock:
            entries = decision()
            if not entries:
                return []
            stamped = self._stamp((*self._first, *entries))
            await self._history.append(stamped, sync=True)
            self._first = ()
            # No await from here: what is on the disk is in memory too, whatever is cancelled.
            self._last_id = stamped[-1].id
            for entry in stamped:
                self.conversation.apply(entry)
        return stamped

    async def read(self) -> list[Entry]:
        """All that was recorded, on every branch. Raises HistoryFailed."""
        async with self._lock:
            return await self._history.read()

    async def go_to(self, decision: Callable[[Sequence[Entry]], Sequence[Entry]]) -> None:
        """Record what is decided of the whole history, and be where its last entry is then.

        Raises HistoryFailed, and what the decision raises: then nothing has changed.
        """
        async with self._lock:
            known = await self._history.read()
            stamped = self._stamp(tuple(decision(known)))
            there = fold(self.conversation.conversation_id, [*known, *stamped])
            await self._history.append(stamped, sync=True)
            self._last_id = stamped[-1].id
            self.conversation.become(there)

    def note_growth(self, event: Growth) -> None:
        """Keep what a message grew by, for the next partial entry."""
        last = self._partial[-1] if self._partial else None
        match event, last:
            case TextMessageContent(), TextMessageContent() if event.message_id == last.message_id:
                self._partial[-1] = msgspec.structs.replace(last, delta=last.delta + event.delta)
            case ReasoningMessageContent(), ReasoningMessageContent() if (
                event.message_id == last.message_id
            ):
                self._partial[-1] = msgspec.structs.replace(last, delta=last.delta + event.delta)
            case ToolCallArgs(), ToolCallArgs() if event.tool_call_id == last.tool_call_id:
                self._partial[-1] = msgspec.structs.replace(last, delta=last.delta + event.delta)
            case _:
                self._partial.append(event)
        self._has_partial.set()

    def note_process(self, call_id: str, pid: int) -> None:
        """Keep which process does a call, for the next entry that is not synced."""
        start = self._kernel.started_at(pid)
        self._running.append(CallRuns(tool_call_id=call_id, pid=pid, process_start=start))
        self._has_partial.set()

    def forget_growth(self) -> None:
        """What grew is about to be recorded as a whole."""
        self._partial = []

    async def serve_partials(self) -> None:
        """Write partial entries while messages grow, for ever."""
        while True:
            await self._has_partial.wait()
            if not self._running:
                await anyio.sleep(PARTIAL_INTERVAL)
            self._has_partial = anyio.Event()
            try:
                await self._write_partial()
            except HistoryFailed as exc:
                # The run meets the same trouble at its next whole entry, and tells the user.
                self._log("warning", "partial_not_recorded", reason=str(exc))

    async def _write_partial(self) -> None:
        async with self._lock:
            events, self._partial = self._partial, []
            entries: list[Entry] = [*self._running, *([Partial(events=events)] if events else [])]
            self._running = []
            if not entries:
                return
            stamped = self._stamp(entries)
            await self._history.append(stamped, sync=False)
            self._last_id = stamped[-1].id

    def _stamp(self, entries: tuple[Entry, ...] | list[Entry]) -> list[Entry]:
        stamped: list[Entry] = []
        parent, at = self._last_id, self.now()
        for entry in entries:
            # An entry that goes on from elsewhere names its parent itself.
            goes_on = isinstance(entry, Navigated)
            whole = msgspec.structs.replace(
                entry, id=self._new_id(), parent=entry.parent if goes_on else parent, at=at
            )
            parent = whole.id
            stamped.append(whole)
        return stamped
