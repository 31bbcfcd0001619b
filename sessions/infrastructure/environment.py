"""The environment of a worker: the daemon's, less its secrets, plus what the thread asks for."""

from collections.abc import Mapping

from sessions.domain.keys import ThreadKey, ThreadOptions


def worker_environment(
    environ: Mapping[str, str], thread: ThreadKey, options: ThreadOptions, token: str
) -> dict[str, str]:
    """What the worker of a thread is started with (design, section 13, "Environment")."""
    made = {
        name: value
        for name, value in environ.items()
        if not (name.startswith("ROOST_") and name.endswith("TOKEN"))
    }
    # An inherited PWD would still name the daemon's directory.
    made["PWD"] = thread.project_dir
    made["ROOST_LOGGING__STDERR_JSON"] = "true"
    made["ROOST_WORKER_TOKEN"] = token
    if options.system_prompt is not None:
        made["ROOST_AGENT__SYSTEM_PROMPT"] = options.system_prompt
    if options.custom_instructions is not None:
        made["ROOST_AGENT__CUSTOM_INSTRUCTIONS"] = options.custom_instructions
    if options.sandbox_directories:
        made["ROOST_AGENT__SANDBOX_DIRECTORIES"] = "\n".join(options.sandbox_directories)
    if options.max_turns is not None:
        made["ROOST_AGENT__MAX_TURNS"] = str(options.max_turns)
    if options.subagent is not None:
        made["ROOST_SUBAGENT__PARENT"] = options.subagent.parent
        made["ROOST_SUBAGENT__DEPTH"] = str(options.subagent.depth)
        made["ROOST_SUBAGENT__TOOLS"] = ",".join(options.subagent.tools)
        made["ROOST_INVOKED_BY"] = "agent"
    return made
