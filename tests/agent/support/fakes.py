"""Fakes of the agent's ports. Each keeps the promises its port makes, in memory."""

import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
import msgspec

from agent.domain.allow import Subject
from agent.domain.approval import Effect
from agent.domain.entries import Entry, decode_entry, encode_entry
from agent.domain.ports import (
    BadArguments,
    BadFile,
    HistoryFailed,
    Job,
    ModelFailed,
    ModelInput,
    Piece,
    ResponseDone,
    Tell,
    ToolResult,
    ToolSpec,
    silent,
)
from agent.domain.project import ConversationSummary, Skill

Line = dict[str, object]


class FakeLog:
    """Keeps what was logged."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, dict[str, object]]] = []

    def __call__(self, level: str, event: str, /, **fields: object) -> None:
        self.events.append((level, event, fields))

    def names(self) -> list[str]:
        return [event for _, event, _ in self.events]


class FakeHistory:
    """A disk in memory. `synced` is what a crash leaves; the rest may be lost."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.synced = 0
        self.is_full = False
        self.refused: set[str] = set()
        """Kinds of entries that find no room."""

    async def append(self, entries: Sequence[Entry], *, sync: bool) -> None:
        await anyio.lowlevel.checkpoint()
        lines = [encode_entry(entry) for entry in entries]
        kinds = {str(msgspec.json.decode(line)["kind"]) for line in lines}
        if self.is_full or kinds & self.refused:
            raise HistoryFailed("The conversation's history could not be written (no space left).")
        self.lines += lines
        if sync:
            self.synced = len(self.lines)

    async def read(self) -> list[Entry]:
        await anyio.lowlevel.checkpoint()
        return self.entries()

    def entries(self) -> list[Entry]:
        return [decode_entry(line) for line in self.lines]

    def kinds(self) -> list[str]:
        return [str(msgspec.json.decode(line)["kind"]) for line in self.lines]


class FakeLines:
    """A stdout in memory. `on_line` sees each line in the moment it leaves."""

    def __init__(self, on_line: Callable[[Line], None] = lambda _: None) -> None:
        self.lines: list[Line] = []
        self.is_full = False
        self._on_line = on_line
        self._changed = anyio.Event()

    def write(self, line: bytes) -> None:
        value: Line = msgspec.json.decode(line)
        self.lines.append(value)
        self._on_line(value)
        self._changed.set()

    async def wait_writable(self) -> None:
        while self.is_full:
            await self._next_change()

    async def wait_answerable(self) -> None:
        await anyio.lowlevel.checkpoint()

    def let_go(self) -> None:
        self.is_full = False
        self._changed.set()

    async def wait_for(self, is_it: Callable[[Line], bool], start: int = 0) -> Line:
        with anyio.fail_after(60):
            while True:
                for line in self.lines[start:]:
                    if is_it(line):
                        return line
                await self._next_change()

    async def _next_change(self) -> None:
        self._changed = anyio.Event()
        await self._changed.wait()


Step = Sequence[Piece] | Exception
DONE = ResponseDone(provider="fake", model="one", input_tokens=10, output_tokens=5)


@dataclass(slots=True)
class FakeModel:
    """Answers with what the test gave it, response after response."""

    responses: list[Step]
    requests: list[ModelInput] = field(default_factory=list[ModelInput])
    before_piece: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
    window: int | None = None

    async def context_window(self) -> int | None:
        return self.window

    @asynccontextmanager
    async def respond(self, request: ModelInput) -> AsyncGenerator[AsyncIterator[Piece]]:
        self.requests.append(request)
        step = self.responses.pop(0)
        yield _FakePieces(step, self)


@dataclass(slots=True)
class FakeModels:
    """Two models to choose from."""

    model: FakeModel
    other: FakeModel = field(default_factory=lambda: FakeModel([]))

    async def names(self) -> list[str]:
        await anyio.lowlevel.checkpoint()
        return ["fake:one", "fake:two"]

    def find(self, name: str) -> FakeModel:
        if name not in ("fake:one", "fake:two"):
            raise ModelFailed(f"There is no model {name!r}.", "model_unknown")
        return self.model if name == "fake:one" else self.other


@dataclass(slots=True)
class FakeProject:
    """A project with what the test put into it."""

    saved: list[ConversationSummary] = field(default_factory=list[ConversationSummary])
    typed: list[str] = field(default_factory=list[str])

    async def conversations(self) -> list[ConversationSummary]:
        await anyio.lowlevel.checkpoint()
        return self.saved

    async def inputs(self) -> list[str]:
        await anyio.lowlevel.checkpoint()
        return self.typed

    async def add_input(self, text: str) -> None:
        await anyio.lowlevel.checkpoint()
        self.typed.append(text)

    async def skills(self) -> list[Skill]:
        await anyio.lowlevel.checkpoint()
        return [Skill("review", "How to review.", "project")]


class FakeProcesses:
    """A kernel in which only these pids live."""

    def __init__(self, *living: int) -> None:
        self.living = set(living)

    def started_at(self, pid: int) -> str | None:
        return f"start of {pid}"

    def lives(self, pid: int, started_at: str | None) -> bool:
        return pid in self.living and started_at == self.started_at(pid)


class FakeArchive:
    """Other conversations and files, in memory."""

    def __init__(self) -> None:
        self.conversations: dict[str, FakeHistory] = {}
        self.files: dict[str, bytes] = {}

    async def create(self, conversation_id: str, entries: Sequence[Entry]) -> None:
        history = self.conversations[conversation_id] = FakeHistory()
        await history.append(entries, sync=True)

    async def read(self, path: str) -> list[Entry]:
        await anyio.lowlevel.checkpoint()
        if path not in self.files:
            raise BadFile(f"There is no file {path}.")
        return [decode_entry(line) for line in self.files[path].splitlines()]

    async def write(self, name: str, text: bytes, path: str | None, *, overwrite: bool) -> str:
        await anyio.lowlevel.checkpoint()
        written = path or f"/artifacts/{name}"
        if path in self.files and not overwrite:
            raise BadFile(f"{path} is there already.")
        self.files[written] = text
        return written


class _FakePieces:
    def __init__(self, step: Step, model: FakeModel) -> None:
        self._step = step
        self._model = model
        self._pieces = iter(() if isinstance(step, Exception) else step)

    def __aiter__(self) -> "_FakePieces":
        return self

    async def __anext__(self) -> Piece:
        await self._model.before_piece()
        for piece in self._pieces:
            if isinstance(piece, BrokenPiece):
                raise piece.error
            return piece
        if isinstance(self._step, Exception):
            raise self._step
        raise StopAsyncIteration


@dataclass(frozen=True, slots=True)
class BrokenPiece(ResponseDone):
    """Where a stream breaks."""

    provider: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    error: Exception = field(default_factory=RuntimeError)


@dataclass(slots=True)
class FakeTool:
    """A tool that notes when it ran."""

    name: str = "Do"
    key: str = "what"
    effect: Effect = Effect.RUNS
    ran: list[str] = field(default_factory=list[str])
    work: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
    state: dict[str, object] = field(default_factory=dict[str, object])
    prints: Sequence[bytes] = ()
    pid: int | None = None
    job: Job | None = None

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(name=self.name, description="", parameters={}, effect=self.effect)

    def prepare(self, arguments: bytes) -> "_FakeCall":
        try:
            found = msgspec.json.decode(arguments)
        except msgspec.DecodeError as exc:
            raise BadArguments(f"the arguments do not fit: {exc}.") from exc
        return _FakeCall(self, str(found.get(self.key, found.get("what", ""))))


@dataclass(frozen=True, slots=True)
class _FakeCall:
    tool: FakeTool
    what: str

    @property
    def summary(self) -> str:
        return self.what

    def subject(self) -> Subject | None:
        return Subject("command", self.what)

    async def run(self, tell: Tell = silent) -> ToolResult:
        if self.tool.pid is not None:
            tell.runs_as(self.tool.pid)
        self.tool.ran.append(self.what)
        for piece in self.tool.prints:
            tell(piece)
        await self.tool.work()
        if self.tool.job is not None:
            return ToolResult(success=True, output="started", job=self.tool.job)
        return ToolResult(success=True, output=f"did {self.what}", state=self.tool.state)


def counting_ids(prefix: str = "id") -> Callable[[], str]:
    """Ids that a reader can follow."""
    numbers = itertools.count(1)
    return lambda: f"{prefix}-{next(numbers)}"
