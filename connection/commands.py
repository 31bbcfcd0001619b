"""Every command of the local protocol: one table, and all that is derived from it.

A command is what the boundary can ask of the side where the sessions are. `worker` ones are passed
to the session's worker as a `command` of the same name and with the same fields; the others are
carried out by the daemon. The reference page and the wire shapes' digest are made from this table,
so a change here needs a new schema revision (see `connection.negotiation`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["read", "mutating"]

REQUEST_TIMEOUT = 30.0
LONG_TIMEOUT = 600.0


@dataclass(frozen=True, slots=True)
class Gate:
    """What the other side must be for something to be sent to it."""

    revision: int = 0
    capability: str | None = None


OPEN = Gate()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One row of the table."""

    kind: Kind
    says: str
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """By name: the type, in words; optional ones end with a question mark."""
    gate: Gate = OPEN
    field_gates: Mapping[str, Gate] = field(default_factory=dict[str, Gate])
    """Fields that need more than the command itself. Without them it can still be sent."""
    worker: bool = False
    in_session: bool = True
    """It is about the session that `activeSessionId` names."""
    timeout: float = REQUEST_TIMEOUT


_WINDOWS = Gate(1, "history_window")
_ADMISSION = Gate(1, "prompt_admission_cancellation")
_LANES = {"text": "string", "messageId": "string?"}

COMMANDS: Mapping[str, Command] = {
    # The connection itself
    "ack_result": Command(
        kind="read",
        says="The result of a mutating command is here: it need not be kept any longer.",
        fields={"commandId": "string"},
        in_session=False,
    ),
    "list": Command(
        kind="read",
        says="The sessions that are open now; with the saved ones on request.",
        fields={"all": "boolean?"},
        in_session=False,
    ),
    "list_saved_sessions": Command(
        kind="read",
        says=(
            "Conversations on disk, of one project or of all. Sends `session_list_progress` and"
            " `session_list_item` records."
        ),
        fields={"projectDir": "string?"},
        in_session=False,
        timeout=LONG_TIMEOUT,
    ),
    "resolve": Command(
        kind="read",
        says="Which session a selector names, open or saved.",
        fields={"selector": "string"},
        in_session=False,
    ),
    "attach": Command(
        kind="read",
        says="Follow a session; its worker is launched when it has none.",
        fields={
            "projectDir": "string",
            "sessionId": "string",
            "capabilities": "string[]",
            "resumeCursor": "{generation, sequence}?",
            "lastMessages": "number?",
            "model": "string?",
            "mode": "string?",
            "clientName": "string?",
        },
        field_gates={"lastMessages": _WINDOWS, "clientName": Gate(2)},
        in_session=False,
        timeout=120.0,
    ),
    "detach": Command(kind="read", says="Follow the session no longer. It goes on."),
    # Reads
    "get_snapshot": Command(
        kind="read",
        says="A coherent snapshot beside the events, which go on.",
        fields={"lastMessages": "number?"},
        field_gates={"lastMessages": _WINDOWS},
        timeout=120.0,
    ),
    "get_state": Command(kind="read", says="What there is to know besides the messages."),
    "get_earlier_messages": Command(
        kind="read",
        says="Messages before a place of the history.",
        fields={"before": "number", "limit": "number"},
        gate=_WINDOWS,
        worker=True,
    ),
    "get_tree": Command(kind="read", says="All branches.", worker=True),
    "get_user_messages_for_forking": Command(
        kind="read", says="Where a fork can begin.", worker=True
    ),
    "get_last_assistant_text": Command(kind="read", says="The last answer.", worker=True),
    "get_system_prompt": Command(kind="read", says="The system prompt.", worker=True),
    "get_tool_definition": Command(
        kind="read", says="One tool, as a model sees it.", fields={"name": "string"}, worker=True
    ),
    "get_commands": Command(kind="read", says="Slash commands.", worker=True),
    "get_stats": Command(kind="read", says="Counts, tokens, cost.", worker=True),
    "list_models": Command(kind="read", says="The models that are configured.", worker=True),
    "list_queue": Command(kind="read", says="The messages that wait.", worker=True),
    # Input
    "prompt": Command(
        kind="mutating",
        says="A user's message. Answered when it is admitted.",
        fields={
            **_LANES,
            "lane": "steering | follow_up?",
            "ifBusy": "queue | refuse?",
            "admissionId": "string?",
        },
        field_gates={"admissionId": _ADMISSION},
        worker=True,
    ),
    "cancel_prompt_admission": Command(
        kind="mutating",
        says="Take a prompt back while it is not admitted.",
        fields={"admissionId": "string"},
        gate=_ADMISSION,
    ),
    "steer": Command(
        kind="mutating",
        says="A message for the run that goes on.",
        fields=_LANES,
        worker=True,
    ),
    "follow_up": Command(
        kind="mutating", says="A message for the next run.", fields=_LANES, worker=True
    ),
    "abort": Command(kind="mutating", says="End the open run."),
    "answer": Command(
        kind="mutating",
        says="Decide all open interrupts.",
        fields={"answers": "{interruptId, approved, payload?}[]"},
    ),
    "clear_queue": Command(kind="mutating", says="Take all messages that wait back.", worker=True),
    "abort_and_clear_queue": Command(
        kind="mutating", says="End the run and take back what waits.", worker=True
    ),
    "mutate_queued_message": Command(
        kind="mutating",
        says="Change a message that waits, if it still has the expected text.",
        fields={
            "lane": "steering | follow_up",
            "index": "number",
            "expectedText": "string",
            "mutation": "{kind, by?, text?, lane?}",
        },
        gate=Gate(1, "queue_message_mutation"),
        worker=True,
    ),
    # Settings
    "set_model": Command(
        kind="mutating", says="Choose a model.", fields={"model": "string"}, worker=True
    ),
    "set_mode": Command(
        kind="mutating", says="Choose a mode.", fields={"mode": "string"}, worker=True
    ),
    "set_thinking": Command(
        kind="mutating",
        says="How much the model thinks.",
        fields={"level": "string | null"},
        worker=True,
    ),
    "set_auto_compaction": Command(
        kind="mutating",
        says="Compact when the window fills up.",
        fields={"enabled": "boolean"},
        worker=True,
    ),
    "compact": Command(
        kind="mutating",
        says="Summarise the older messages.",
        fields={"instructions": "string?"},
        worker=True,
        timeout=LONG_TIMEOUT,
    ),
    "abort_compaction": Command(kind="mutating", says="Stop a compaction.", worker=True),
    # Conversations
    "navigate_tree": Command(
        kind="mutating",
        says="Go on from another place, for everyone who follows.",
        fields={"id": "string | null", "label": "string?"},
        worker=True,
    ),
    "fork": Command(
        kind="mutating",
        says="Copy the conversation up to a message into a new one.",
        fields={"id": "string | null", "position": "before | at?"},
        worker=True,
    ),
    "import_jsonl": Command(
        kind="mutating",
        says="Make a conversation of a file.",
        fields={"path": "string"},
        worker=True,
        timeout=LONG_TIMEOUT,
    ),
    "export": Command(
        kind="mutating",
        says="Write the conversation to a file.",
        fields={"format": "jsonl | markdown | html", "path": "string?"},
        worker=True,
        timeout=LONG_TIMEOUT,
    ),
    "set_name": Command(
        kind="mutating", says="Name the conversation.", fields={"name": "string"}, worker=True
    ),
    "set_label": Command(
        kind="mutating",
        says="Label a message.",
        fields={"id": "string", "label": "string | null"},
        worker=True,
    ),
    "kill": Command(
        kind="mutating",
        says="Stop the worker of a session and of its subagents at once. The conversations stay.",
        fields={"projectDir": "string", "sessionId": "string"},
        in_session=False,
    ),
    "rename": Command(
        kind="mutating",
        says="Name a conversation, open or saved.",
        fields={"projectDir": "string", "sessionId": "string", "name": "string"},
        in_session=False,
        timeout=120.0,
    ),
    "delete_saved_session": Command(
        kind="mutating",
        says="Delete a conversation that nobody has open, and stop its subagents.",
        fields={"projectDir": "string", "sessionId": "string"},
        in_session=False,
    ),
}
