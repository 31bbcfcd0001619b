"""Settings: where they come from, which source wins, and what a mistake is answered with."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest

from roost.home import RoostHome
from roost.settings import SettingsError, load_daemon, load_headless


@pytest.fixture
def home(tmp_path: Path) -> RoostHome:
    (tmp_path / "home").mkdir()
    return RoostHome(tmp_path / "home")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".roost").mkdir(parents=True)
    return folder


def write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


def set_in_project(project: Path, text: str) -> None:
    write(project / ".roost" / "config.yaml", text)


def trust(home: RoostHome, project: Path) -> None:
    write(home.trusted, json.dumps({"trusted": [str(project.resolve())]}))


def test_without_any_source_the_defaults_of_the_design_hold(home: RoostHome) -> None:
    settings = load_daemon({}, home)
    assert asdict(settings.binding) == {
        "enabled": True,
        "port": 52789,
        "token": None,
        "allowed_origins": (),
        "hello_timeout": 5.0,
        "ping_interval": 20.0,
        "write_timeout": 10.0,
        "outbox_frames": 1024,
        "outbox_bytes": 8 * 2**20,
        "max_frame_bytes": 20 * 2**20,
    }
    assert asdict(settings.worker) == {
        "command": None,
        "outlives_daemon": True,
        "launch_pad": True,
        "control_group": None,
        "memory_limit": None,
        "process_limit": None,
        "idle_timeout": 600.0,
        "stop_grace": 25.0,
        "approval_timeout": 24 * 3600.0,
        "tool_approval_timeout": 300.0,
        "max_line_bytes": 16 * 2**20,
        "durable_interrupts": None,
    }
    assert settings.agent.mode == "standard"
    assert settings.agent.model is None
    assert settings.logging.level == "info"


def test_the_environment_wins_over_the_users_file(home: RoostHome) -> None:
    write(home.config, "worker: {idle_timeout: 5m, stop_grace: 3}\n")
    settings = load_daemon({"ROOST_WORKER__IDLE_TIMEOUT": "2h"}, home)
    assert settings.worker.idle_timeout == 7200
    assert settings.worker.stop_grace == 3


@pytest.mark.parametrize(
    ("text", "seconds"), [("7", 7), ("0.5", 0.5), ("500ms", 0.5), ("30s", 30), ("10m", 600)]
)
def test_a_duration_is_seconds_or_has_a_unit(home: RoostHome, text: str, seconds: float) -> None:
    settings = load_daemon({"ROOST_WORKER__STOP_GRACE": text}, home)
    assert settings.worker.stop_grace == seconds


@pytest.mark.parametrize(("text", "size"), [("100", 100), ("64KiB", 65536), ("2 MiB", 2**21)])
def test_a_size_is_bytes_or_has_a_unit(home: RoostHome, text: str, size: int) -> None:
    assert load_daemon({"ROOST_BINDING__OUTBOX_BYTES": text}, home).binding.outbox_bytes == size


@pytest.mark.parametrize(
    "text", ['["my worker", "--fast"]', "'my worker' --fast", "my\\ worker --fast"]
)
def test_a_command_is_a_list_or_words_as_a_shell_splits_them(home: RoostHome, text: str) -> None:
    settings = load_daemon({"ROOST_WORKER__COMMAND": text}, home)
    assert settings.worker.command == ("my worker", "--fast")


def test_sandbox_directories_come_one_a_line_or_as_a_list(home: RoostHome, project: Path) -> None:
    write(home.config, "agent: {sandbox_directories: ['.', /tmp/x]}\n")
    from_file = load_headless({}, home, str(project))
    lines = {"ROOST_AGENT__SANDBOX_DIRECTORIES": ".\n/tmp/y z\n"}
    from_environment = load_headless(lines, home, str(project))
    assert from_file.agent.sandbox_directories == (".", "/tmp/x")
    assert from_environment.agent.sandbox_directories == (".", "/tmp/y z")


def test_a_provider_is_set_by_its_name(home: RoostHome, project: Path) -> None:
    write(home.config, "providers: {openai: {base_url: 'http://127.0.0.1:1/v1'}}\n")
    environ = {"ROOST_PROVIDERS__OPENAI__API_KEY": "sk-1"}
    openai = load_headless(environ, home, str(project)).providers["openai"]
    assert openai.base_url == "http://127.0.0.1:1/v1"
    assert openai.api_key is not None
    assert openai.api_key.get_secret_value() == "sk-1"
    assert "sk-1" not in repr(openai)


def test_an_empty_variable_counts_as_not_set(home: RoostHome) -> None:
    assert load_daemon({"ROOST_AGENT__MODEL": ""}, home).agent.model is None


def test_a_key_without_a_value_counts_as_not_set(home: RoostHome) -> None:
    write(home.config, "agent:\n  model:\nworker:\n")
    assert load_daemon({}, home).agent.model is None


def test_names_that_are_no_settings_are_left_alone(home: RoostHome) -> None:
    """A daemon may be started from inside a worker, whose environment has these."""
    environ = {
        "ROOST_HOME": "/x",
        "ROOST_BINDING__URL": "ws://127.0.0.1:1/ws",
        "ROOST_WORKER_TOKEN": "w",
        "ROOST_SUBAGENT__DEPTH": "1",
        "ROOST_INVOKED_BY": "agent",
    }
    assert load_daemon(environ, home) == load_daemon({}, home)


def test_settings_of_the_daemon_do_not_disturb_a_worker(home: RoostHome, project: Path) -> None:
    write(home.config, "worker: {stop_grace: 3}\nbinding: {port: 0}\nagent: {mode: plan}\n")
    environ = {"ROOST_WORKER__COMMAND": "x"}
    assert load_headless(environ, home, str(project)).agent.mode == "plan"


# -- mistakes: one line that names the place, the key, the value and what is allowed ----------


def daemon_error(environ: Mapping[str, str], home: RoostHome) -> str:
    with pytest.raises(SettingsError) as caught:
        load_daemon(environ, home)
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("ROOST_AGENT__MODE", "fast", "standard, plan, auto, auto-with-judge"),
        ("ROOST_AGENT__MAX_TURNS", "0", "a whole number from 1"),
        ("ROOST_BINDING__PORT", "70000", "a port number"),
        ("ROOST_BINDING__ENABLED", "perhaps", "true or false"),
        ("ROOST_BINDING__OUTBOX_BYTES", "8 megabytes", '"8MiB"'),
        ("ROOST_BINDING__HELLO_TIMEOUT", "0", "more than zero"),
        ("ROOST_WORKER__STOP_GRACE", "-1", "seconds"),
        ("ROOST_WORKER__IDLE_TIMEOUT", "10 minutes", '"10m"'),
        ("ROOST_WORKER__IDLE_TIMEOUT", "nan", '"10m"'),
        ("ROOST_WORKER__COMMAND", '["a"', "a program and its arguments"),
        ("ROOST_WORKER__COMMAND", "a 'b", "a program and its arguments"),
        ("ROOST_WORKER__COMMAND", "[1]", "a program and its arguments"),
        ("ROOST_WORKER__COMMAND", "[]", "a program and its arguments"),
        ("ROOST_LOGGING__LEVEL", "loud", "debug, info, warning, error"),
    ],
)
def test_a_bad_variable_is_named_with_its_value_and_what_is_allowed(
    home: RoostHome, name: str, value: str, allowed: str
) -> None:
    line = daemon_error({name: value}, home)
    assert line.startswith(f"{name} is ")
    assert repr(value) in line
    assert allowed in line


@pytest.mark.parametrize(
    ("text", "key", "shown"),
    [
        ("agent: {mode: fast}", "agent.mode", "'fast'"),
        ("worker: {idle_timeout: true}", "worker.idle_timeout", "True"),
        ("worker: {command: [1, 2]}", "worker.command", "[1, 2]"),
        ("binding: {port: [1]}", "binding.port", "[1]"),
        ("agent: {model: 5}", "agent.model", "5"),
    ],
)
def test_a_bad_value_in_a_file_is_named_with_the_file(
    home: RoostHome, text: str, key: str, shown: str
) -> None:
    write(home.config, text)
    line = daemon_error({}, home)
    assert line.startswith(f"{home.config}: {key} is {shown}; allowed: ")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("agent: {modell: x}", "agent.modell is not a setting; did you mean agent.model?"),
        ("agnet: {model: x}", "agnet is not a setting; did you mean agent?"),
        (
            "zzz: 1",
            "zzz is not a setting; allowed: agent, agents, binding, logging, ",
        ),
        ("logging: {q: 1}", "logging.q is not a setting; allowed: level, stderr_json"),
        (
            "providers: {openai: {key: x}}",
            "providers.openai.key is not a setting; did you mean providers.openai.api_key?",
        ),
        ("agent: plan", "agent can't hold a value of its own; allowed: "),
    ],
)
def test_an_unknown_key_is_named_with_what_was_probably_meant(
    home: RoostHome, text: str, line: str
) -> None:
    write(home.config, text)
    assert daemon_error({}, home).startswith(f"{home.config}: {line}")


def test_an_unknown_key_of_a_known_section_in_the_environment_is_an_error(home: RoostHome) -> None:
    line = daemon_error({"ROOST_AGENT__MODELL": "x"}, home)
    assert line == "ROOST_AGENT__MODELL is not a setting; did you mean agent.model?"


@pytest.mark.parametrize(
    ("text", "shows"),
    [
        ("agent: {model: 'x\n", "line 2, column 1: not valid YAML"),
        ("- a\n", "allowed are sections such as 'agent:'"),
        ("just text\n", "allowed are sections such as 'agent:'"),
    ],
)
def test_a_file_that_is_no_settings_file_is_said_to_be_so(
    home: RoostHome, text: str, shows: str
) -> None:
    write(home.config, text)
    line = daemon_error({}, home)
    assert str(home.config) in line
    assert shows in line


def test_a_file_that_is_not_utf_8_is_said_to_be_so(home: RoostHome) -> None:
    home.config.write_bytes(b"agent: {model: '\xff'}\n")
    assert daemon_error({}, home) == f"{home.config} is not UTF-8 text"


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        ("providers: {openai: {api_key: [sk-hush]}}", {}),
        ("providers: {openai: sk-hush}", {}),
        ("providers: sk-hush", {}),
        ("binding: sk-hush", {}),
        ("binding: {tokn: sk-hush}", {}),
        ("providers: {openai: {api_key: 'sk-hush}}\n", {}),
        ("", {"ROOST_PROVIDERS__OPENAI": "sk-hush"}),
        ("", {"ROOST_PROVIDERS__OPENAI__KEY": "sk-hush"}),
        ("", {"ROOST_PROVIDERS__OPENAI": "sk-hush", "ROOST_PROVIDERS__OPENAI__API_KEY": "x"}),
    ],
)
def test_no_error_shows_a_secret(home: RoostHome, text: str, environ: dict[str, str]) -> None:
    write(home.config, text)
    assert "hush" not in daemon_error(environ, home)


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_token_is_refused(home: RoostHome, value: str) -> None:
    """An empty secret would let everybody in."""
    line = daemon_error({"ROOST_BINDING__TOKEN": value}, home)
    assert line.startswith("ROOST_BINDING__TOKEN is empty")
    assert "unset it" in line


def test_an_error_blames_the_source_that_won(home: RoostHome) -> None:
    write(home.config, "agent: {mode: plan}")
    assert daemon_error({"ROOST_AGENT__MODE": "x"}, home).startswith("ROOST_AGENT__MODE")


def test_a_long_value_is_cut(home: RoostHome) -> None:
    assert len(daemon_error({"ROOST_AGENT__MODE": "x" * 10_000}, home)) < 250


# -- what a project may set -------------------------------------------------------------------


def test_an_untrusted_project_sets_model_and_instructions_only(
    home: RoostHome, project: Path
) -> None:
    """Cloning a repository must not be enough to let it run things unasked."""
    set_in_project(project, "agent: {model: 'a:b', custom_instructions: hi, mode: auto}\n")
    settings = load_headless({}, home, str(project))
    assert (settings.agent.model, settings.agent.custom_instructions) == ("a:b", "hi")
    assert settings.agent.mode == "standard"
    (sentence,) = settings.ignored
    assert "agent.mode" in sentence
    assert f"roost trust {project}" in sentence


def test_a_trusted_project_sets_the_rest_of_its_agent_too(home: RoostHome, project: Path) -> None:
    trust(home, project)
    set_in_project(project, "agent: {mode: auto, max_turns: 3}\n")
    settings = load_headless({}, home, str(project))
    assert (settings.agent.mode, settings.agent.max_turns) == ("auto", 3)
    assert settings.ignored == ()


def test_what_allows_or_starts_something_counts_only_in_a_trusted_project(
    home: RoostHome, project: Path
) -> None:
    """Cloning a repository must not be enough to start its servers, or to be asked no more."""
    set_in_project(
        project,
        "agent: {allow: ['Bash(make *)']}\n"
        "mcp_servers: {x: {command: evil --now, env: {A: 1}, timeout: 5s}}\n",
    )
    settings = load_headless({}, home, str(project))
    assert (settings.agent.allow, settings.mcp_servers) == ((), {})
    (sentence,) = settings.ignored
    assert "agent.allow, mcp_servers.x.command" in sentence
    trust(home, project)
    settings = load_headless({}, home, str(project))
    assert settings.agent.allow == ("Bash(make *)",)
    server = settings.mcp_servers["x"]
    assert (server.command, server.env, server.timeout) == (("evil", "--now"), {"A": "1"}, 5.0)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("agent: {allow: ['*']}", "agent.allow is ['*']; allowed: a list of rules"),
        ("agent: {allow: ['Bash(']}", "agent.allow is ['Bash(']; allowed: a list of rules"),
        ("mcp_servers: {x: {env: secret}}", "mcp_servers.x.env is not usable (value not shown)"),
        ("mcp_servers: {x: {kommand: y}}", "mcp_servers.x.kommand is not a setting; did you mean"),
    ],
)
def test_a_bad_rule_or_server_is_named_and_no_secret_is_shown(
    home: RoostHome, text: str, line: str
) -> None:
    write(home.config, text)
    assert daemon_error({}, home).startswith(f"{home.config}: {line}")


def test_a_project_never_sets_what_is_not_its_agents(home: RoostHome, project: Path) -> None:
    """Above all not where a provider is: a key must not be sent to a stranger's server."""
    trust(home, project)
    set_in_project(
        project, "providers: {openai: {base_url: 'http://evil'}}\nworker: {command: x}\n"
    )
    settings = load_headless({}, home, str(project))
    assert settings.providers == {}
    (sentence,) = settings.ignored
    assert "providers.openai.base_url, worker.command" in sentence
    assert str(home.config) in sentence


def test_a_project_wins_over_the_user_and_the_environment_over_both(
    home: RoostHome, project: Path
) -> None:
    write(home.config, "agent: {model: 'user:m', custom_instructions: user}\n")
    set_in_project(project, "agent: {model: 'project:m', custom_instructions: project}\n")
    settings = load_headless({"ROOST_AGENT__MODEL": "env:m"}, home, str(project))
    assert (settings.agent.model, settings.agent.custom_instructions) == ("env:m", "project")


def test_a_mistake_in_a_projects_file_is_an_error_that_names_it(
    home: RoostHome, project: Path
) -> None:
    set_in_project(project, "agent: {mode: fast}\n")
    with pytest.raises(SettingsError, match=r"project/\.roost/config\.yaml: agent\.mode is 'fast'"):
        load_headless({}, home, str(project))


def test_a_damaged_trust_record_trusts_nobody(home: RoostHome, project: Path) -> None:
    write(home.trusted, "{")
    set_in_project(project, "agent: {mode: auto}\n")
    settings = load_headless({}, home, str(project))
    assert settings.agent.mode == "standard"
    assert any("damaged" in sentence for sentence in settings.ignored)


def test_the_users_own_file_is_not_a_projects(tmp_path: Path) -> None:
    """A thread in the home folder finds ~/.roost/config.yaml, which is the user's."""
    home = RoostHome(tmp_path / ".roost")
    home.path.mkdir()
    write(home.config, "agent: {mode: plan}\n")
    settings = load_headless({}, home, str(tmp_path))
    assert (settings.agent.mode, settings.ignored) == ("plan", ())


@pytest.mark.parametrize(
    ("value", "origins"),
    [
        ("https://a.example", ("https://a.example",)),
        (
            "https://a.example:8443, tauri://localhost",
            ("https://a.example:8443", "tauri://localhost"),
        ),
        (
            "http://[::1]:3000\nhttp://localhost:3000",
            ("http://[::1]:3000", "http://localhost:3000"),
        ),
    ],
)
def test_origins_are_listed_as_browsers_write_them(
    home: RoostHome, value: str, origins: tuple[str, ...]
) -> None:
    settings = load_daemon({"ROOST_BINDING__ALLOWED_ORIGINS": value}, home)
    assert settings.binding.allowed_origins == origins


@pytest.mark.parametrize(
    "value",
    [
        "*",
        "null",
        "a.example",
        "https://",
        "https://a.example/",
        "https://*.example",
        "https://A.example",
        "https://a.example:443",
        "http://a.example:80",
        "https://user@a.example",
        "file://",
    ],
)
def test_an_origin_that_no_browser_sends_is_a_mistake(home: RoostHome, value: str) -> None:
    """Compared exactly, a pattern or a slash would allow nothing, and nobody would know why."""
    with pytest.raises(SettingsError, match=r"ALLOWED_ORIGINS.*in lower case"):
        load_daemon({"ROOST_BINDING__ALLOWED_ORIGINS": value}, home)
