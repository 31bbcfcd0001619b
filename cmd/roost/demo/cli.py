"""The command line of the tour."""

import click

from roost.demo.main import run_tour
from roost.exit_codes import ExitCode


@click.command("demo")
def command() -> ExitCode:
    """Watch what roost does, step by step, in a minute.

    Starts a daemon in a temporary home, on a free port, and ends it again. Nothing of yours is
    read or changed, and no key or network is needed.
    """
    return run_tour()
