"""The values that the operations of AgentConnection give back.

Most of them are what a worker answers, decoded: fields are camelCase on the wire and snake_case
here. What a worker does not know is absent, and has its default.
"""

from typing import Literal

import msgspec

from sessions.domain.keys import Cursor, ThreadKey

Lane = Literal["steering", "follow_up"]
Json = dict[str, object]


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A value that crosses the boundary."""


class Interrupt(Shape, frozen=True, kw_only=True):
    """Something that a suspended run waits for: an approval, or an answer."""

    id: str
    reason: str = ""
    message: str | None = None
    tool_call_id: str | None = None
    response_schema: Json | None = None


class QueuedMessage(Shape, frozen=True, kw_only=True):
    """A message that waits."""

    id: str
    text: str
    lane: Lane = "steering"


class ContextUsage(Shape, frozen=True, kw_only=True):
    """How full the model's window is."""

    tokens: int = 0
    limit: int | None = None


class WorkerState(Shape, frozen=True, kw_only=True):
    """What a worker says of its conversation."""

    run_id: str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Json = {}
    """The shared state of AG-UI: todos, usage, queue, backgroundTasks, retry."""
    model: str | None = None
    mode: str | None = None
    thinking: str | None = None
    name: str | None = None
    leaf_id: str | None = None
    is_compacting: bool = False
    message_count: int | None = None
    auto_compaction: bool | None = None
    context: ContextUsage | None = None


class SessionState(Shape, frozen=True, kw_only=True):
    """What a user interface needs to know of a session besides its messages."""

    active_session_id: str
    session_id: str
    """The conversation id: it survives everything."""
    project_dir: str
    status: str
    """launching, idle, running, waiting (for a person), stopping or stopped."""
    run_id: str | None = None
    waits_for: tuple[str, ...] = ()
    """The ids of the open interrupts."""
    followers: int = 0
    answered_by: str | None = None
    """What gave the last answer, as it calls itself: "the panel". None: it does not say."""
    worker: WorkerState | None = None
    """None when the worker could not say (it is of another make, or did not answer in time)."""

    @property
    def key(self) -> ThreadKey:
        return ThreadKey.parse(self.project_dir, self.session_id)

    @property
    def is_streaming(self) -> bool:
        """A run goes on."""
        return self.run_id is not None

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """What the session waits for, as far as its worker told."""
        return self.worker.interrupts if self.worker else ()


class Window(Shape, frozen=True, kw_only=True):
    """Which part of a long history a snapshot holds."""

    first: int
    """The place of the first message in it; 0 is the conversation's first."""
    total: int


class MessagesPage(Shape, frozen=True, kw_only=True):
    """Messages before those that one has, oldest first."""

    messages: tuple[msgspec.Raw, ...]
    first: int
    total: int


class Replay(Shape, frozen=True, kw_only=True):
    """What became of the events that a client missed."""

    status: Literal["complete", "partial", "unavailable"]
    reason: str | None = None


class Snapshot(Shape, frozen=True, kw_only=True):
    """The coherent state of a session at a cursor. The truth, whatever was shown before.

    Show `messages`, then feed `events`: they lead from the messages to the open run (its
    RUN_STARTED, the state, the openers of what is open), or to the decision that is waited for.
    Then feed every `session_event` that the snapshot does not cover.
    """

    state: SessionState
    messages: tuple[msgspec.Raw, ...]
    """AG-UI messages, as JSON bytes."""
    events: tuple[bytes, ...] = ()
    """AG-UI events, as JSON bytes."""
    cursor: Cursor | None = None
    replay: Replay | None = None
    window: Window | None = None
    """None: `messages` is the whole history. Else the rest comes from `get_earlier_messages`."""

    def covers(self, event: Cursor | None) -> bool:
        """The event is inside the snapshot already."""
        mine = self.cursor
        return (
            event is not None
            and mine is not None
            and event.generation == mine.generation
            and event.sequence <= mine.sequence
        )


class SessionSummary(Shape, frozen=True, kw_only=True):
    """One row of the list of sessions."""

    active_session_id: str
    session_id: str
    project_dir: str
    status: str
    """As in SessionState; `saved` for a conversation that nobody has open."""
    name: str | None = None
    title: str | None = None
    run_id: str | None = None
    waits_for: tuple[str, ...] = ()
    followers: int = 0
    since_seconds: float | None = None
    """For how long it has had this status."""
    updated_at: str | None = None
    """Of a saved one: when it was last written to, ISO 8601."""
    message_count: int | None = None
    worker_pid: int | None = None


class Admission(Shape, frozen=True, kw_only=True):
    """What became of a prompt: it is in the conversation, and runs now or when its turn comes."""

    admission: Literal["started", "queued", "ignored"]
    message_id: str | None = None
    lane: Lane | None = None


class RunOutcome(Shape, frozen=True, kw_only=True):
    """How the run that a prompt was part of ended."""

    outcome: Literal["success", "interrupt", "cancelled", "error", "unknown"]
    """unknown: it ended while the connection was lost, and nothing says how."""
    run_id: str | None = None
    error: str | None = None


class Removed(Shape, frozen=True, kw_only=True):
    """What was taken out of the queue."""

    removed: tuple[QueuedMessage, ...] = ()
    aborted: bool = False


class TreeNode(Shape, frozen=True, kw_only=True):
    """One message or compaction in the tree of a conversation."""

    id: str
    parent_id: str | None = None
    role: str | None = None
    kind: str = "message"
    text: str = ""
    at: str | None = None
    label: str | None = None
    tool_calls: int = 0


class SessionTree(Shape, frozen=True, kw_only=True):
    """All branches of a conversation, flat, in the order they were written."""

    nodes: tuple[TreeNode, ...]
    leaf_id: str | None = None


class Navigated(Shape, frozen=True, kw_only=True):
    """Where the conversation is now, and the text to edit, if a user's message was chosen."""

    editor_text: str = ""
    leaf_id: str | None = None


class Forked(Shape, frozen=True, kw_only=True):
    """The new conversation, which this client has been moved to."""

    conversation_id: str
    selected_text: str = ""


class ForkPoint(Shape, frozen=True, kw_only=True):
    """A user's message that a fork can begin before."""

    id: str
    text: str


class TokenCounts(Shape, frozen=True, kw_only=True):
    input: int = 0
    output: int = 0
    cached_input: int = 0
    total: int = 0


class SessionStats(Shape, frozen=True, kw_only=True):
    """Counts over the whole conversation."""

    messages: int = 0
    user_messages: int = 0
    assistant_messages: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    tokens: TokenCounts = TokenCounts()
    cost: float | None = None
    entries: int | None = None
    bytes: int | None = None
    branches: int | None = None
    compactions: int | None = None
    context: ContextUsage | None = None


class ToolDefinition(Shape, frozen=True, kw_only=True):
    """What a model is told of a tool. Never the tool itself."""

    name: str
    description: str = ""
    parameters: Json = {}
    effect: str | None = None


class SlashCommand(Shape, frozen=True, kw_only=True):
    name: str
    description: str = ""
    source: str = ""


class ModelCatalog(Shape, frozen=True, kw_only=True):
    """The models that are configured, the chosen one among them."""

    models: tuple[str, ...]
    current: str | None = None


class Compacted(Shape, frozen=True, kw_only=True):
    """What a compaction came to."""

    summary: str = ""
    messages_before: int | None = None
    messages_after: int | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None


class QueueMutation(Shape, frozen=True, kw_only=True):
    """What to do with a message that waits."""

    kind: Literal["delete", "move", "replace"]
    by: Literal[-1, 1] | None = None
    text: str | None = None
    lane: Lane | None = None


class Answer(Shape, frozen=True, kw_only=True):
    """A person's decision about one open interrupt."""

    interrupt_id: str
    approved: bool
    payload: object = None
    """For a question: what was chosen or written, in the shape of its `response_schema`."""
