"""The command line of the chat."""

import os
import sys
from pathlib import Path

import anyio
import click

from roost.chat.main import chat
from roost.exit_codes import ExitCode


@click.command("chat")
@click.option("--resume", metavar="SEL", help="A conversation to go on with (see `roost list`).")
@click.option("--project", metavar="DIR", default=".", help="The project's folder; default: here.")
@click.option("--model", help="The model of a new conversation, such as openai:gpt-5.")
@click.option("--mode", help="What the agent of a new conversation may do without asking.")
def command(resume: str | None, project: str, model: str | None, mode: str | None) -> ExitCode:
    """Talk to an agent in this terminal. It goes on when you leave."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError('the chat needs a terminal; `roost run "task"` does without one')
    folder = Path(project).absolute()
    if not folder.is_dir():
        raise click.BadParameter(f"{project} is no folder", param_hint="--project")
    # A terminal that does not say what it can draw gets plain colours instead of an error.
    os.environ.setdefault("TERM", "xterm-256color")
    return anyio.run(chat, str(folder), resume, model, mode)
