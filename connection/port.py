"""AgentConnection: all that a user interface may ask of a session, and of the daemon around it.

User interfaces express intent and never see transports, registries or sessions. An operation that
is not built here, or that the other side does not offer, raises CapabilityUnavailable and sends
nothing; docs/reference/agent-connection.md lists which. Every operation may raise the errors of
`connection.failures`; its docstring names those that a caller would branch on.

The operations come in groups, one Protocol each; `AgentConnection` is all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import anyio
import msgspec

from connection.events import Listener
from connection.shapes import (
    Admission,
    Answer,
    Compacted,
    Forked,
    ForkPoint,
    Json,
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
    SlashCommand,
    Snapshot,
    ToolDefinition,
)


class Lifecycle(Protocol):
    """The connection itself."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell the listener of every event. Returns what ends that; safe to repeat."""
        ...

    def on_before_session_invalidate(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Tell the listener before this connection leaves its session for another one."""
        ...

    async def aclose(self) -> None:
        """Leave the session, which goes on without this client. Safe to repeat, never raises."""
        ...

    def supports_negotiated_capability(self, capability: str) -> bool:
        """Whether the attach that holds now proved that both sides have it."""
        ...

    def watch_session(
        self, selector: str, listener: Listener
    ) -> AbstractAsyncContextManager[Snapshot]:
        """A second view of another session, read only, while the block runs."""
        ...

    async def promote_to_resident(self) -> None:
        """Let a session that lives with its owner live on."""
        ...

    async def dispose_owned_session(self) -> None:
        """End a session that lives with its owner."""
        ...

    async def get_owned_session_contract_proof(self) -> Json:
        """What proves that an owned session was cleaned up."""
        ...


class Reads(Protocol):
    """What there is to know. Nothing here changes anything."""

    async def get_state(self) -> SessionState: ...

    async def get_initial_snapshot(self) -> Snapshot:
        """All that a first screen needs. Feed it those events that it does not cover, no others."""
        ...

    async def get_messages(self) -> tuple[msgspec.Raw, ...]:
        """The whole history, as AG-UI messages."""
        ...

    async def get_earlier_messages(self, before: int, limit: int = 100) -> MessagesPage:
        """Up to `limit` messages before the place `before` (see `Snapshot.window`)."""
        ...

    async def get_session_context(self) -> Json:
        """The entries that the model's next request is made of."""
        ...

    async def get_session_tree(self) -> SessionTree: ...

    async def get_child_snapshots(self) -> Sequence[Json]:
        """The subagents of this session, with all of theirs."""
        ...

    async def get_session_header(self) -> Json:
        """What the conversation's file begins with."""
        ...

    async def get_commands(self) -> Sequence[SlashCommand]: ...

    async def get_resource_snapshot(self) -> Json:
        """Skills, prompts, context files, extensions, and what was wrong with them."""
        ...

    async def get_model_catalog(self) -> ModelCatalog: ...

    async def get_available_models(self) -> Sequence[str]: ...

    async def get_session_stats(self) -> SessionStats: ...

    async def get_context_tree(self) -> Json:
        """What fills the model's window, by part."""
        ...

    async def get_queue(self) -> Sequence[QueuedMessage]: ...

    async def list_sessions(self, *, include_saved: bool = False) -> Sequence[SessionSummary]:
        """The sessions of all projects that are open now; with the saved ones on request."""
        ...

    async def list_saved_sessions(
        self,
        scope: Literal["current", "all"] = "current",
        *,
        on_progress: Callable[[int, int], None] | None = None,
        on_session: Callable[[SessionSummary], None] | None = None,
    ) -> Sequence[SessionSummary]:
        """Conversations on disk, newest first: of this project, or of all."""
        ...

    async def get_user_messages_for_forking(self) -> Sequence[ForkPoint]: ...

    async def get_last_assistant_text(self) -> str | None: ...

    async def get_system_prompt(self) -> str: ...

    async def get_tool_definition(self, name: str) -> ToolDefinition:
        """Raises CommandRefused (`unknown_tool`)."""
        ...

    async def get_max_depth_status(self) -> Json:
        """How deep subagents may go, and who said so."""
        ...

    async def get_heartbeat(self) -> Json | None: ...

    async def list_heartbeats(self) -> Sequence[Json]: ...

    async def list_cron_jobs(self, *, include_inactive: bool = False) -> Sequence[Json]: ...

    async def get_agent_message_status(self) -> Json: ...


class Input(Protocol):
    """What people say to the agent, and what they decide."""

    async def prompt(
        self,
        text: str,
        *,
        lane: Lane = "steering",
        message_id: str | None = None,
        queue_if_busy: bool = True,
        cancel: anyio.Event | None = None,
    ) -> Admission:
        """Send a message. Returns when it was admitted, not when the run ends.

        While a run goes on it waits in a lane: `steering` is taken after the current tool call,
        `follow_up` is the next run. Setting `cancel` takes the prompt back while it is not
        admitted. Raises AdmissionFailed, and CommandRefused (`busy`) without `queue_if_busy`.
        """
        ...

    async def prompt_and_wait(
        self, text: str, *, message_id: str | None = None, cancel: anyio.Event | None = None
    ) -> RunOutcome:
        """Send a message and return when the run that took it has ended."""
        ...

    async def steer(self, text: str) -> Admission:
        """A message for the run that goes on, taken after its current tool call."""
        ...

    async def follow_up(self, text: str) -> Admission:
        """A message for the run after this one."""
        ...

    async def abort(self) -> bool:
        """End the open run. False when none was open."""
        ...

    async def answer(self, answers: Sequence[Answer]) -> None:
        """Decide all open interrupts at once; the first complete answer of all clients counts.

        Raises CommandRefused: `incomplete_resume` names what is missing, `not_open` says that
        somebody else has decided.
        """
        ...

    async def wait_for_idle(self) -> SessionState:
        """Return when no run is open and no message waits; a decision that is open is idle, too."""
        ...

    async def wait_for_headless_completion(self) -> None:
        """Return when nothing goes on any more, in subagents either."""
        ...

    async def clear_queue(self) -> Removed: ...

    async def abort_and_clear_queue(self) -> Removed: ...

    async def mutate_queued_message(
        self, lane: Lane, index: int, expected_text: str, mutation: QueueMutation
    ) -> Literal["applied", "rejected", "invalid", "unsupported"]:
        """Change a message that waits. `rejected`: another text is in that place by now."""
        ...

    def acquire_session_input_pause(self, lease_key: str) -> AbstractAsyncContextManager[None]:
        """Hold back all input while the block runs."""
        ...

    async def start_side_question(
        self, question_id: str, question: str, previous_turns: Sequence[Json] = ()
    ) -> bool:
        """Ask something beside the conversation, which does not see it."""
        ...

    async def abort_side_question(self, question_id: str) -> bool: ...

    async def execute_bash(
        self, command: str, *, exclude_from_context: bool = False, transient: bool = False
    ) -> str:
        """Run a command for the person. Returns its id."""
        ...

    async def execute_bash_and_wait(self, command: str) -> Json: ...

    async def abort_bash(self) -> None: ...

    async def cancel_child(self, child_id: str) -> bool:
        """End the run of a subagent. False when it has none."""
        ...


class Settings(Protocol):
    """How the agent works from its next turn on."""

    async def set_model(self, model: str) -> str:
        """By `provider:name`. Returns the model that is chosen now."""
        ...

    async def cycle_model(self, direction: Literal["forward", "backward"] = "forward") -> str: ...

    async def set_scoped_models(self, models: Sequence[str]) -> None: ...

    async def set_mode(self, mode: str) -> str:
        """What the agent may do without asking. Returns the mode that holds now."""
        ...

    async def set_thinking_level(self, level: str | None) -> str | None: ...

    async def cycle_thinking_level(self) -> str | None: ...

    async def set_service_tier(self, tier: str) -> None: ...

    async def set_transport(self, transport: str) -> None: ...

    async def set_steering_mode(self, mode: Literal["all", "one-at-a-time"]) -> None: ...

    async def set_follow_up_mode(self, mode: Literal["all", "one-at-a-time"]) -> None: ...

    async def set_auto_compaction_enabled(self, enabled: bool) -> None: ...

    async def set_auto_retry_enabled(self, enabled: bool) -> None: ...

    async def set_max_depth(self, depth: int, *, is_global: bool = False) -> Json: ...


class Context(Protocol):
    """What the model remembers."""

    async def compact(self, instructions: str | None = None) -> Compacted:
        """Put a summary in the place of the older messages."""
        ...

    async def refine(
        self,
        instructions: str | None = None,
        *,
        rollback_id: str | None = None,
        is_global: bool = False,
    ) -> Json: ...

    async def abort_compaction(self) -> bool: ...

    async def abort_branch_summary(self) -> None: ...

    async def abort_retry(self) -> None: ...


class Replacement(Protocol):
    """Other sessions, and other places in this one's history.

    The first four move this client alone; the others stay where they are.
    """

    async def new_session(self) -> str:
        """Move to a new conversation in the same project. Returns its id."""
        ...

    async def switch_session(self, selector: str) -> str:
        """Move to another session, open or saved. Raises UnknownSession, AmbiguousSession."""
        ...

    async def fork(
        self, message_id: str | None, *, position: Literal["before", "at"] | None = None
    ) -> Forked:
        """Copy the conversation up to a message, and move to the copy. None: up to its end."""
        ...

    async def import_from_jsonl(self, path: str) -> str:
        """Make a conversation of a file, and move to it. Returns its id."""
        ...

    async def navigate_tree(self, message_id: str | None, *, label: str | None = None) -> Navigated:
        """Go on from another place of the tree, for everyone who follows."""
        ...

    async def reload(self) -> None:
        """Read skills, prompts and context files again."""
        ...

    async def export_to_html(self, path: str | None = None) -> str:
        """Returns where it was written."""
        ...

    async def export_to_jsonl(self, path: str | None = None) -> str: ...

    async def set_session_name(self, name: str) -> str: ...

    async def set_session_entry_label(self, message_id: str, label: str | None) -> None: ...

    async def rename_saved_session(self, selector: str, name: str) -> None: ...

    async def delete_saved_session(self, selector: str) -> None: ...

    async def kill_session(self, selector: str | None = None) -> None:
        """Stop its worker, and those of its subagents, at once. The conversations stay."""
        ...


class Scheduling(Protocol):
    """What happens without anybody typing, and between sessions."""

    async def add_cron_job(self, schedule: str, prompt: str) -> Json: ...

    async def cancel_cron_job(self, job_id: str) -> bool: ...

    async def set_heartbeat(
        self, schedule: str, instruction: str, delivery_mode: str = "steer"
    ) -> Json: ...

    async def update_heartbeat(self, action: Literal["pause", "resume", "clear"]) -> Json: ...

    async def manage_heartbeat(
        self, active_session_id: str, job_id: str, action: Literal["pause", "resume", "stop"]
    ) -> Json: ...

    async def send_agent_message(self, target: str, message: str) -> Json: ...

    async def pause_agent_messages(self) -> None: ...

    async def resume_agent_messages(self) -> None: ...

    async def clear_agent_messages(self) -> None: ...

    async def respond_to_extension_ui_request(self, request_id: str, response: Json) -> None: ...

    def supports_acp_mcp_servers(self) -> bool: ...

    async def replace_acp_mcp_servers(
        self, servers: Sequence[Mapping[str, object]], owner_id: str
    ) -> None: ...

    async def release_acp_mcp_servers(self, owner_id: str, names: Sequence[str] = ()) -> None: ...

    async def submit_correlated_prompt(self, correlation_id: str, text: str) -> Json: ...

    async def cancel_prompt_lifecycle(self, correlation_id: str) -> bool: ...

    async def get_prompt_lifecycles(self) -> Sequence[Json]: ...


class AgentConnection(
    Lifecycle, Reads, Input, Settings, Context, Replacement, Scheduling, Protocol
):
    """One client's connection to one session at a time."""
