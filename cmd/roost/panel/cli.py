"""`roost panel`: ask the daemon for a link, and open it."""

import os
import sys
import webbrowser

import click

from roost.exit_codes import ExitCode
from roost.home import RoostHome


@click.command("panel")
@click.option("--print", "only_print", is_flag=True, help="Print the link instead of opening it.")
@click.option("--revoke", is_flag=True, help="Sign every browser out, at once.")
def command(only_print: bool, revoke: bool) -> ExitCode:
    """Open the web panel in a browser, signed in.

    The link works once and for two minutes; the browser stays signed in after it. The daemon must
    run. Exit code 3 when it does not.
    """
    from roost.panel.daemon_side import DaemonAway, ended_sessions, sign_in_link

    home = RoostHome.from_environment(os.environ)
    try:
        if revoke:
            click.echo(ended_sessions(home))
            return ExitCode.DONE
        link = sign_in_link(home)
    except DaemonAway as exc:
        click.echo(str(exc), err=True)
        return ExitCode.UNREACHABLE
    if only_print or not webbrowser.open(link):
        click.echo(link)
        if sys.stdout.isatty():
            click.echo("Open this link within two minutes; it works once.", err=True)
    else:
        click.echo("The panel is open in your browser.")
    return ExitCode.DONE
