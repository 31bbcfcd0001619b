"""Run a program that talks to the daemon, and tell the person what became of it."""

from collections.abc import Awaitable, Callable

import click

from roost.exit_codes import ExitCode


def through_daemon(program: Callable[[], Awaitable[ExitCode]]) -> ExitCode:
    """Run it, and turn what the connection raises into words and an exit code."""
    import anyio

    from connection.failures import CommandRefused, ConnectionFailure
    from roost.logs import configure

    configure("error", stderr_json=False)
    try:
        return anyio.run(program)
    except CommandRefused as exc:
        raise click.ClickException(str(exc)) from exc
    except ConnectionFailure as exc:
        click.echo(f"Error: {exc}", err=True)
        return ExitCode.UNREACHABLE
