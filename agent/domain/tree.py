"""A history as a tree of messages: every branch, and the way to each message.

A node is a message, by the id that clients know it by. The entries between two messages (a run's
beginning and end, costs, todos) belong to the one before them. It writes nothing: what a command
records is decided here and recorded by its caller.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from agent.domain.aftermath import unfinished
from agent.domain.conversation import Conversation, fold
from agent.domain.entries import (
    Accepted,
    Begun,
    Called,
    CallStarted,
    Compacted,
    Entry,
    JobEnded,
    Labelled,
    Named,
    Navigated,
    Partial,
    QueueEdited,
    Responded,
    Resulted,
    RunEnded,
    RunOpened,
    Said,
    Taken,
    branch,
)
from agent.domain.messages import HIDDEN, Message, Role

_SHOWN_TEXT = 200
# A copy is its own conversation: it has its own beginning and name, and only whole messages.
_LEFT_OUT = (Begun, Named, Partial)


class UnknownNode(LookupError):
    """There is no message with this id in the history."""


@dataclass(slots=True)
class Node:
    """One message, and where it stands."""

    message: Message
    parent: str | None
    at: str
    first: str | None
    """The entry before the one that it came with; None at the beginning."""
    last: str
    """The entry up to which it is the last message."""
    label: str | None = None

    @property
    def role(self) -> Role:
        return self.message.role

    @property
    def is_hidden(self) -> bool:
        return self.message.is_marked(HIDDEN)

    def shown(self) -> dict[str, object]:
        """The node as clients get it: long texts cut."""
        text = " ".join(self.message.text.split())
        return {
            "id": self.message.id,
            "parentId": self.parent,
            "role": self.role,
            "text": text if len(text) <= _SHOWN_TEXT else text[: _SHOWN_TEXT - 1] + "…",
            "at": self.at,
            "label": self.label,
            "toolCalls": len(self.message.tool_calls or ()),
        }


class Tree:
    """All messages of a history, in the order they were first written."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._nodes: dict[str, Node] = {}
        self._waiting: dict[str, tuple[str, Message]] = {}  # by message, with its input's id
        self._last_of: dict[str, str | None] = {}  # the last message at each entry
        before: Entry | None = None
        for entry in entries:
            self._take(entry, before)
            before = entry
        self._root = entries[0].id if entries and isinstance(entries[0], Begun) else None
        self._leaf = self._last_of[before.id] if before else None

    @property
    def leaf(self) -> str | None:
        """The last message of the branch that the conversation is on."""
        return self._shown_of(self._leaf)

    def nodes(self) -> list[Node]:
        """The messages that clients see, each with the one before it that they see."""
        return [
            replace(node, parent=self._shown_of(node.parent))
            for node in self._nodes.values()
            if not node.is_hidden
        ]

    def node(self, message_id: str) -> Node:
        """Raises UnknownNode."""
        try:
            return self._nodes[message_id]
        except KeyError:
            raise UnknownNode(message_id) from None

    def place(self, message_id: str | None) -> tuple[str, str | None]:
        """Where to go on from a message, and the text that comes back. Raises UnknownNode."""
        if message_id is None:
            return "", self._root
        node = self.node(message_id)
        if node.role != "user":
            return "", node.last
        return self.text(node), node.first

    def text(self, node: Node) -> str:
        """What a user said, all of it that a run took at once."""
        said = (
            each.message.text
            for each in self._nodes.values()
            if each.role == "user" and each.first == node.first and not each.is_hidden
        )
        return "\n".join(said)

    def _shown_of(self, message_id: str | None) -> str | None:
        while message_id is not None and self._nodes[message_id].is_hidden:
            message_id = self._nodes[message_id].parent
        return message_id

    def _take(self, entry: Entry, before: Entry | None) -> None:
        parent = self._parent(entry, before)
        last = self._last_of.get(parent) if parent is not None else None
        match entry:
            case Accepted(messages=messages):
                self._waiting.update((message.id, (entry.id, message)) for message in messages)
            case QueueEdited(message_id=message_id, text=text) if message_id in self._waiting:
                input_id, message = self._waiting[message_id]
                edited = msgspec.structs.replace(message, content=text)
                self._waiting[message_id] = (input_id, edited)
            case RunOpened() | Taken():
                for message_id in _taken(entry, self._waiting):
                    if (waiting := self._waiting.pop(message_id, None)) is not None:
                        last = self._put(waiting[1], entry, parent, last)
            case Said(message=message) | Resulted(message=message) | Compacted(message=message):
                last = self._put(message, entry, parent, last)
            case Called(message_id=message_id, calls=calls):
                known = self._nodes.get(message_id)
                said = known.message if known else Message(id=message_id, role="assistant")
                known_calls = {call.id: call for call in said.tool_calls or ()}
                known_calls |= {call.id: call for call in calls}
                whole = msgspec.structs.replace(said, tool_calls=list(known_calls.values()))
                last = self._put(whole, entry, parent, last)
            case Labelled(message_id=message_id, label=label):
                if message_id in self._nodes:
                    self._nodes[message_id].label = label
            case _:
                pass
        self._extend(last, entry, parent)
        self._last_of[entry.id] = last

    def _extend(self, last: str | None, entry: Entry, parent: str | None) -> None:
        """What follows a message and is no step to the next one is told with it."""
        if last is None or isinstance(entry, RunOpened | CallStarted | Navigated):
            return
        node = self._nodes[last]
        if node.last == parent:
            node.last = entry.id

    def _parent(self, entry: Entry, before: Entry | None) -> str | None:
        """As `branch` finds it: where a line could not be read, the one before takes its place."""
        if entry.parent in self._last_of:
            return entry.parent
        if isinstance(entry, Begun | Navigated) and entry.parent is None:
            return None
        return before.id if before else None

    def _put(self, message: Message, entry: Entry, parent: str | None, last: str | None) -> str:
        known = self._nodes.get(message.id)
        if known is None:
            self._nodes[message.id] = Node(message, last, entry.at, parent, entry.id)
            return message.id
        known.message = message
        if last == message.id:
            known.last = entry.id
        return message.id if last is None else last


def navigation(
    entries: Sequence[Entry], message_id: str | None, new_id: Callable[[], str]
) -> tuple[list[Entry], str]:
    """What to record to go on from a message, and what its author may want to say instead.

    From a user's message on means from before it; none is the beginning. Raises UnknownNode.
    """
    tree = Tree(entries)
    text, place = tree.place(message_id)
    moved = Navigated(parent=place)
    there = fold("", [*_way(entries, place), moved])
    return [moved, *unfinished(there, new_id, started(entries))], text


def copy(
    entries: Sequence[Entry],
    place: str | None,
    begun: Begun,
    new_id: Callable[[], str],
) -> list[Entry]:
    """The way to a place as the history of another conversation, with nothing left open.

    What it cost is counted where it was spent.
    """
    way = [_as_copied(entry) for entry in _way(entries, place) if not isinstance(entry, _LEFT_OUT)]
    there = fold("", way)
    return _in_a_row([begun, *way, *_ends(there, entries, new_id)], new_id)


def imported(entries: Sequence[Entry], begun: Begun, new_id: Callable[[], str]) -> list[Entry]:
    """Another conversation's history under a new beginning, every branch of it, nothing left open.

    What was decided or left running elsewhere is no business of this machine.
    """
    old = entries[0].id if entries and isinstance(entries[0], Begun) else None
    first = msgspec.structs.replace(begun, id=old or new_id(), parent=None)
    rest = [entry for entry in entries if not isinstance(entry, Begun)]
    whole: list[Entry] = [first, *rest]
    there = fold("", whole)
    ends = _ends(there, entries, new_id)
    parent = whole[-1].id
    for end in ends:
        whole.append(msgspec.structs.replace(end, id=new_id(), parent=parent, at=begun.at))
        parent = whole[-1].id
    return whole


def _ends(there: Conversation, entries: Iterable[Entry], new_id: Callable[[], str]) -> list[Entry]:
    ends = unfinished(there, new_id, started(entries))
    ends += [JobEnded(job_id=job_id) for job_id in there.jobs]
    run_id = there.open_run or (there.suspended.run_id if there.suspended else None)
    if run_id is not None:
        ends.append(RunEnded(run_id=run_id, outcome="cancelled"))
    return ends


def started(entries: Iterable[Entry]) -> dict[str, str]:
    """When each call began that did, on whichever branch."""
    return {e.tool_call_id: e.at for e in entries if isinstance(e, CallStarted)}


def _taken(entry: RunOpened | Taken, waiting: Mapping[str, tuple[str, Message]]) -> list[str]:
    if isinstance(entry, Taken):
        return entry.message_ids
    if entry.input is None:
        return entry.messages
    whole = [each for each, (of_input, _) in waiting.items() if of_input == entry.input]
    return [*entry.messages, *whole]


def _way(entries: Sequence[Entry], place: str | None) -> list[Entry]:
    """From the beginning to the entry with this id."""
    if place is None:
        return []
    places = [entry.id for entry in entries]
    return branch(entries[: places.index(place) + 1])


def _as_copied(entry: Entry) -> Entry:
    if isinstance(entry, Responded):
        return msgspec.structs.replace(
            entry, input_tokens=0, output_tokens=0, cached_input_tokens=0, cost=None
        )
    return entry


def _in_a_row(entries: Iterable[Entry], new_id: Callable[[], str]) -> list[Entry]:
    found: list[Entry] = []
    for entry in entries:
        parent = found[-1].id if found else None
        at = entry.at or (found[-1].at if found else "")
        found.append(msgspec.structs.replace(entry, id=entry.id or new_id(), parent=parent, at=at))
    return found
