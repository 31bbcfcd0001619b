"""`roost status`, `roost stop`, `roost logs`: parse, ask, print."""

import os
from dataclasses import replace

import click

from roost.channels.infrastructure.report_reader import read_reports
from roost.daemon.lock import lock_holder
from roost.daemon.log_reader import follow, last_lines
from roost.daemon.processes import find_processes
from roost.daemon.run_file import RunFile
from roost.daemon.status import find_status, utc_now
from roost.daemon.stopping import stop_daemon, stop_left_workers
from roost.exit_codes import ExitCode
from roost.home import RoostHome
from sessions.infrastructure.control_groups import ControlGroups
from sessions.infrastructure.marks import home_mark

# Past the workers' grace: their SIGTERM and SIGKILL, the clients' farewell, the exit.
_STOP_MARGIN = 15.0


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(as_json: bool) -> ExitCode:
    """Show whether the daemon runs, its threads, its channels, and all of its processes.

    Exit code 0 when it answers, 3 when it does not or when there is none.
    """
    home = _home()
    token, trouble = _token(home)
    holder = lock_holder(home.daemon_lock)
    found = find_status(RunFile(home.daemon_json), token, trouble, holder)
    daemon = found.record or holder
    found = replace(
        found,
        channels=tuple(read_reports(home.channel_reports)),
        processes=find_processes(home.path, home.keepers, daemon.pid if daemon else None),
    )
    if as_json:
        click.echo(found.as_json())
    else:
        for line in found.lines(utc_now()):
            click.echo(line)
    return ExitCode.DONE if found.is_reachable else ExitCode.UNREACHABLE


@click.command("stop")
@click.option(
    "--keep-workers", is_flag=True, help="Workers go on; the next daemon takes them over."
)
def stop(keep_workers: bool) -> ExitCode:
    """Stop the daemon and its workers, and wait until they are gone.

    What their conversations hold is safe. Nothing to stop is not an error.
    """
    home = _home()
    patience = _stop_grace(home) + _STOP_MARGIN
    stopped = stop_daemon(
        RunFile(home.daemon_json),
        patience,
        keep_workers=keep_workers,
        holder=lambda: lock_holder(home.daemon_lock),
    )
    click.echo(stopped.says, err=not stopped.is_gone)
    if not stopped.is_gone:
        return ExitCode.FAILED
    if not keep_workers and (left := stop_left_workers(home, patience)) is not None:
        click.echo(left.says, err=not left.is_gone)
        return ExitCode.DONE if left.is_gone else ExitCode.FAILED
    return ExitCode.DONE


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Repair what can be repaired.")
def doctor(fix: bool) -> ExitCode:
    """Look for what is wrong around the daemon: its files, its workers, what they left behind.

    Works with and without a daemon. Exit code 1 when something is wrong that was not repaired.
    """
    from roost.daemon.doctor import Doctor

    home = _home()
    examined = Doctor(home, _groups(home))
    findings = examined.findings()
    unrepaired = 0
    for finding in findings:
        click.echo(finding.says)
        if fix and finding.repair is not None:
            try:
                finding.repair()
                click.echo("  repaired")
                continue
            except OSError as exc:
                click.echo(f"  could not be repaired: {exc.strerror}")
        unrepaired += 1
    for remark in examined.remarks():
        click.echo(remark)
    if not findings:
        click.echo("Nothing is wrong.")
    elif unrepaired and not fix:
        click.echo("'roost doctor --fix' repairs what can be repaired.")
    return ExitCode.FAILED if unrepaired else ExitCode.DONE


@click.command("logs")
@click.option("-f", "--follow", "go_on", is_flag=True, help="Go on printing what is added.")
@click.option(
    "-n", "--lines", default=100, show_default=True, type=click.IntRange(min=0), metavar="N",
    help="How many of the last lines to print.",
)  # fmt: skip
def logs(go_on: bool, lines: int) -> ExitCode:
    """Print the daemon's log: JSON lines, those of its workers among them."""
    folder = _home().logs
    last, place = last_lines(folder, lines)
    if not last and lines and not go_on:
        click.echo(f"There is no log in {folder} yet.", err=True)
    for line in last:
        click.echo(line, nl=False)
    if go_on:
        for line in follow(folder, place):
            click.echo(line, nl=False)
    return ExitCode.DONE


def _home() -> RoostHome:
    return RoostHome.from_environment(os.environ)


def _token(home: RoostHome) -> tuple[str | None, str | None]:
    """The token, or why there is none: broken settings must not keep anybody from looking."""
    from roost.daemon.token import BadToken, existing_token
    from roost.settings import SettingsError, load_daemon

    try:
        token = existing_token(load_daemon(os.environ, home).binding, home.token)
    except (SettingsError, BadToken) as exc:
        return None, str(exc)
    return token, None if token else f"{home.token} does not exist"


def _groups(home: RoostHome) -> ControlGroups | None:
    """Where threads have control groups; broken settings must not keep anybody from looking."""
    from roost.daemon.launching import control_groups
    from roost.settings import SettingsError, load_daemon

    try:
        return control_groups(load_daemon(os.environ, home).worker, home_mark(home.path))
    except SettingsError:
        return None


def _stop_grace(home: RoostHome) -> float:
    from roost.settings import SettingsError, WorkerSection, load_daemon

    try:
        return load_daemon(os.environ, home).worker.stop_grace
    except SettingsError:
        return WorkerSection().stop_grace
