"""The daemon's container: every provider builds, and the settings reach what they are for."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agui.endpoint.agents import Agent
from agui.server import Binding
from roost.daemon.container import (
    DaemonContainer,
    binding_settings,
    registry_settings,
)
from roost.daemon.launching import worker_argv
from roost.daemon.main import Daemon
from roost.daemon.port_door import NoPort, PortDoor
from roost.home import RoostHome
from roost.settings import BindingSection, NamedAgentSection, TelegramSection, WorkerSection
from sessions.domain.ports import LaunchWorker, Threads


def container(tmp_path: Path, *, has_port: bool = True) -> DaemonContainer:
    return DaemonContainer(
        home=RoostHome(tmp_path),
        worker=WorkerSection(),
        binding_section=BindingSection(enabled=has_port),
        telegram=TelegramSection(),
        agents={},
        token="t",
        environ={"PATH": "/bin"},
        open_files=1024,
        socket=tmp_path / "daemon.sock",
    )


def test_every_provider_builds(tmp_path: Path) -> None:
    """A mistyped keyword passes the type checkers and fails only when it is called."""
    built = container(tmp_path)
    built.check_dependencies()
    launch: LaunchWorker = built.ways().launch
    registry: Threads = built.registry()
    assert launch is built.ways().launch
    assert registry is built.registry()
    assert built.relay() is built.relay()
    assert isinstance(built.binding(), Binding)
    program = built.program()
    assert isinstance(program, Daemon)
    assert isinstance(program.port, PortDoor)
    assert program.run_file.file == tmp_path / "run" / "daemon.json"


def test_without_its_port_a_daemon_is_built_with_no_door_there(tmp_path: Path) -> None:
    assert isinstance(container(tmp_path, has_port=False).program().port, NoPort)


def test_the_worker_is_this_program_unless_another_is_set() -> None:
    assert worker_argv(WorkerSection()) == (sys.executable, "-P", "-m", "roost")
    other = WorkerSection(command=("x", "y"))
    assert worker_argv(other) == ("x", "y")


@pytest.mark.parametrize(
    ("command", "setting", "durable"),
    [(None, None, True), (None, False, False), (("x",), None, False), (("x",), True, True)],
)
def test_a_foreign_worker_is_not_thought_to_keep_decisions_or_to_say_ready(
    command: tuple[str, ...] | None, setting: bool | None, durable: bool
) -> None:
    worker = WorkerSection(command=command, durable_interrupts=setting)
    settings = registry_settings(worker)
    assert settings.durable_interrupts is durable
    assert settings.announces_ready is (command is None)


def test_numbers_reach_the_registry_and_the_binding() -> None:
    worker = WorkerSection(idle_timeout=1, approval_timeout=2, stop_grace=3, max_line_bytes=4)
    registry = registry_settings(worker)
    assert (registry.idle_timeout, registry.approval_timeout) == (1, 2)
    assert (registry.stop_grace, registry.max_line_bytes) == (3, 4)
    numbers: dict[str, Any] = {
        "port": 1,
        "hello_timeout": 2,
        "ping_interval": 3,
        "write_timeout": 4,
        "outbox_frames": 5,
        "outbox_bytes": 6,
        "max_frame_bytes": 7,
    }
    origins = ("https://a.example",)
    section = replace(BindingSection(), allowed_origins=origins, **numbers)
    agents = {"review": NamedAgentSection(model="m", mode="plan", instructions="Be kind.")}
    binding = binding_settings(section, "t", RoostHome(Path("/h")), agents, worker)
    assert binding.agents == {"review": Agent(model="m", mode="plan", instructions="Be kind.")}
    assert binding.own_worker is True
    assert binding.projects == Path("/h/projects")
    assert binding.allowed_origins == {"https://a.example"}
    assert {name: getattr(binding, name) for name in numbers} == numbers
