"""The command lines of the chat: `roost chat`, `roost attach`, and `roost` alone."""

import os
import sys
from pathlib import Path

import click

from roost.exit_codes import ExitCode
from roost.through_daemon import through_daemon


@click.command("chat")
@click.option("--resume", metavar="SEL", help="A conversation to go on with (see `roost list`).")
@click.option(
    "--project",
    metavar="DIR",
    default=".",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The project's folder; default: here.",
)
@click.option("--model", metavar="PROVIDER:NAME", help="The model of a new conversation.")
@click.option(
    "--mode",
    type=click.Choice(["standard", "plan", "auto", "auto-with-judge"]),
    help="What the agent of a new conversation may do without asking.",
)
def command(resume: str | None, project: Path, model: str | None, mode: str | None) -> ExitCode:
    """Talk to an agent in this terminal. It goes on when you leave."""
    return _chat(project, resume, model, mode)


@click.command("attach")
@click.argument("selector", metavar="SEL")
def attach(selector: str) -> ExitCode:
    """Talk to the agent of a thread, open or saved, of any project.

    SEL is an id as `roost list` shows it, a conversation id, the end of either, or a name.
    """
    return _chat(Path.cwd(), selector, None, None)


def _chat(project: Path, resume: str | None, model: str | None, mode: str | None) -> ExitCode:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError('the chat needs a terminal; `roost run "task"` does without one')
    if (terminal := os.environ.get("TERM", "")) in ("", "dumb"):
        raise click.UsageError(
            f"the chat needs a terminal that can move its cursor, and TERM is {terminal!r};"
            ' `roost run "task"` does with any'
        )
    # The terminal library is imported here: the check above should not wait for it.
    from roost.chat.main import chat

    return through_daemon(lambda: chat(project.absolute(), resume, model, mode))
