"""Composition root of the chat: a connection, and the screen on it."""

from pathlib import Path

import click

from roost import connect
from roost.chat.app import ChatApp
from roost.exit_codes import ExitCode

# What the first screen shows of a long conversation; the rest is fetched when somebody scrolls up.
_FIRST_MESSAGES = 200


async def chat(
    project_dir: Path, resume: str | None, model: str | None, mode: str | None
) -> ExitCode:
    """Run the chat until the person leaves. The session goes on. Raises ConnectionFailure."""
    async with connect(
        project_dir,
        resume=resume,
        model=model,
        mode=mode,
        last_messages=_FIRST_MESSAGES,
        name="the terminal",
    ) as connection:
        app = ChatApp(connection)
        code = await app.run_async()
    if (farewell := app.farewell) is not None:
        click.echo(farewell)
    return ExitCode.DONE if code == 0 else ExitCode.FAILED
