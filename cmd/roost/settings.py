"""What can be set, one frozen model per program, and how the sources are laid over each other.

Decides names, defaults and precedence; `settings_sources` reads the sources and words the errors.
Strongest first: `ROOST_*` in the environment, the project's `.roost/config.yaml` (workers only),
the user's `config.yaml`, the defaults below. docs/reference/settings.md is generated from here.

Plain pydantic, not pydantic-settings: an error has to name the very file or variable a value came
from, which needs the sources apart; and its import costs a tenth of the daemon's start.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict

from roost.home import RoostHome
from roost.setting_types import (
    Allowed,
    ByteSize,
    Command,
    Count,
    Duration,
    Folders,
    Port,
    PositiveDuration,
    Says,
    Secret,
    Switch,
    Text,
)
from roost.settings_sources import SettingsError, Source, read_environment, read_file, validated
from roost.trust import BadTrustFile, TrustedProjects

__all__ = ["DaemonSettings", "HeadlessSettings", "SettingsError", "load_daemon", "load_headless"]

Mode = Literal["standard", "plan", "auto", "auto-with-judge"]
Level = Literal["debug", "info", "warning", "error"]

# What a project's file may set before the user trusted the project: nothing that runs or allows.
HARMLESS: frozenset[tuple[str, ...]] = frozenset(
    {("agent", "model"), ("agent", "custom_instructions")}
)


class _Section(BaseModel):
    # Built when first used: a program uses one of the two models below, and each has all parts.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class AgentSection(_Section):
    """What every new thread's agent starts with. A thread's own options win over it."""

    model: Annotated[
        Text | None, Says("The model, as `provider:name`. Without one, `demo:scripted`.")
    ] = None
    mode: Annotated[
        Mode,
        Allowed("standard, plan, auto, auto-with-judge"),
        Says("What the agent may do without asking. `auto` never asks."),
    ] = "standard"
    system_prompt: Annotated[Text | None, Says("Replaces the built-in system prompt.")] = None
    custom_instructions: Annotated[Text | None, Says("Is added to the system prompt.")] = None
    sandbox_directories: Annotated[
        Folders, Says("Folders the file tools may touch; `.` is the project dir.")
    ] = ()
    max_turns: Annotated[Count | None, Says("The most model turns of one run.")] = None
    tool_timeout: Annotated[
        PositiveDuration, Says("How long one tool call may take, unless it asks for less.")
    ] = 120.0


class ProviderSection(_Section):
    """How to reach one provider of models: `providers.<name>`."""

    base_url: Annotated[
        Text | None, Says("Where its API is, for local and compatible servers.")
    ] = None
    api_key: Annotated[
        Secret | None,
        Says("Its key. The provider's own variable (`OPENAI_API_KEY`, ...) works too."),
    ] = None


class LoggingSection(_Section):
    """What is logged, and how."""

    level: Annotated[
        Level, Allowed("debug, info, warning, error"), Says("The least level that is logged.")
    ] = "info"
    stderr_json: Annotated[
        Switch, Says("Log lines on stderr are JSON. The daemon sets it for its workers.")
    ] = False


class WorkerSection(_Section):
    """How the daemon runs the worker of a thread."""

    command: Annotated[
        Command | None,
        Says("A program that speaks the worker's line protocol. Without one, roost itself."),
    ] = None
    idle_timeout: Annotated[
        PositiveDuration, Says("When a worker nobody follows is stopped, on the user's turn.")
    ] = 600.0
    stop_grace: Annotated[
        Duration, Says("How long a worker may take to end before it is killed.")
    ] = 25.0
    approval_timeout: Annotated[
        PositiveDuration, Says("How long a worker nobody follows is kept for an open decision.")
    ] = 86_400.0
    tool_approval_timeout: Annotated[
        PositiveDuration, Says("When an approval asked for by a panel's tool request expires.")
    ] = 300.0
    max_line_bytes: Annotated[ByteSize, Says("The longest line that is sent to a worker.")] = (
        16 * 2**20
    )
    durable_interrupts: Annotated[
        Switch | None,
        Says("Open decisions survive the worker. Unset: yes for our own, no for another command."),
    ] = None


class BindingSection(_Section):
    """The loopback port that apps, browser extensions and pages connect to."""

    enabled: Annotated[Switch, Says("Whether the daemon opens the port.")] = True
    port: Annotated[Port, Says("The port on 127.0.0.1.")] = 52789
    token: Annotated[
        Secret | None,
        Says("The secret clients show. Unset: the one in the `token` file, made at first start."),
    ] = None
    hello_timeout: Annotated[
        PositiveDuration, Says("How long a new connection may take to say hello.")
    ] = 5.0
    ping_interval: Annotated[
        PositiveDuration, Says("How often a client is pinged, and how long it may take to answer.")
    ] = 20.0
    write_timeout: Annotated[
        PositiveDuration, Says("How long a client may take nothing of what waits for it.")
    ] = 10.0
    outbox_frames: Annotated[Count, Says("The most live events that wait for one client.")] = 1024
    outbox_bytes: Annotated[ByteSize, Says("The most bytes of them.")] = 8 * 2**20
    max_frame_bytes: Annotated[ByteSize, Says("The longest frame a client may send.")] = 20 * 2**20


Providers = dict[str, ProviderSection]


class DaemonSettings(_Section):
    """All of it: what only workers use is checked too, so that a mistake shows at the start."""

    agent: AgentSection = AgentSection.model_construct()
    providers: Providers = {}
    logging: LoggingSection = LoggingSection.model_construct()
    worker: WorkerSection = WorkerSection.model_construct()
    binding: BindingSection = BindingSection.model_construct()


class HeadlessSettings(_Section):
    """What a worker, or one task without a daemon, needs."""

    agent: AgentSection = AgentSection.model_construct()
    providers: Providers = {}
    logging: LoggingSection = LoggingSection.model_construct()
    ignored: tuple[str, ...] = ()
    """One sentence per file whose settings did not count, for the log. Not a setting itself."""


_SECTIONS = frozenset(DaemonSettings.model_fields)


def load_daemon(environ: Mapping[str, str], home: RoostHome) -> DaemonSettings:
    """The daemon's settings. Raises SettingsError."""
    return validated(DaemonSettings, [read_environment(environ, _SECTIONS), read_file(home.config)])


def load_headless(
    environ: Mapping[str, str], home: RoostHome, project_dir: str
) -> HeadlessSettings:
    """A worker's settings in a project. Raises SettingsError.

    The caller logs what `ignored` says once its log is set up.
    """
    foreign = _SECTIONS - set(HeadlessSettings.model_fields)
    sources = [read_environment(environ, _SECTIONS), read_file(home.config)]
    ignored: tuple[str, ...] = ()
    project_file = Path(project_dir) / ".roost" / "config.yaml"
    if project_file != home.config:
        project, ignored = _project_source(read_file(project_file), home, project_dir)
        sources.insert(1, project)
    settings = validated(HeadlessSettings, [source.without(foreign) for source in sources])
    return settings.model_copy(update={"ignored": ignored})


def _project_source(
    source: Source, home: RoostHome, project_dir: str
) -> tuple[Source, tuple[str, ...]]:
    """What counts of a project's file, and a sentence about what does not."""
    validated(DaemonSettings, [source])  # its mistakes are errors, whether it counts or not
    elsewhere = {path for path in source.paths() if path[0] != "agent"}
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
