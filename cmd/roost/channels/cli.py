"""`roost channels`: settings, the daemon that runs, then the program."""

import os

import click

from roost.exit_codes import ExitCode
from roost.home import RoostHome
from roost.settings import DaemonSettings, SettingsError, load_daemon


@click.command("channels")
def command() -> ExitCode:
    """Run the Telegram channel beside a daemon, as a client of it.

    The daemon runs it by itself when telegram.enabled is set; this command is for those who want
    it in a process of its own. Ctrl-C stops it; threads and runs go on. Exit code 3 when there is
    no daemon to begin with; one that goes away later is waited for.
    """
    home = RoostHome.from_environment(os.environ)
    try:
        settings = load_daemon(os.environ, home)
        _check(settings)
        return _run(settings, home)
    except SettingsError as exc:
        raise click.ClickException(str(exc)) from exc


def _check(settings: DaemonSettings) -> None:
    if settings.telegram.token is None:
        raise click.ClickException(
            "no channel is set up: put the bot's token into ROOST_TELEGRAM__TOKEN, or into"
            " telegram.token in the settings; docs/how-to/telegram.md has all steps"
        )
    if settings.telegram.enabled:
        raise click.ClickException(
            "telegram.enabled is set, so the daemon runs the channel; unset it to run it here"
        )
    if not settings.binding.enabled:
        raise click.ClickException(
            "binding.enabled is false, and this needs the daemon's port: set telegram.enabled"
            " instead, and the daemon runs the channel"
        )


def _run(settings: DaemonSettings, home: RoostHome) -> ExitCode:
    import anyio

    from roost import logs
    from roost.channels.container import ChannelsContainer
    from roost.channels.infrastructure.find_daemon import FindDaemon

    find_daemon = FindDaemon(home, settings.binding)
    if find_daemon() is None:
        click.echo("No daemon is running. 'roost daemon' starts one.", err=True)
        return ExitCode.UNREACHABLE
    logs.configure(settings.logging.level, settings.logging.stderr_json)
    container = ChannelsContainer(home=home, telegram=settings.telegram, find_daemon=find_daemon)
    container.check_dependencies()
    return anyio.run(container.program().run, backend="asyncio")
