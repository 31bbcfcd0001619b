"""The `roost` command: names of programs, and nothing of what they do.

A program's module is imported when its command runs, so that `roost --help`, and each program,
pays only for itself. A command returns its ExitCode, or nothing for DONE.
"""

import importlib
import sys
from collections.abc import Mapping
from typing import Any, NoReturn, cast

import click

from roost.exit_codes import ExitCode
from roost.quick_import import quick_imports
from roost.version import VERSION

# name: (module, attribute, the line in `roost --help`)
_COMMANDS: Mapping[str, tuple[str, str, str]] = {
    "chat": ("roost.chat.cli", "command", "Talk to an agent here. Also: just `roost`."),
    "daemon": ("roost.daemon.cli", "command", "Run the daemon in the foreground."),
    "run": ("roost.threads.cli", "run", "Have the agent do one task, through the daemon."),
    "list": ("roost.threads.cli", "list_threads", "Show the threads that are open."),
    "attach": ("roost.chat.cli", "attach", "Talk to the agent of a thread that is open."),
    "kill": ("roost.threads.cli", "kill", "Stop the worker of a thread."),
    "rename": ("roost.threads.cli", "rename", "Name a thread's conversation."),
    "status": ("roost.daemon.care", "status", "Show whether the daemon runs, and its threads."),
    "stop": ("roost.daemon.care", "stop", "Stop the daemon and its workers."),
    "doctor": ("roost.daemon.care", "doctor", "Find and repair what is wrong around the daemon."),
    "logs": ("roost.daemon.care", "logs", "Print the daemon's log."),
    "panel": ("roost.panel.cli", "command", "Open the web panel in a browser, signed in."),
    "trust": ("roost.trust_cli", "command", "Let a project's own settings count in full."),
    "channels": ("roost.channels.cli", "command", "Run the chat channels beside a daemon."),
    "demo": ("roost.demo.cli", "command", "Watch what roost does, step by step, in a minute."),
    "headless": ("roost.headless.cli", "command", "Run one task, or serve as a worker."),
}


class Programs(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        with quick_imports():
            program = importlib.import_module(module)
        return cast(click.Command, getattr(program, attribute))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, _, says) in _COMMANDS.items()])

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run, and exit with what the command returned; Ctrl-C is 130, as in a shell."""
        extra["standalone_mode"] = False
        try:
            result: object = super().main(*args, **extra)
        except click.Abort:
            sys.exit(ExitCode.INTERRUPTED)
        except click.ClickException as exc:
            exc.show()
            sys.exit(exc.exit_code)
        sys.exit(result if isinstance(result, int) else ExitCode.DONE)


@click.group(
    cls=Programs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Files are in ~/.roost, or where ROOST_HOME points.",
)
@click.version_option(VERSION, prog_name="roost")
@click.pass_context
def main(ctx: click.Context) -> object:
    """One daemon that owns every AI-agent session on this machine.

    Without a command, in a terminal: the chat.
    """
    if ctx.invoked_subcommand is not None:
        return None
    if sys.stdin.isatty() and sys.stdout.isatty():
        chat = Programs.get_command(cast(Programs, ctx.command), ctx, "chat")
        assert chat is not None, "it is in the table"
        return chat.main([], standalone_mode=False)
    click.echo(ctx.get_help())
    return None
