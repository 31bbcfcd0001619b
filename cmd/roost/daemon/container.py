"""The daemon's composition root: builds inert objects; `main` enters what has a lifetime."""

from pathlib import Path

from dependency_injector import containers, providers

from agui.browser_relay import ExtensionRelay
from agui.endpoint.agents import Agent
from agui.panel.panel import Panel
from agui.server import Binding
from agui.settings import BindingSettings
from connection.execution import FOREIGN_PATIENCE
from connection.peer import PeerSettings
from connection.sqlite_journal import SqliteJournal
from roost.daemon.channels import DaemonChannels
from roost.daemon.launching import launching
from roost.daemon.local import LocalDoor
from roost.daemon.main import Daemon
from roost.daemon.port_door import NoPort, PortDoor
from roost.daemon.run_file import RunFile
from roost.home import RoostHome
from roost.panel.catalogue import SavedConversations
from roost.panel.session_file import SessionFile
from roost.saved_sessions import SavedSessionFiles
from roost.settings import BindingSection, NamedAgents, TelegramSection, WorkerSection
from roost.version import VERSION
from sessions.domain.settings import RegistrySettings
from sessions.registry import Registry


def registry_settings(worker: WorkerSection) -> RegistrySettings:
    """A foreign command announces nothing, and keeps open decisions only if the user says so."""
    ours = worker.command is None
    durable = worker.durable_interrupts
    return RegistrySettings(
        idle_timeout=worker.idle_timeout,
        approval_timeout=worker.approval_timeout,
        stop_grace=worker.stop_grace,
        max_line_bytes=worker.max_line_bytes,
        durable_interrupts=ours if durable is None else durable,
        announces_ready=ours,
    )


def binding_settings(
    binding: BindingSection, token: str, home: RoostHome, agents: NamedAgents, worker: WorkerSection
) -> BindingSettings:
    return BindingSettings(
        token=token,
        port=binding.port,
        allowed_origins=frozenset(binding.allowed_origins),
        projects=home.projects,
        agents={
            name: Agent(
                description=agent.description,
                project_dir=agent.project_dir,
                model=agent.model,
                mode=agent.mode,
                instructions=agent.instructions,
            )
            for name, agent in agents.items()
        },
        own_worker=worker.command is None,
        hello_timeout=binding.hello_timeout,
        ping_interval=binding.ping_interval,
        write_timeout=binding.write_timeout,
        outbox_frames=binding.outbox_frames,
        outbox_bytes=binding.outbox_bytes,
        max_frame_bytes=binding.max_frame_bytes,
    )


def peer_settings(worker: WorkerSection) -> PeerSettings:
    """Our own worker answers what it is asked; another one may not know how to."""
    if worker.command is None:
        return PeerSettings()
    return PeerSettings(state_patience=FOREIGN_PATIENCE)


def _is_open(binding: BindingSection) -> str:
    return "yes" if binding.enabled else "no"


class DaemonContainer(containers.DeclarativeContainer):
    """Given: home, the sections, the token, the environment, the limit of files, the socket."""

    home = providers.Dependency(instance_of=RoostHome)
    worker = providers.Dependency(instance_of=WorkerSection)
    binding_section = providers.Dependency(instance_of=BindingSection)
    telegram = providers.Dependency(instance_of=TelegramSection)
    agents: providers.Dependency[NamedAgents] = providers.Dependency(instance_of=dict)
    token = providers.Dependency(instance_of=str)
    environ: providers.Dependency[dict[str, str]] = providers.Dependency(instance_of=dict)
    open_files = providers.Dependency(instance_of=int)
    socket = providers.Dependency(instance_of=Path)

    numbers = providers.Singleton(registry_settings, worker)
    ways = providers.Singleton(launching, worker, home, numbers, environ, open_files)
    # What an extension answers has to fit into a line to a worker.
    relay = providers.Singleton(ExtensionRelay, longest_result=worker.provided.max_line_bytes)
    registry = providers.Singleton(
        Registry,
        ways.provided.launch,
        numbers,
        relay,
        ways.provided.survivors,
    )
    panel = providers.Singleton(
        Panel,
        registry,
        providers.Factory(SavedConversations, home),
        providers.Factory(SessionFile, home.provided.panel_sessions),
        token,
    )
    binding = providers.Singleton(
        Binding,
        registry,
        providers.Callable(binding_settings, binding_section, token, home, agents, worker),
        VERSION,
        relay,
        panel,
    )
    port: providers.Selector[PortDoor | NoPort] = providers.Selector(
        providers.Callable(_is_open, binding_section),
        yes=providers.Singleton(PortDoor, binding, binding_section.provided.port),
        no=providers.Singleton(NoPort),
    )
    local = providers.Singleton(
        LocalDoor,
        registry,
        providers.Singleton(SavedSessionFiles, providers.Factory(SavedConversations, home)),
        providers.Singleton(SqliteJournal, home.provided.journal),
        socket,
        providers.Callable(peer_settings, worker),
    )
    channels = providers.Singleton(DaemonChannels, telegram=telegram, home=home, threads=registry)
    program = providers.Singleton(
        Daemon,
        launching=ways,
        registry=registry,
        local=local,
        port=port,
        channels=channels,
        run_file=providers.Factory(RunFile, home.provided.daemon_json),
        worker_environ=environ,
    )
