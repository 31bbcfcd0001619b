"""The entries of a conversation's history: one JSON object a line, an append-only tree.

Every entry has an id, its parent's id, a time and a kind. Rules for editing: an entry that was
written once is read for ever, so fields are only added, always with a default; a kind that this
version does not know is skipped by the reader and kept in the file.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from agent.domain.events import Growth, Interrupt, Usage
from agent.domain.lineage import ChildThread, Lineage
from agent.domain.messages import Message, ToolCall
from agent.domain.offer import Offer

FORMAT = 1


class _Entry(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="kind"):
    id: str = ""
    parent: str | None = None
    at: str = ""


class ResponseCost(Protocol):
    """What is counted of a response."""

    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def cached_input_tokens(self) -> int: ...
    @property
    def cost(self) -> float | None: ...


class Begun(_Entry, tag="conversation"):
    """The first entry: whose history this is."""

    conversation_id: str
    project_dir: str
    format: int = FORMAT
    forked_from: str | None = None
    """The conversation that it began as a copy of."""
    lineage: Lineage | None = None
    """What a subagent's conversation is bound to, however it is opened later."""


class Accepted(_Entry, tag="input"):
    """Messages that wait; a run that takes them names them."""

    messages: list[Message]
    run_id: str | None = None
    follow_up: bool = False
    """They begin a run of their own, and join none."""
    offer: Offer | None = None
    """What the application that sent them has to offer to their run."""


class Taken(_Entry, tag="taken"):
    """A run that goes on took messages that came meanwhile."""

    message_ids: list[str]


class QueueMoved(_Entry, tag="queue_moved"):
    """A waiting message got another place."""

    message_id: str
    place: int


class QueueEdited(_Entry, tag="queue_edited"):
    """A waiting message got other words, or another lane."""

    message_id: str
    text: str
    lane: Literal["steering", "follow_up"] | None = None


class QueueDeleted(_Entry, tag="queue_deleted"):
    """Waiting messages were taken back."""

    message_ids: list[str]


class RunOpened(_Entry, tag="run_started"):
    """A run began. It took the messages named, if any, and answered the open interrupts, if any."""

    run_id: str
    input: str | None = None
    """The id of an input whose messages it took; written by versions that took whole inputs."""
    messages: list[str] = []
    direct: bool = False
    """It runs a person's own shell command, or goes on with one: no model is asked."""
    answers: dict[str, bool] | None = None
    declined_because: dict[str, str] | None = None
    payloads: dict[str, object] | None = None
    """What was answered to questions, by interrupt."""
    app_state: dict[str, object] | None = None
    """The application's own members of the shared state; None when it sent none."""


class Partial(_Entry, tag="partial"):
    """What a message grew by since the last entry. Not synced: a whole message replaces it."""

    events: list[Growth]


class Said(_Entry, tag="message"):
    """A whole message that is not a tool's result."""

    message: Message


class Called(_Entry, tag="calls"):
    """The whole calls of a message that was written before."""

    message_id: str
    calls: list[ToolCall]


class Responded(_Entry, tag="response"):
    """A model's response is complete: its tokens, and what only its provider needs back."""

    message_ids: list[str]
    provider: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cost: float | None = None
    opaque: dict[str, object] | None = None

    @staticmethod
    def spent(done: ResponseCost) -> "Responded":
        """What a response cost that is no message of the conversation: it counts as all do."""
        return Responded(
            message_ids=[],
            provider=done.provider,
            model=done.model,
            input_tokens=done.input_tokens,
            output_tokens=done.output_tokens,
            cached_input_tokens=done.cached_input_tokens,
            cost=done.cost,
        )


class CallStarted(_Entry, tag="call_started"):
    """A call with effects is about to run. Synced before it does, so that it never runs twice."""

    tool_call_id: str


class CallRuns(_Entry, tag="call_process"):
    """Which process does a call. Not synced: it dies with the machine."""

    tool_call_id: str
    pid: int
    process_start: str | None = None


class Resulted(_Entry, tag="result"):
    """What a call came to, as the tool message that clients get."""

    message: Message


class StateSet(_Entry, tag="state"):
    """One key of the shared state."""

    key: str
    value: object


Choice = Literal["model", "mode", "thinking", "auto_compaction"]


class Chosen(_Entry, tag="choice"):
    """How the model's turns are done from now on. Without a value: as it is configured."""

    what: Choice
    value: str | None = None
    at_launch: bool = False
    """It came with the worker's launch, and not from a person meanwhile."""


class JobStarted(_Entry, tag="job_started"):
    """A call left work running that outlives its run."""

    job_id: str
    label: str
    detail: str


class JobEnded(_Entry, tag="job_ended"):
    """It ended; what it came to is a message."""

    job_id: str


class ChildOpened(_Entry, tag="subagent_opened"):
    """A thread below this one is about to be opened."""

    thread: ChildThread


class ChildChanged(_Entry, tag="subagent_changed"):
    """Where a child stands now. One at work is looked for again by a later process."""

    thread_id: str
    at_work: bool = False
    is_open: bool = True


class ToolRequested(_Entry, tag="tool_request"):
    """A tool was asked for by a panel and is about to run, outside of any run. No message."""

    request_id: str
    tool: str
    arguments: str


class ToolAnswered(_Entry, tag="tool_request_result"):
    """What such a request came to; also one that was declined, and so never ran."""

    request_id: str
    tool: str
    success: bool
    output: str = ""
    error: str = ""


class Navigated(_Entry, tag="navigated"):
    """The conversation goes on from another place: its parent, which is not the entry before it.

    What the way from the root to that place does not have is no part of what is said from here on,
    and stays in the file.
    """


class Compacted(_Entry, tag="compacted"):
    """What was said up to here, in short: a model reads this in its place from now on."""

    message: Message
    """The activity that clients see, with the summary as its text."""
    kept_from: str | None = None
    """The first message that a model still reads as it is."""
    asked: str | None = None
    """A user's message before that one, which stays as it is too."""
    reason: Literal["manual", "threshold", "overflow"] = "manual"


class Labelled(_Entry, tag="label"):
    """A person's note on a message; none takes it away. True on every branch."""

    message_id: str
    label: str | None = None


class Named(_Entry, tag="name"):
    """What the conversation is called, on every branch. The last one counts."""

    name: str
    by: Literal["person", "model"] = "person"


RunEnd = Literal["success", "interrupt", "cancelled", "error", "interrupted"]


class RunEnded(_Entry, tag="run_ended"):
    """A run ended. `interrupted` is written by a later process for a run that a crash cut off."""

    run_id: str
    outcome: RunEnd
    interrupts: list[Interrupt] = []
    error: str | None = None
    usage: list[Usage] | None = None
    result: dict[str, object] | None = None
    code: str | None = None
    pending: list[str] = []
    """Calls of the application's tools that it is to answer."""
    asked_in: str | None = None
    """Of one that a crash cut off: the run that only asks for its interrupts, again.

    In this entry and none of its own: a crash while it is written must not lose the question.
    """


Entry = (
    Begun
    | Accepted
    | Taken
    | QueueMoved
    | QueueEdited
    | QueueDeleted
    | RunOpened
    | Partial
    | Said
    | Called
    | Responded
    | CallStarted
    | CallRuns
    | Resulted
    | StateSet
    | Chosen
    | RunEnded
    | JobStarted
    | JobEnded
    | ChildOpened
    | ChildChanged
    | ToolRequested
    | ToolAnswered
    | Navigated
    | Compacted
    | Labelled
    | Named
)

_decoder = msgspec.json.Decoder(Entry)


class BadEntry(ValueError):
    """The line is not an entry that this version can read."""


def encode_entry(entry: Entry) -> bytes:
    """One line, with its newline."""
    return msgspec.json.encode(entry) + b"\n"


def decode_entry(line: bytes) -> Entry:
    """Raises BadEntry."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise BadEntry(str(exc)) from exc


def branch(entries: Sequence[Entry]) -> list[Entry]:
    """The entries from the root to the last one, along the parents.

    A parent that is not there was on a line that could not be read; the entry before it in the file
    takes its place, so that one bad line never hides what was written before it.
    """
    places = {entry.id: place for place, entry in enumerate(entries)}
    found: list[Entry] = []
    place = len(entries) - 1
    while place >= 0:
        entry = entries[place]
        found.append(entry)
        if entry.parent is None:
            place = -1 if place == 0 or isinstance(entry, Begun | Navigated) else place - 1
        else:
            parent = places.get(entry.parent, place - 1)
            place = parent if parent < place else place - 1
    found.reverse()
    return found
