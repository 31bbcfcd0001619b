"""What `roost list`, `kill` and `rename` do: one question to the daemon each, and its answer."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import click
import msgspec

from connection.daemon import DaemonConnection
from connection.shapes import SessionSummary
from roost.daemon.starting import on_demand
from roost.exit_codes import ExitCode

_HEADINGS = ("ID", "STATUS", "FOR", "CLIENTS", "NAME", "PROJECT")
_LONGEST_NAME = 40


async def show_list(*, as_json: bool, include_saved: bool) -> ExitCode:
    """Print the threads. Raises ConnectionFailure."""
    async with _visiting() as daemon:
        rows = await daemon.list_sessions(include_saved=include_saved)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(rows), indent=2))
    elif not rows:
        click.echo("No thread is open. `roost` starts one; `roost list --all` shows saved ones.")
    else:
        for line in _table(rows):
            click.echo(line)
    return ExitCode.DONE


async def kill_thread(selector: str) -> ExitCode:
    """Stop a thread's worker. Raises ConnectionFailure."""
    async with _visiting() as daemon:
        await daemon.kill_session(selector)
    click.echo("stopped; the conversation is kept")
    return ExitCode.DONE


async def rename_thread(selector: str, name: str) -> ExitCode:
    """Name a thread's conversation. Raises ConnectionFailure."""
    async with _visiting() as daemon:
        await daemon.rename_saved_session(selector, name)
    click.echo(f"it is called {name.strip()!r} now")
    return ExitCode.DONE


@asynccontextmanager
async def _visiting() -> AsyncGenerator[DaemonConnection]:
    """A connection to the daemon, and to no session."""
    daemon = on_demand()
    connection = DaemonConnection(daemon.dial, daemon.ensure)
    async with connection.attached(None):
        yield connection


def _table(rows: Sequence[SessionSummary]) -> list[str]:
    cells = [_HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADINGS))]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


def _cells(row: SessionSummary) -> tuple[str, ...]:
    name = row.name or row.title or ""
    shown = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    followers = str(row.followers) if row.status != "saved" else ""
    age = _age(row.since_seconds) if row.since_seconds is not None else ""
    return (row.active_session_id, row.status, age, followers, shown, row.project_dir)


def _age(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds:.0f}s"
