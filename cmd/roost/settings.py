"""What can be set, one frozen model per program, and how the sources are laid over each other.

Decides names, defaults and precedence; `settings_sources` reads the sources and words the errors.
Strongest first: `ROOST_*` in the environment, the project's `.roost/config.yaml` (workers only),
the user's `config.yaml`, the defaults below. docs/reference/settings.md is generated from here.

Plain frozen dataclasses: an error has to name the very file or variable a value came from, so the
sources are read apart and each key by its own kind; and importing a validation library for these
few keys took a quarter of the daemon's start.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, get_args

from roost.home import RoostHome
from roost.setting_types import (
    ADDRESS,
    BYTE_SIZE,
    CHAT_FOLDERS,
    CHATS,
    COMMAND,
    COUNT,
    DURATION,
    FOLDER,
    FOLDERS,
    MIME_TYPES,
    ORIGINS,
    PORT,
    POSITIVE_DURATION,
    RULES,
    SECRET,
    SECRET_TABLE,
    SWITCH,
    TEXT,
    TEXTS,
    Says,
    Secret,
    choice,
)
from roost.settings_sources import (
    SettingsError,
    Source,
    read_environment,
    read_file,
    section_names,
    validated,
)
from roost.trust import BadTrustFile, TrustedProjects

__all__ = ["DaemonSettings", "HeadlessSettings", "SettingsError", "load_daemon", "load_headless"]

Mode = Literal["standard", "plan", "auto", "auto-with-judge"]
Thinking = Literal["off", "minimal", "low", "medium", "high"]
Level = Literal["debug", "info", "warning", "error"]

# What a project's file may set before the user trusted the project: nothing that runs or allows.
HARMLESS: frozenset[tuple[str, ...]] = frozenset(
    {("agent", "model"), ("agent", "custom_instructions")}
)


@dataclass(frozen=True, kw_only=True)
class AgentSection:
    """What every new thread's agent starts with. A thread's own options win over it."""

    model: Annotated[
        str | None, TEXT, Says("The model, as `provider:name`. Without one, `demo:scripted`.")
    ] = None
    mode: Annotated[
        Mode,
        choice(*get_args(Mode)),
        Says("What the agent may do without asking. `auto` never asks."),
    ] = "standard"
    allow: Annotated[
        tuple[str, ...],
        RULES,
        Says(
            "Calls that are made without asking: `Bash(git status*)`, `Edit(docs/**)`, `WebFetch`."
        ),
    ] = ()
    judge_model: Annotated[
        str | None,
        TEXT,
        Says("Who judges in mode `auto-with-judge`, as `provider:name`. Unset: the same model."),
    ] = None
    thinking: Annotated[
        Thinking | None,
        choice(*get_args(Thinking)),
        Says("How much the model thinks before it answers. Unset: its own way."),
    ] = None
    system_prompt: Annotated[str | None, TEXT, Says("Replaces the built-in system prompt.")] = None
    custom_instructions: Annotated[str | None, TEXT, Says("Is added to the system prompt.")] = None
    sandbox_directories: Annotated[
        tuple[str, ...], FOLDERS, Says("Folders the file tools may touch; `.` is the project dir.")
    ] = ()
    fetch_private_addresses: Annotated[
        bool, SWITCH, Says("WebFetch may reach this machine and private networks.")
    ] = False
    context_window: Annotated[
        int | None, COUNT, Says("Tokens that the model reads at most. Unset: as far as is known.")
    ] = None
    auto_compaction: Annotated[
        bool, SWITCH, Says("Old messages are summarized when the model's window is nearly full.")
    ] = True
    titles: Annotated[
        bool, SWITCH, Says("The model names a new conversation, after its first run.")
    ] = True
    max_turns: Annotated[int | None, COUNT, Says("The most model turns of one run.")] = None
    tool_timeout: Annotated[
        float, POSITIVE_DURATION, Says("How long one tool call may take, unless it asks for less.")
    ] = 120.0


@dataclass(frozen=True, kw_only=True)
class ProviderSection:
    """How to reach one provider of models: `providers.<name>`."""

    base_url: Annotated[
        str | None, TEXT, Says("Where its API is, for local and compatible servers.")
    ] = None
    api_key: Annotated[
        Secret | None,
        SECRET,
        Says("Its key. The provider's own variable (`OPENAI_API_KEY`, ...) works too."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class McpServerSection:
    """One server that lends the agent its tools: `mcp_servers.<name>`."""

    command: Annotated[
        tuple[str, ...], COMMAND, Says("The program to start; it speaks MCP on stdin and stdout.")
    ] = ()
    env: Annotated[
        Mapping[str, str], SECRET_TABLE, Says("What its environment has besides the user's.")
    ] = field(default_factory=dict[str, str])
    url: Annotated[
        str | None, TEXT, Says("Where it is, in place of a command: it speaks MCP over HTTP.")
    ] = None
    headers: Annotated[
        Mapping[str, str], SECRET_TABLE, Says("Sent with each request to the url.")
    ] = field(default_factory=dict[str, str])
    read_only: Annotated[
        tuple[str, ...],
        TEXTS,
        Says("Tools of it that only read, as patterns: made unasked, and in mode `plan` too."),
    ] = ()
    timeout: Annotated[
        float, POSITIVE_DURATION, Says("How long one call of its tools may take.")
    ] = 120.0


@dataclass(frozen=True, kw_only=True)
class LoggingSection:
    """What is logged, and how."""

    level: Annotated[Level, choice(*get_args(Level)), Says("The least level that is logged.")] = (
        "info"
    )
    stderr_json: Annotated[
        bool, SWITCH, Says("Log lines on stderr are JSON. The daemon sets it for its workers.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class WorkerSection:
    """How the daemon runs the worker of a thread."""

    command: Annotated[
        tuple[str, ...] | None,
        COMMAND,
        Says("A program that speaks the worker's line protocol. Without one, roost itself."),
    ] = None
    outlives_daemon: Annotated[
        bool, SWITCH, Says("Workers go on when the daemon is killed. Linux only.")
    ] = True
    launch_pad: Annotated[
        bool, SWITCH, Says("Our own workers start from a process that is warm already.")
    ] = True
    control_group: Annotated[
        str | None,
        FOLDER,
        Says(
            "A control group (cgroup v2) that is delegated to you: each thread gets one below it."
            " Only for workers that outlive the daemon."
        ),
    ] = None
    memory_limit: Annotated[
        int | None,
        BYTE_SIZE,
        Says("What a thread and all that it starts may use. Needs `control_group`."),
    ] = None
    process_limit: Annotated[
        int | None,
        COUNT,
        Says("How many processes and threads a thread may have. Needs `control_group`."),
    ] = None
    idle_timeout: Annotated[
        float,
        POSITIVE_DURATION,
        Says("When a worker nobody follows is stopped, on the user's turn."),
    ] = 600.0
    stop_grace: Annotated[
        float, DURATION, Says("How long a worker may take to end before it is killed.")
    ] = 25.0
    approval_timeout: Annotated[
        float,
        POSITIVE_DURATION,
        Says("How long a worker nobody follows is kept for an open decision."),
    ] = 86_400.0
    tool_approval_timeout: Annotated[
        float,
        POSITIVE_DURATION,
        Says("When an approval asked for by a panel's tool request expires."),
    ] = 300.0
    max_line_bytes: Annotated[
        int, BYTE_SIZE, Says("The longest line that is sent to a worker.")
    ] = 16 * 2**20
    durable_interrupts: Annotated[
        bool | None,
        SWITCH,
        Says("Open decisions survive the worker. Unset: yes for our own, no for another command."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class SubagentsSection:
    """What the subagents of an agent are held to."""

    max_depth: Annotated[
        int, COUNT, Says("How deep they may be: 1 lets a conversation have some, and those none.")
    ] = 1
    max_parallel: Annotated[
        int, COUNT, Says("How many of one conversation may work at the same time.")
    ] = 8
    max_turns: Annotated[int, COUNT, Says("The most model turns of one run of a subagent.")] = 50
    idle_timeout: Annotated[
        float, DURATION, Says("When one that has nothing to do is closed. 0: never.")
    ] = 300.0
    wait: Annotated[
        bool, SWITCH, Says("The Agent tool returns with the results, unless a call says otherwise.")
    ] = False
    model: Annotated[
        str | None, TEXT, Says("Their model, as `provider:name`. Unset: the one of their parent.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class BindingSection:
    """The loopback port that apps, browser extensions and pages connect to."""

    enabled: Annotated[
        bool,
        SWITCH,
        Says(
            "Whether the daemon opens the port. Without it clients come through the local socket."
        ),
    ] = True
    port: Annotated[int, PORT, Says("The port on 127.0.0.1.")] = 52789
    token: Annotated[
        Secret | None,
        SECRET,
        Says("The secret clients show. Unset: the one in the `token` file, made at first start."),
    ] = None
    allowed_origins: Annotated[
        tuple[str, ...],
        ORIGINS,
        Says("Web pages of others that may connect, compared exactly. They still need the token."),
    ] = ()
    hello_timeout: Annotated[
        float, POSITIVE_DURATION, Says("How long a new connection may take to say hello.")
    ] = 5.0
    ping_interval: Annotated[
        float,
        POSITIVE_DURATION,
        Says("How often a client is pinged, and how long it may take to answer."),
    ] = 20.0
    write_timeout: Annotated[
        float, POSITIVE_DURATION, Says("How long a client may take nothing of what waits for it.")
    ] = 10.0
    outbox_frames: Annotated[int, COUNT, Says("The most live events that wait for one client.")] = (
        1024
    )
    outbox_bytes: Annotated[int, BYTE_SIZE, Says("The most bytes of them.")] = 8 * 2**20
    max_frame_bytes: Annotated[int, BYTE_SIZE, Says("The longest frame a client may send.")] = (
        20 * 2**20
    )


@dataclass(frozen=True, kw_only=True)
class SocketSection:
    """The local socket that the terminal's programs and embedding programs connect to."""

    path: Annotated[
        str | None,
        TEXT,
        Says("Where it is. Unset: `$XDG_RUNTIME_DIR/roost`, or `run/` in the roost home."),
    ] = None


_FILE_TYPES = ("image/*", "text/*", "application/pdf", "application/json", "application/zip")


@dataclass(frozen=True, kw_only=True)
class TelegramSection:
    """The agents in a Telegram chat (docs/how-to/telegram.md)."""

    enabled: Annotated[
        bool, SWITCH, Says("The daemon runs the channel. Without it, `roost channels` can.")
    ] = False
    token: Annotated[
        Secret | None, SECRET, Says("The bot's token, from @BotFather. Workers do not get it.")
    ] = None
    allowed_chats: Annotated[
        tuple[int, ...],
        CHATS,
        Says(
            "The chats that are answered, by their ids; in a group, also the ids of the people who"
            " may speak. Empty: nobody."
        ),
    ] = ()
    project: Annotated[
        str | None, FOLDER, Says("The folder that the agent works in, until `/project` is used.")
    ] = None
    projects: Annotated[Mapping[int, str], CHAT_FOLDERS, Says("The same for single chats.")] = (
        field(default_factory=dict[int, str])
    )
    require_approval: Annotated[
        bool,
        SWITCH,
        Says("Ask in the chat. If not, what a chat's run would ask is declined without asking."),
    ] = True
    largest_file: Annotated[int, BYTE_SIZE, Says("The largest file that is taken from a chat.")] = (
        10 * 2**20
    )
    file_types: Annotated[
        tuple[str, ...], MIME_TYPES, Says("The types of files that are taken from a chat.")
    ] = _FILE_TYPES
    poll_timeout: Annotated[
        float, POSITIVE_DURATION, Says("How long one request waits for news.")
    ] = 30.0
    api_url: Annotated[
        str, ADDRESS, Says("Where the Bot API is: a server of your own can be named here.")
    ] = "https://api.telegram.org"


@dataclass(frozen=True, kw_only=True)
class NamedAgentSection:
    """An agent that clients of `/agui` can name. One called `default` is always there."""

    description: Annotated[str | None, TEXT, Says("What it is for, shown by front ends.")] = None
    project_dir: Annotated[
        str | None,
        FOLDER,
        Says("Where it works, unless a client names a folder in `forwardedProps.project_dir`."),
    ] = None
    model: Annotated[str | None, TEXT, Says("The model of its new threads.")] = None
    mode: Annotated[
        Mode | None, choice(*get_args(Mode)), Says("What it may do without asking.")
    ] = None
    instructions: Annotated[str | None, TEXT, Says("Is added to the system prompt.")] = None


Providers = Mapping[str, ProviderSection]
McpServers = Mapping[str, McpServerSection]
NamedAgents = Mapping[str, NamedAgentSection]


@dataclass(frozen=True, kw_only=True)
class DaemonSettings:
    """All of it: what only workers use is checked too, so that a mistake shows at the start."""

    agent: AgentSection = AgentSection()
    providers: Providers = field(default_factory=dict[str, ProviderSection])
    mcp_servers: McpServers = field(default_factory=dict[str, McpServerSection])
    logging: LoggingSection = LoggingSection()
    worker: WorkerSection = WorkerSection()
    subagents: SubagentsSection = SubagentsSection()
    binding: BindingSection = BindingSection()
    socket: SocketSection = SocketSection()
    telegram: TelegramSection = field(default_factory=TelegramSection)
    agents: NamedAgents = field(default_factory=dict[str, NamedAgentSection])


@dataclass(frozen=True, kw_only=True)
class HeadlessSettings:
    """What a worker, or one task without a daemon, needs."""

    agent: AgentSection = AgentSection()
    providers: Providers = field(default_factory=dict[str, ProviderSection])
    mcp_servers: McpServers = field(default_factory=dict[str, McpServerSection])
    logging: LoggingSection = LoggingSection()
    worker: WorkerSection = WorkerSection()
    subagents: SubagentsSection = SubagentsSection()
    ignored: tuple[str, ...] = ()
    """One sentence per file whose settings did not count, for the log. Not a setting itself."""


_SECTIONS = section_names(DaemonSettings)


def load_daemon(environ: Mapping[str, str], home: RoostHome) -> DaemonSettings:
    """The daemon's settings. Raises SettingsError."""
    return validated(DaemonSettings, [read_environment(environ, _SECTIONS), read_file(home.config)])


def load_headless(
    environ: Mapping[str, str], home: RoostHome, project_dir: str
) -> HeadlessSettings:
    """A worker's settings in a project. Raises SettingsError.

    The caller logs what `ignored` says once its log is set up.
    """
    foreign = _SECTIONS - section_names(HeadlessSettings)
    sources = [read_environment(environ, _SECTIONS), read_file(home.config)]
    ignored: tuple[str, ...] = ()
    project_file = Path(project_dir) / ".roost" / "config.yaml"
    if project_file != home.config:
        project, ignored = _project_source(read_file(project_file), home, project_dir)
        sources.insert(1, project)
    settings = validated(HeadlessSettings, [source.without(foreign) for source in sources])
    return replace(settings, ignored=ignored)


def _project_source(
    source: Source, home: RoostHome, project_dir: str
) -> tuple[Source, tuple[str, ...]]:
    """What counts of a project's file, and a sentence about what does not."""
    validated(DaemonSettings, [source])  # its mistakes are errors, whether it counts or not
    elsewhere = {path for path in source.paths() if path[0] not in ("agent", "mcp_servers")}
    allowed = {path for path in source.paths() if path in HARMLESS}
    gated = set(source.paths()) - elsewhere - allowed
    sentences: list[str] = []
    if elsewhere:
        sentences.append(
            f"{source.name}: {_listed(elsewhere)} is not for a project to set;"
            f" set it in {home.config}"
        )
    if gated and _is_trusted(home, project_dir, sentences):
        allowed |= gated
    elif gated:
        sentences.append(
            f"{source.name}: {_listed(gated)} is ignored until you trust this project:"
            f" roost trust {project_dir}"
        )
    return source.only(allowed), tuple(sentences)


def _is_trusted(home: RoostHome, project_dir: str, sentences: list[str]) -> bool:
    try:
        return TrustedProjects(home.trusted).includes(project_dir)
    except BadTrustFile as exc:
        sentences.append(str(exc))
        return False


def _listed(paths: set[tuple[str, ...]]) -> str:
    return ", ".join(sorted(".".join(path) for path in paths))
