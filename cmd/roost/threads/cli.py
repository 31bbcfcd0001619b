"""`roost list`, `kill`, `rename` and `run`: parsed here, done next door.

They start the daemon when none runs. No daemon to be had is exit code 3.
"""

from pathlib import Path

import click

from roost.exit_codes import ExitCode
from roost.through_daemon import through_daemon


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--all", "include_saved", is_flag=True, help="Saved conversations, too.")
def list_threads(as_json: bool, include_saved: bool) -> ExitCode:
    """Show the threads that are open now, of all projects."""
    from roost.threads.looking import show_list

    return through_daemon(lambda: show_list(as_json=as_json, include_saved=include_saved))


@click.command("kill")
@click.argument("selector", metavar="SEL")
def kill(selector: str) -> ExitCode:
    """Stop the worker of a thread at once. Its conversation stays.

    SEL is an id as `roost list` shows it, a conversation id, the end of either, or a name.
    """
    from roost.threads.looking import kill_thread

    return through_daemon(lambda: kill_thread(selector))


@click.command("rename")
@click.argument("selector", metavar="SEL")
@click.argument("name")
def rename(selector: str, name: str) -> ExitCode:
    """Give a thread's conversation a name, open or saved."""
    if not name.strip():
        raise click.UsageError("the name is empty.")
    from roost.threads.looking import rename_thread

    return through_daemon(lambda: rename_thread(selector, name))


@click.command("run")
@click.argument("task")
@click.option("--json", "as_json", is_flag=True, help="Print the AG-UI events, one a line.")
@click.option("--resume", metavar="SEL", help="Go on with a conversation, open or saved.")
@click.option("--model", metavar="PROVIDER:NAME", help="The model, instead of the configured one.")
@click.option(
    "--mode",
    type=click.Choice(["standard", "plan", "auto", "auto-with-judge"]),
    help="What the agent may do without asking.",
)
def run(
    task: str, as_json: bool, resume: str | None, model: str | None, mode: str | None
) -> ExitCode:
    """Have the agent do one task in this folder, through the daemon, and print its answer.

    Exit codes: 0 done, 1 failed, 3 no daemon, 4 it waits for a decision of yours, 130 interrupted.
    """
    if not task.strip():
        raise click.UsageError("the task is empty.")
    from roost.threads.running import run_task

    return through_daemon(
        lambda: run_task(task, Path.cwd(), resume=resume, model=model, mode=mode, as_json=as_json)
    )
