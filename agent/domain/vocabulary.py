"""What our worker adds to the protocol, in one place: commands, state keys, names of ours.

The reference page is generated from here, and a test holds the code to it. A command that is not in
this table does not exist; neither does a state key.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """One command: what it takes, what its result's `data` is, and what it does."""

    name: str
    arguments: str
    data: str
    does: str


@dataclass(frozen=True, slots=True)
class Name:
    """One key or name, what is behind it, and when it is there."""

    name: str
    content: str
    says: str


_QUEUE = '`{"queue":[{"id","text","lane"}]}`'

COMMANDS = (
    CommandSpec("ping", "", '`{"pong":true}`', "Tells that the worker reads."),
    CommandSpec(
        "get_state",
        "",
        "`conversationId`, `runId` (or null), `interrupts`, `queue` (whole messages), `state`,"
        " `model`, `mode`, `thinking` (null until prepared), `lastRun` (the event that ended"
        " the last run, or null), `name`, `leafId`, `messageCount`, `isCompacting`,"
        " `autoCompaction`, `context` (`tokens`, about; `limit` or null)",
        "What a client needs that has just come.",
    ),
    CommandSpec(
        "find_run",
        "`runId`",
        '`{"known":bool}`',
        "Whether a run has this id, or one that waits will: an id is used once.",
    ),
    CommandSpec(
        "prompt",
        "`text`, `messageId`?, `lane`? (`steering`, `follow_up`), `ifBusy`? (`queue`, `refuse`)",
        '`{"admission":…,"messageId":…,"lane":…}`: `"started"`, `"queued"`, or `"ignored"` for a'
        " known `messageId`",
        "A user's message. Recorded when it is answered. While a run goes on or waits for a"
        " decision it is queued, or refused (`busy`) if that is wanted.",
    ),
    CommandSpec(
        "steer", "`text`, `messageId`?, `ifBusy`?", "As of `prompt`", "For the run that goes on."
    ),
    CommandSpec(
        "follow_up", "`text`, `messageId`?, `ifBusy`?", "As of `prompt`", "For the run after it."
    ),
    CommandSpec("abort", "", '`{"aborted":…}`', "Ends the open run as cancelled, if there is one."),
    CommandSpec(
        "abort_and_clear_queue",
        "",
        '`{"aborted":…,"removed":[{"id","text","lane"}]}`',
        "Takes back what waits, then ends the run.",
    ),
    CommandSpec("list_queue", "", _QUEUE, "The messages that wait, in order."),
    CommandSpec("move_queued", "`id`, `place` (from 0)", _QUEUE, "Puts a message there."),
    CommandSpec("edit_queued", "`id`, `text`", _QUEUE, "Gives a message other words."),
    CommandSpec("delete_queued", "`id`", _QUEUE, "Takes a message back."),
    CommandSpec(
        "clear_queue",
        "",
        '`{"queue":[],"removed":[{"id","text","lane"}]}`',
        "Takes all back, and tells what that was.",
    ),
    CommandSpec(
        "mutate_queued_message",
        "`lane`, `index` (in the lane), `expectedText`, `mutation` (`kind`: `delete`; `move` with"
        " `by`, 1 or -1; `replace` with `text`?, `lane`?)",
        '`{"outcome":…}`: `applied`; `rejected`, if another text is there; `invalid`',
        "Changes the message that somebody saw at a place, if it still is there.",
    ),
    CommandSpec(
        "list_models",
        "",
        '`{"models":["provider:name"],"current":…}`, the default first',
        "The models to choose from.",
    ),
    CommandSpec(
        "set_model",
        "`model` (`provider:name`)",
        '`{"model":…}`',
        "Another model from its next turn on, recorded in the conversation.",
    ),
    CommandSpec(
        "set_mode",
        "`mode` (`standard`, `plan`, `auto`, `auto-with-judge`)",
        '`{"mode":…,"notice":…}`; `notice` is what `auto` says of itself, else null',
        "Another mode from the model's next turn on, recorded in the conversation.",
    ),
    CommandSpec(
        "set_thinking",
        "`level` (`off`, `minimal`, `low`, `medium`, `high`, or null)",
        '`{"level":…}`',
        "How much the model thinks from its next turn on, recorded too; null is its own way.",
    ),
    CommandSpec(
        "compact",
        "`instructions`?",
        "`summary`, `messagesBefore`, `messagesAfter`, `tokensBefore`, `tokensAfter`: what a model"
        " reads",
        "Lets the model summarize all but the last turn, and read the summary from now on. Clients"
        " see the summary as an activity, and all messages as before.",
    ),
    CommandSpec("abort_compaction", "", '`{"aborted":…}`', "Stops that; nothing has changed."),
    CommandSpec(
        "set_auto_compaction",
        "`enabled`",
        '`{"enabled":…}`',
        "Whether a run does it when the model's window is nearly full. Recorded too.",
    ),
    CommandSpec("get_system_prompt", "", '`{"text":…}`', "What a model is told first."),
    CommandSpec(
        "get_commands",
        "",
        '`{"commands":[{"name","description","source":"skill"}]}`',
        "What a message may begin with, as `/name`: the model reads that skill with it.",
    ),
    CommandSpec(
        "get_tools",
        "",
        '`{"tools":[{"name","description","parameters","effect"}]}`',
        "What a model may call. `effect` decides whether it asks.",
    ),
    CommandSpec("get_tool_definition", "`name`", "One of those", "One tool."),
    CommandSpec(
        "get_tree",
        "",
        '`{"nodes":[{"id","parentId","role","text","at","label","toolCalls"}],"leafId"}`',
        "Every message on every branch, in the order they were first written. A node is a message,"
        " under its own id; texts are cut.",
    ),
    CommandSpec(
        "navigate_tree",
        "`id` (a message's, or null: the beginning), `label`?",
        '`{"editorText":…,"leafId":…}`',
        "Goes on from there, for everyone: a `MESSAGES_SNAPSHOT` follows that nobody asked for."
        " From a user's message on means from before it, and its text comes back. What was said"
        " since stays in the tree.",
    ),
    CommandSpec(
        "fork",
        "`id`? (a message's; without one, all), `position`? (`before`, `at`; before a user's"
        " message, else at)",
        '`{"conversationId":…,"selectedText":…}`',
        "Copies the way to there into a new conversation. Also while a run goes on.",
    ),
    CommandSpec("set_label", "`id`, `label` (or null)", "`{}`", "Notes something on a message."),
    CommandSpec("set_name", "`name`", '`{"name":…}`', "Names the conversation."),
    CommandSpec(
        "get_name", "", '`{"name":…,"title":…}`', "Its name (or null), and what lists show."
    ),
    CommandSpec("get_messages", "", '`{"messages":[…]}`', "What a snapshot shows."),
    CommandSpec(
        "get_earlier_messages",
        "`before` (a place), `limit`",
        '`{"messages":[…],"first":…,"total":…}`',
        "Messages before a place, the last ones first asked for; at most 1,000 at once.",
    ),
    CommandSpec(
        "get_user_messages_for_forking",
        "",
        '`{"messages":[{"id","text"}]}`',
        "The user's messages on this branch.",
    ),
    CommandSpec("get_last_assistant_text", "", '`{"text":…}`', "The agent's last words, or null."),
    CommandSpec(
        "get_stats",
        "",
        "`messages`, `userMessages`, `assistantMessages`, `toolCalls`, `toolResults`, `tokens`"
        " (`input`, `output`, `cachedInput`, `total`), `cost` (or null), `entries`, `bytes`,"
        " `branches`, `compactions`",
        "Messages and calls of this branch; tokens, cost and the rest of all of them.",
    ),
    CommandSpec(
        "export",
        "`format` (`jsonl`, `markdown`, `html`), `path`?, `overwrite`?",
        '`{"path":…}`',
        "Writes the conversation to a file, by default among the project's artifacts. JSONL has"
        " every branch.",
    ),
    CommandSpec(
        "import_jsonl",
        "`path`",
        '`{"conversationId":…}`',
        "A new conversation from an exported file, with nothing left open.",
    ),
    CommandSpec(
        "stop_job", "`id`", "`{}`", "Ends a job in the background, with all that it started."
    ),
    CommandSpec(
        "list_agents",
        "",
        '`{"agents":[{"name","description","scope","model","tools","disallowedTools"}]}`',
        "The presets of subagents; `scope` is `project` or `user`.",
    ),
    CommandSpec("list_subagents", "", '`{"subagents":[…]}`, rows as in the state', "The children."),
    CommandSpec(
        "subagent_input",
        "`id` (a thread id, or a label), `text`",
        '`{"subagent":{…}}`',
        "Gives a child more to do, after its turn; a closed one is opened again.",
    ),
    CommandSpec(
        "close_subagent",
        "`id` (a thread id, or a label)",
        '`{"subagent":{…}}`',
        "Ends a child, whatever it does. Its conversation stays.",
    ),
)

COMMAND_CODES = (
    Name("unknown_command", "", "There is no command of that name: the worker may be older."),
    Name("bad_arguments", "", "The arguments do not fit; nothing was done."),
    Name("unknown_message", "", "No message with that id waits: it was taken or deleted."),
    Name("unknown_job", "", "No job with that id runs."),
    Name("unknown_entry", "", "No message with that id is in the history."),
    Name("busy", "", "A run goes on, or messages wait: stop it, or clear them, first."),
    Name("suspended", "", "The run waits for a decision: answer that first."),
    Name("compaction", "", "The model gave no summary; it says why. Nothing was changed."),
    Name("nothing_to_compact", "", "There is too little to summarize."),
    Name("aborted", "", "It was stopped; nothing was changed."),
    Name("unknown_tool", "", "There is no tool of that name."),
    Name("settings", "", "The worker can't work with its settings; it says why, and ends."),
    Name("bad_file", "", "The file is not there, is no conversation, or can't be written."),
    Name("settings", "", "The worker can't work with its settings; the error says why."),
    Name("unknown_subagent", "", "There is no such child, or several of that label."),
    Name("refused", "", "A limit of subagents; the text says which. Nothing was done."),
    Name("subagent_lost", "", "The child could not be opened or reached; the text says why."),
    Name("history", "", "It could not be recorded, so it was not done."),
)

STATE_KEYS = (
    Name("todos", "`[{content, status}]`", "The plan that the model keeps."),
    Name(
        "usage",
        "`[{model, inputTokens, outputTokens, cachedInputTokens?, cost?}]`",
        "Over the whole conversation. `cost` is in US dollars at list prices, where they are"
        " known.",
    ),
    Name(
        "backgroundTasks",
        "`{running, jobs: [{id, kind, label, description, detail, status, started_at}]}`",
        "Jobs of this worker's life; `kind` is `shell` or `subagent` (one at work, `detail` is its"
        " thread), `status` is `running`, `completed` or `failed`.",
    ),
    Name(
        "subagents",
        "`{<thread id>: {threadId, projectDir, label, status, activity, tokens: {input, output},"
        " turns, depth, tools, model, mode, startedAt, interrupts: [{id, reason, message}],"
        " subagents?}}`",
        "The children. `status` is `starting`, `running`, `waiting` (for a person), `idle` or"
        " `closed`; `subagents` are a child's own. Changes are told between runs, too.",
    ),
    Name(
        "queue",
        "`[{id, text, lane}]`",
        "The messages that wait, in order: the first 100, long texts cut.",
    ),
    Name(
        "retry",
        "`{attempt, seconds, reason}` or null",
        "While a request to the model waits to be sent again.",
    ),
    Name(
        "mcpServers",
        "`[{name, status, tools, error?}]`",
        "`status` is `starting`, `ready`, `failed` (it never was ready) or `ended`; `tools` is how"
        " many it lends, `error` why it lends none.",
    ),
)

CUSTOM_NAMES = (
    Name(
        "subagent_turn",
        "`{final_assistant, success, error?, session_id, done, stats: {tools_succeeded,"
        " tools_failed, input_tokens, output_tokens, cached_tokens?}}`",
        "On a subagent's thread, right before a turn's last line: what it came to. `done`: nothing"
        " waits for another turn.",
    ),
    Name(
        "approval_request",
        "`{type, tool_name, tool_args, tool_call_id}`",
        "A panel's `tool_request` needs its requester's approval. The one event outside of runs.",
    ),
    Name(
        "roost.compaction",
        "`{phase, reason, error?}`",
        "A run makes room: `phase` is `started`, `ended` or `failed`; `reason` is `threshold` or"
        " `overflow`.",
    ),
    Name(
        "roost.tool_output",
        "`{toolCallId, text, leftOut?}`",
        "What a call printed since the last one, while it runs. The result has it all.",
    ),
)

ACTIVITY_TYPES = (
    Name("roost.compaction", "`{text}`", "A summary that a model reads in place of what was said."),
    Name(
        "roost.notice",
        "`{text, mode?}`",
        "What the worker has to say: that mode `auto` asks for nothing, each time it was chosen"
        " (`mode` is `auto` then); that a declined call ended the run; that an answer was cut, or"
        " empty.",
    ),
    Name(
        "roost.judge",
        "`{toolCallId, tool, verdict, reason, judge}`",
        "What the judge of mode `auto-with-judge` said of a call: `allow`, or `ask` (the person is"
        " asked). `judge` is its model.",
    ),
)

METADATA_KEYS = (
    Name("roost.interrupted", "true", "A crash or a stop cut the message off."),
    Name(
        "roost.uncertain",
        "`{tool, arguments, projectDir, startedAt, pid, processLives}`",
        "Of a result: the call was started and nobody knows what came of it. It is not run again"
        " by itself.",
    ),
    Name("roost.attachments", "`[{name, mime_type, path, is_image}]`", "Files that came with it."),
    Name("roost.job", "a job's id", "The message tells what that job came to."),
    Name("roost.subagent", "a thread's id", "The message tells what that subagent came to."),
)

INPUT_PROPERTIES = (
    Name("roost.lane", "`follow_up`", "In `forwardedProps`: the messages join no run."),
    Name(
        "roost.own_run",
        "true",
        "In `forwardedProps`: the input has a run of its own, also when nothing in it is new.",
    ),
)
