"""`roost trust`: parses and prints; the rules are in `roost.trust`."""

import os
from pathlib import Path

import click

from roost.exit_codes import ExitCode
from roost.home import RoostHome
from roost.trust import BadTrustFile, TrustedProjects


@click.command("trust")
@click.argument("directory", metavar="[DIR]", default=".", type=click.Path(path_type=Path))
@click.option("--revoke", is_flag=True, help="Trust the project no longer.")
@click.option("--list", "list_all", is_flag=True, help="Print the trusted projects.")
def command(directory: Path, revoke: bool, list_all: bool) -> ExitCode:
    """Let the settings in DIR/.roost/config.yaml count in full (DIR: the current folder).

    Until then such a file may only set the model and instructions. Trust a project only if you
    would run its programs.
    """
    projects = TrustedProjects(RoostHome.from_environment(os.environ).trusted)
    try:
        if list_all:
            for trusted in projects.directories():
                click.echo(trusted)
        elif revoke:
            known = projects.remove(str(directory))
            click.echo(f"No longer trusted: {directory}" if known else f"Not trusted: {directory}")
        elif not directory.is_dir():
            raise click.ClickException(f"{directory} is not a folder; nothing was changed")
        else:
            click.echo(f"Trusted: {projects.add(str(directory))}")
    except BadTrustFile as exc:
        raise click.ClickException(str(exc)) from exc
    except OSError as exc:
        raise click.ClickException(f"{projects.file} can't be written: {exc.strerror}") from exc
    return ExitCode.DONE
