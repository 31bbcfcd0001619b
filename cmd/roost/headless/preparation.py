"""The slow half of a worker's start: settings, logging, the model's library, the tools.

It runs in a thread while the worker already answers. Whatever it finds wrong is one line that
names the setting.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, cast

from agent.domain.allow import AllowList
from agent.domain.approval import Mode
from agent.domain.entries import Choice
from agent.domain.lineage import Lineage
from agent.domain.ports import LanguageModel, ModelFailed, Models, Tool
from agent.domain.skills import told_of
from agent.domain.subagents import Limits
from agent.equipment import DEFAULT_MAX_TURNS, Equipment, StartFailed
from agent.infrastructure.archive import ProjectArchive
from agent.infrastructure.instruction_files import project_instructions
from agent.infrastructure.surroundings import surroundings
from agent.infrastructure.tools.sandbox import OutsideSandbox, Sandbox
from agent.infrastructure.tools.skills import ReadSkill
from agent.instructions import instructions
from roost.headless.deferred_log import DeferredLog
from roost.home import RoostHome
from roost.trust import BadTrustFile, TrustedProjects

Level = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Call it once, in a thread. Raises StartFailed."""

    home: RoostHome
    project_dir: Path
    environ: Mapping[str, str]
    model: str | None
    mode: str | None
    new_id: Callable[[], str]
    log: DeferredLog
    is_one_task: bool = False
    is_guest: bool = False
    """Logging was set up by the program that this one lives in."""
    lineage: Lineage | None = None

    def __call__(self) -> Equipment:
        from roost.settings import SettingsError, load_headless

        try:
            settings = load_headless(self.environ, self.home, str(self.project_dir))
        except SettingsError as exc:
            self._log_to(self.environ.get("ROOST_LOGGING__STDERR_JSON") == "true", "info")
            raise StartFailed(str(exc)) from exc
        self._log_to(settings.logging.stderr_json, settings.logging.level)
        for sentence in settings.ignored:
            self.log("warning", "settings_ignored", reason=sentence)
        agent = settings.agent
        mode = cast(Mode, self.mode or agent.mode)

        from agent.infrastructure.mcp.connection import ServerConfig
        from agent.infrastructure.models.catalogue import DEFAULT_MODEL, ProviderAccess
        from agent.infrastructure.skills import Skills
        from roost.headless.container import HeadlessContainer

        sandbox = Sandbox.around(self.project_dir, agent.sandbox_directories)
        model_name = self.model or agent.model or DEFAULT_MODEL
        container = HeadlessContainer(
            project_dir=self.project_dir,
            environ=_environment_of_tools(self.environ),
            sandbox=sandbox,
            readable=sandbox.with_root(self.home.project(str(self.project_dir)) / "artifacts"),
            allow_private=agent.fetch_private_addresses,
            tool_timeout=agent.tool_timeout,
            default_model=agent.model or DEFAULT_MODEL,
            provider_environ=self.environ,
            access={
                name: ProviderAccess(
                    section.base_url,
                    section.api_key.get_secret_value() if section.api_key else None,
                )
                for name, section in settings.providers.items()
            },
            new_id=self.new_id,
            log=self.log,
            mcp_configs=[
                ServerConfig(
                    name=name,
                    command=section.command,
                    env=section.env,
                    url=section.url,
                    headers=section.headers,
                    read_only=section.read_only,
                    timeout=section.timeout,
                )
                for name, section in settings.mcp_servers.items()
            ],
        )
        container.check_dependencies()
        tools = cast(list[Tool], container.tools())
        try:
            models: Models = container.models()
            model: LanguageModel = models.find(model_name)
        except ModelFailed as exc:
            raise StartFailed(str(exc)) from exc
        skills = Skills(self.project_dir, self.home.path, self.log).texts(
            trusted=self._is_trusted()
        )
        if any(skill.is_offered for skill in skills.values()):
            tools.append(ReadSkill(skills))
        try:
            judge = models.find(agent.judge_model) if agent.judge_model else None
        except ModelFailed as exc:
            raise StartFailed(f"agent.judge_model: {exc}") from exc
        return Equipment(
            model=model,
            model_name=model_name,
            tools={tool.spec.name: tool for tool in tools},
            mode=mode,
            instructions=instructions(
                self.project_dir,
                sandbox.roots,
                agent.system_prompt,
                agent.custom_instructions,
                project=project_instructions(self.project_dir, self.log),
                skills=told_of(skills),
                surroundings=surroundings(self.project_dir, datetime.now().astimezone().date()),
                is_subagent=self.lineage is not None,
            ),
            skills=skills,
            archive=ProjectArchive(
                self.project_dir, self.home.conversations(str(self.project_dir)), _no_note
            ),
            # The stand-in would make up none; a task of its own, or of a subagent, is in no list.
            gives_titles=agent.titles
            and not model_name.startswith("demo:")
            and self.lineage is None
            and not self.is_one_task,
            models=models,
            judge=judge,
            judge_name=agent.judge_model,
            allowed=AllowList.of(agent.allow),
            servers=container.servers() if settings.mcp_servers else None,
            given=self._given(),
            is_one_task=self.is_one_task,
            thinking=agent.thinking,
            context_window=agent.context_window,
            auto_compaction=agent.auto_compaction,
            max_turns=agent.max_turns or DEFAULT_MAX_TURNS,
            tool_approval_timeout=settings.worker.tool_approval_timeout,
            project_dir=str(self.project_dir),
            limits=Limits(
                max_depth=settings.subagents.max_depth,
                max_parallel=settings.subagents.max_parallel,
                max_turns=settings.subagents.max_turns,
                idle_timeout=settings.subagents.idle_timeout,
                approval_timeout=settings.worker.approval_timeout,
                wait=settings.subagents.wait,
                model=settings.subagents.model,
            ),
            folder=lambda path: _folder(sandbox, path),
            only=None if self.lineage is None else frozenset(self.lineage.tools),
        )

    def _is_trusted(self) -> bool:
        try:
            return TrustedProjects(self.home.trusted).includes(str(self.project_dir))
        except BadTrustFile as exc:
            self.log("warning", "trust_unread", reason=str(exc))
            return False

    def _given(self) -> dict[Choice, str]:
        given: dict[Choice, str | None] = {"model": self.model, "mode": self.mode}
        return {what: value for what, value in given.items() if value is not None}

    def _log_to(self, stderr_json: bool, level: Level) -> None:
        import structlog

        from roost.logs import configure

        if not self.is_guest:
            # Who runs one task wants its answer; what went well is for the operator of a daemon.
            configure("warning" if self.is_one_task and level == "info" else level, stderr_json)
        log = structlog.get_logger()

        def write(level: str, event: str, /, **fields: object) -> None:
            getattr(log, level)(event, **fields)

        self.log.hand_over(write)


def _no_note(stem: str) -> None:
    """No conversation is made here."""


# By these the daemon knows a command of ours that dials in, also once it has left our process tree.
# They allow it less than anything else that it could find on this machine.
_MARKS = frozenset({"ROOST_WORKER_TOKEN", "ROOST_BINDING__URL"})


def _folder(sandbox: Sandbox, path: str) -> str:
    """A folder in the sandbox that a subagent may work in. Raises ValueError. Touches the disk."""
    try:
        found = sandbox.resolve(path)
    except OutsideSandbox as exc:
        raise ValueError(str(exc)) from exc
    if not found.is_dir():
        raise ValueError(f"{path} is no folder.")
    return str(found)


def _environment_of_tools(environ: Mapping[str, str]) -> dict[str, str]:
    """What a command that the agent runs inherits: the user's environment, less our own."""
    return {
        name: value
        for name, value in environ.items()
        if name in _MARKS
        or not (name.startswith("ROOST_") and (name.endswith("TOKEN") or "__" in name))
    }
