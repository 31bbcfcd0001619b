"""Composition root of the chat: a connection, and the screen on it."""

import click

from connection.failures import ConnectionFailure
from roost import connect
from roost.chat.app import ChatApp
from roost.exit_codes import ExitCode

# What the first screen shows of a long conversation; the rest is fetched when somebody scrolls up.
_FIRST_MESSAGES = 200


async def chat(
    project_dir: str, session: str | None, model: str | None, mode: str | None
) -> ExitCode:
    """Run the chat until the person leaves. The session goes on."""
    try:
        async with connect(
            project_dir, session, model=model, mode=mode, last_messages=_FIRST_MESSAGES
        ) as connection:
            app = ChatApp(connection)
            code = await app.run_async()
    except ConnectionFailure as exc:
        click.echo(f"roost: {exc}", err=True)
        return ExitCode.UNREACHABLE
    return ExitCode.DONE if code == 0 else ExitCode.FAILED
