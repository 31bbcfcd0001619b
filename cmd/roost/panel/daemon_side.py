"""What `roost panel` asks the daemon for. Without a daemon, sessions are ended in their file."""

import http.client
import json
import os
from typing import Any, cast

from roost.daemon.run_file import NotRunning, RunFile
from roost.daemon.token import BadToken, existing_token
from roost.home import RoostHome
from roost.panel.session_file import SessionFile
from roost.settings import SettingsError, load_daemon

_ANSWER_TIMEOUT = 10.0


class DaemonAway(Exception):
    """The daemon could not be asked. The message says why, and what to do."""


def sign_in_link(home: RoostHome) -> str:
    """A link that signs a browser in, once and soon. Raises DaemonAway."""
    port = _port(home)
    if port is None:
        raise DaemonAway("No daemon is running. Start it with 'roost daemon', then try again.")
    secret = _asked(home, port, "/api/links")["link"]
    # Behind the '#', which a browser sends to nobody.
    return f"http://127.0.0.1:{port}/#sign-in={secret}"


def ended_sessions(home: RoostHome) -> str:
    """End all sessions; returns the sentence about it. Raises DaemonAway."""
    port = _port(home)
    if port is not None:
        count = _asked(home, port, "/api/revoke")["ended"]
        return f"{count} browser{'' if count == 1 else 's'} signed out."
    try:
        SessionFile(home.panel_sessions).save(())
    except OSError as exc:
        raise DaemonAway(f"{home.panel_sessions} can't be written: {exc.strerror}.") from exc
    return "No daemon is running; every browser is signed out when one starts."


def _port(home: RoostHome) -> int | None:
    """None when no daemon runs. Raises DaemonAway when one runs without its port."""
    found = RunFile(home.daemon_json).look()
    if isinstance(found, NotRunning):
        return None
    if found.record.port is None:
        raise DaemonAway(
            "The daemon runs without its port (binding.enabled is false), so it has no panel."
        )
    return found.record.port


def _asked(home: RoostHome, port: int, path: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {_token(home)}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_TIMEOUT)
    try:
        connection.request("POST", path, body=b"{}", headers=headers)
        response = connection.getresponse()
        answer = cast("dict[str, Any]", json.loads(response.read()))
    except (OSError, http.client.HTTPException, ValueError) as exc:
        raise DaemonAway(f"The daemon does not answer on port {port}: {exc}.") from exc
    finally:
        connection.close()
    if response.status != 200:
        raise DaemonAway(f"The daemon refused: {answer.get('error', response.reason)}")
    return answer


def _token(home: RoostHome) -> str:
    try:
        token = existing_token(load_daemon(os.environ, home).binding, home.token)
    except (SettingsError, BadToken) as exc:
        raise DaemonAway(str(exc)) from exc
    if token is None:
        raise DaemonAway(f"{home.token} does not exist: the daemon makes it when it starts.")
    return token
