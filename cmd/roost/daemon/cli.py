"""`roost daemon`: settings, log, lock and token, then the program. What fails is said in a line."""

import gc
import os
from contextlib import ExitStack, closing

import click

from roost.daemon.daily_log import DailyLog
from roost.daemon.lock import DaemonLocked, daemon_lock
from roost.daemon.run_file import RunFile
from roost.daemon.token import BadToken, ensure_token
from roost.exit_codes import ExitCode
from roost.home import RoostHome
from roost.quick_import import quick_imports
from roost.settings import DaemonSettings, SettingsError, load_daemon


@click.command("daemon")
def command() -> ExitCode:
    """Run the daemon in the foreground.

    It owns the agents' threads and their workers, and opens a local socket for clients, and a port
    on 127.0.0.1 unless binding.enabled is false.
    Ctrl-C or 'roost stop' stops it in order; a second Ctrl-C hurries. It logs to logs/ in the roost
    home, and shows the log here when this is a terminal.
    """
    home = RoostHome.from_environment(os.environ)
    try:
        settings = load_daemon(os.environ, home)
        home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with ExitStack() as held:
            held.enter_context(daemon_lock(home.daemon_lock, RunFile(home.daemon_json)))
            return _run(settings, home, held)
    except (SettingsError, DaemonLocked, BadToken) as exc:
        raise click.ClickException(str(exc)) from exc
    except OSError as exc:
        where = exc.filename or home.path
        raise click.ClickException(f"{where} can't be used: {exc.strerror}") from exc


def _run(settings: DaemonSettings, home: RoostHome, held: ExitStack) -> ExitCode:
    token = ensure_token(settings.binding, home.token)
    # From here on it costs: the event loop, the server, the log.
    with quick_imports("rich", "pydantic_settings", "yaml"):
        import anyio
        import structlog

        from agui.server import PortTaken
        from connection.journal import JournalFailed
        from connection.server import SocketUnusable
        from roost import logs
        from roost.daemon.container import DaemonContainer
        from roost.daemon.local import socket_path
        from sessions.infrastructure.open_files import raise_open_files

    daily = held.enter_context(closing(DailyLog(home.logs)))
    logs.configure(settings.logging.level, settings.logging.stderr_json, daily)
    log = structlog.get_logger()
    if token.warning:
        log.warning("token_file_tightened", reason=token.warning)
    container = DaemonContainer(
        home=home,
        worker=settings.worker,
        binding_section=settings.binding,
        telegram=settings.telegram,
        agents=dict(settings.agents),
        token=token.secret,
        environ=dict(os.environ),
        open_files=raise_open_files(),
        socket=socket_path(settings.socket.path, os.environ, home),
    )
    container.check_dependencies()
    # What was made so far stays: later collections need not look at it, and are shorter for that.
    gc.freeze()
    try:
        return anyio.run(container.program().run, backend="asyncio")
    except PortTaken as exc:
        log.error("port_taken", reason=str(exc))
        raise click.ClickException(str(exc)) from exc
    except (JournalFailed, SocketUnusable) as exc:
        log.error("daemon_not_started", reason=str(exc))
        raise click.ClickException(str(exc)) from exc
    except Exception as exc:
        log.exception("daemon_failed")
        raise click.ClickException(
            f"the daemon ended because of an error of its own; {home.logs} has the details"
        ) from exc
