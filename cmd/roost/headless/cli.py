"""The command line of `roost headless`. Light: a daemon waits for this program's first line."""

import os
import re
from pathlib import Path

import click

from roost.exit_codes import ExitCode

_CONVERSATION_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}")
_MODES = ("standard", "plan", "auto", "auto-with-judge")


@click.command("headless")
@click.argument("task", required=False)
@click.option("--serve", is_flag=True, help="Serve as a worker: lines on stdin and stdout.")
@click.option(
    "--require-approval", is_flag=True, help="With --serve: approvals travel over stdio (they do)."
)
@click.option(
    "--keep-alive",
    is_flag=True,
    help="Stay for more tasks on stdin, one report line a turn: subagents without a daemon.",
)
@click.option("--session-id", metavar="ID", help="The conversation to go on with, or to begin.")
@click.option("--model", metavar="PROVIDER:NAME", help="The model, instead of the configured one.")
@click.option("--mode", type=click.Choice(_MODES), help="What the agent may do without asking.")
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "ag-ui"]),
    default="text",
    help="What one task prints: its answer, or the event lines.",
)
@click.option(
    "--approve", "decision", flag_value="approve", help="Approve what the conversation waits for."
)
@click.option(
    "--decline", "decision", flag_value="decline", help="Decline what the conversation waits for."
)
@click.option(
    "--answer", metavar="TEXT", help="Answer what the agent asked, and approve what waits with it."
)
def command(
    task: str | None,
    serve: bool,
    keep_alive: bool,
    require_approval: bool,
    session_id: str | None,
    model: str | None,
    mode: str | None,
    output: str,
    decision: str | None,
    answer: str | None,
) -> ExitCode:
    """Run one task here and print the answer, or serve one conversation as a worker.

    A task that needs an approval stops with exit code 4; the conversation is kept, and
    --session-id with --approve or --decline goes on with it.
    """
    del require_approval  # our approvals always travel over stdio
    if session_id is not None and not _CONVERSATION_ID.fullmatch(session_id):
        raise click.UsageError(
            f"{session_id[:80]!r} is no conversation id: letters, digits, '.', '_' and '-' are"
            " allowed, not beginning with '.', at most 255 characters."
        )
    if answer is not None and decision == "decline":
        raise click.UsageError("--answer and --decline exclude each other.")
    if answer is not None:
        decision = "approve"
    if serve and (task is not None or decision is not None):
        raise click.UsageError("--serve takes no task: it gets its work on stdin.")
    if serve and keep_alive:
        raise click.UsageError("--serve and --keep-alive exclude each other.")
    if keep_alive and decision is not None:
        raise click.UsageError("--keep-alive takes tasks, no decisions.")
    if serve and session_id is None:
        raise click.UsageError("--serve needs --session-id.")
    if not (serve or keep_alive) and task is None and decision is None:
        raise click.UsageError("say what to do: roost headless 'task'. Or --serve for a worker.")
    if decision is not None and session_id is None:
        raise click.UsageError(f"--{'answer' if answer else decision} needs --session-id.")
    from roost.headless.main import run
    from roost.headless.options import Options

    return run(
        Options(
            project_dir=_project_dir(),
            session_id=session_id,
            model=model,
            mode=mode,
            serve=serve,
            keep_alive=keep_alive,
            task=task,
            decision=decision,
            answer=answer,
            event_lines=output == "ag-ui",
        )
    )


def _project_dir() -> Path:
    """The working directory, by the name it was reached by: a link is a project of its own."""
    try:
        real = Path.cwd()
    except FileNotFoundError:
        raise click.UsageError("the current folder does not exist any more.") from None
    named = Path(os.environ.get("PWD", ""))
    try:
        if named.is_absolute() and named.samefile(real):
            return Path(os.path.normpath(named))
    except OSError:
        pass
    return real
