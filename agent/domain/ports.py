"""What the agent needs from outside: a history, a model, tools, and a place for its lines.

Called by the session and the run. Adapters are in `agent.infrastructure`; fakes in the tests.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from agent.domain.allow import Subject
from agent.domain.approval import Effect
from agent.domain.entries import Entry, Responded
from agent.domain.messages import Message
from agent.domain.project import ConversationSummary, Skill

Thinking = Literal["off", "minimal", "low", "medium", "high"]
"""How much a model shall think before it answers; one that can't be told goes its own way."""


class AgentError(Exception):
    """Base of what this context raises: HistoryFailed, ModelFailed. Messages are for people."""


class HistoryFailed(AgentError):
    """The history could not be written. What it held before is whole; this is not in it."""


class ModelFailed(AgentError):
    """The model gave no answer. The message says what to do about it, and names no key."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Log(Protocol):
    """Where facts for the operator go. Never payloads, prompts or keys."""

    def __call__(self, level: str, event: str, /, **fields: object) -> None: ...


class Processes(Protocol):
    """What the kernel tells of a pid, which another process may have by now."""

    def started_at(self, pid: int) -> str | None:
        """When it started, to compare; None when there is none."""
        ...

    def lives(self, pid: int, started_at: str | None) -> bool:
        """Does that very process still run?"""
        ...


class History(Protocol):
    """The durable entries of one conversation, for one caller at a time. Whole or not at all."""

    async def append(self, entries: Sequence[Entry], *, sync: bool) -> None:
        """Write the entries; with ``sync`` they are on the disk on return. Raises HistoryFailed."""
        ...

    async def read(self) -> list[Entry]:
        """All entries there are, in the order they were written. Raises HistoryFailed."""
        ...


class Lines(Protocol):
    """Where the lines of a worker go."""

    def write(self, line: bytes) -> None:
        """Take one line without its newline. Never waits and never raises."""

    async def wait_writable(self) -> None:
        """Return when more may be written. This is what slows a run down for a slow reader."""
        ...

    async def wait_answerable(self) -> None:
        """Return when more answers may be written: far later, since the reader waits for it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What a model is told of a tool, and what the approval table is asked with."""

    name: str
    description: str
    parameters: Mapping[str, object]
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work that goes on after its call. It is started by whoever gets it as a call's result."""

    kind: Literal["shell"]
    label: str
    description: str
    detail: str
    work: Callable[[], Awaitable["ToolResult"]]
    """Cancelling it ends all that it started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call came to. A failure is a result too; the model reads both fields."""

    success: bool
    output: str = ""
    error: str = ""
    state: Mapping[str, object] = field(default_factory=dict[str, object])
    """Keys of the shared state that the call replaced."""
    job: Job | None = None


class BadArguments(ValueError):
    """The arguments do not fit the tool. The message is for the model."""


class Tell(Protocol):
    """What a running call tells before its result. Never waits."""

    def __call__(self, data: bytes) -> None:
        """It printed this."""

    def runs_as(self, pid: int) -> None:
        """This process does it: what may outlive a crash of ours."""


class _Silence:
    def __call__(self, data: bytes) -> None:
        """Nobody listens."""

    def runs_as(self, pid: int) -> None:
        """Nobody listens."""


silent = _Silence()
"""For whoever waits for the result only."""


class PreparedCall(Protocol):
    """A call whose arguments were checked, ready to run."""

    @property
    def summary(self) -> str:
        """One short line that names what waits, for the person who is asked."""
        ...

    def subject(self) -> Subject | None:
        """What a rule of the allow list is held against; None: no rule covers this call.

        May look at the disk: call it off the event loop. Never raises.
        """
        ...

    async def run(self, tell: Tell = silent) -> ToolResult:
        """Do it, telling output as it comes. Cancelling ends all that it started."""
        ...


class Tool(Protocol):
    """Something a model may call."""

    @property
    def spec(self) -> ToolSpec: ...

    def prepare(self, arguments: bytes) -> PreparedCall:
        """Check the arguments (JSON text). Raises BadArguments. Does nothing else."""
        ...


class ToolServers(Protocol):
    """Servers that lend this worker their tools. They start beside everything else."""

    def tools(self) -> Mapping[str, Tool]:
        """What can be called now: a server that is not ready adds nothing."""
        ...

    def find(self, name: str) -> Tool | None:
        """A tool by name, also of a server that is still starting: its call waits for that."""
        ...

    def state(self) -> list[dict[str, object]]:
        """The `mcpServers` of the shared state."""
        ...

    async def wait_started(self) -> None:
        """Return when none is starting any more. Bounded in time."""
        ...

    async def serve(self, on_change: Callable[[], None]) -> None:
        """Start them all and keep them until cancelled; then all that they started ends."""
        ...


@dataclass(frozen=True, slots=True)
class TextPiece:
    delta: str


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    delta: str


@dataclass(frozen=True, slots=True)
class CallBegan:
    part: int
    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsPiece:
    part: int
    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseDone:
    """The last piece of a response: what it cost, and what only its provider needs back."""

    provider: str
    model: str
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int = 0
    cost: float | None = None
    """In US dollars; None when the price is not known."""
    opaque: dict[str, object] | None = None
    cut: Literal["length", "filter"] | None = None
    """What ended the answer before the model had: its limit for one answer, or a filter."""


@dataclass(frozen=True, slots=True)
class Retrying:
    """Nothing came yet: the same request is sent again after so many seconds."""

    attempt: int
    delay: float
    reason: str


Piece = Retrying | TextPiece | ReasoningPiece | CallBegan | ArgumentsPiece | ResponseDone


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInput:
    """All that one model request is made of."""

    instructions: str
    messages: Sequence[Message]
    responses: Mapping[str, Responded]
    """Of assistant and reasoning messages: the response each came in."""
    tools: Sequence[ToolSpec]
    thinking: Thinking | None = None


class LanguageModel(Protocol):
    """A model that answers in pieces. Iterating raises ModelFailed."""

    def respond(self, request: ModelInput) -> AbstractAsyncContextManager[AsyncIterator[Piece]]: ...

    async def context_window(self) -> int | None:
        """How many tokens it reads at most, if that is known. Never raises."""
        ...


class Models(Protocol):
    """The models that can be chosen."""

    async def names(self) -> Sequence[str]:
        """What is configured, the default first. Bounded in time; never raises."""
        ...

    def find(self, name: str) -> LanguageModel:
        """Raises ModelFailed for a name that can't be a model's."""
        ...


class BadFile(AgentError):
    """A file that was named can't be read or written so. The message says why."""


class Archive(Protocol):
    """The other conversations of the project, and files for and from elsewhere."""

    async def create(self, conversation_id: str, entries: Sequence[Entry]) -> None:
        """A new conversation, whole and on the disk on return. Raises HistoryFailed."""
        ...

    async def read(self, path: str) -> list[Entry]:
        """The entries of a file that a conversation was written to. Raises BadFile."""
        ...

    async def write(self, name: str, text: bytes, path: str | None, *, overwrite: bool) -> str:
        """Write a file, by default under this name among the project's artifacts.

        Returns its path. Raises BadFile.
        """
        ...


class Project(Protocol):
    """What the project has to show. Nothing here raises: trouble with a file is logged."""

    async def conversations(self) -> Sequence[ConversationSummary]: ...

    async def inputs(self) -> Sequence[str]:
        """What people typed, in all conversations of the project, oldest first."""
        ...

    async def add_input(self, text: str) -> None: ...

    async def skills(self) -> Sequence[Skill]: ...
