"""`roost panel` against a real daemon: a link that works once, and the end of all sessions."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from roost.exit_codes import ExitCode
from tests.roost.conftest import PATIENCE, Machine


def post(port: int, path: str, body: object, token: str = "") -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    try:
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_a_link_signs_a_browser_in_until_everybody_is_signed_out(machine: Machine) -> None:
    machine.daemon()
    code, out, _ = machine.run("panel", "--print")
    assert code == ExitCode.DONE
    link = urlsplit(out.strip())
    port = machine.record()["port"]
    assert (link.scheme, link.netloc, link.path, link.query) == (
        "http",
        f"127.0.0.1:{port}",
        "/",
        "",
    )
    secret = link.fragment.removeprefix("sign-in=")
    status, answer = post(port, "/api/sign-in", {"link": secret})
    assert status == 200
    session = answer["session"]
    assert post(port, "/api/sign-in", {"link": secret})[0] == 401
    kept = machine.home.panel_sessions.read_text()
    assert session not in kept
    assert machine.run("panel", "--revoke")[:2] == (ExitCode.DONE, "1 browser signed out.\n")
    assert post(port, "/api/sign-out", {}, session)[0] == 401
    log = "\n".join(json.dumps(line) for line in machine.log())
    assert secret not in log
    assert session not in log


def test_without_a_daemon_it_says_how_to_start_one(machine: Machine) -> None:
    code, out, err = machine.run("panel", "--print")
    assert (code, out) == (ExitCode.UNREACHABLE, "")
    assert "roost daemon" in err


def test_sessions_can_be_ended_while_no_daemon_runs(machine: Machine) -> None:
    machine.home.path.mkdir()
    machine.home.panel_sessions.write_text('["hash"]')
    assert machine.run("panel", "--revoke")[0] == ExitCode.DONE
    assert json.loads(machine.home.panel_sessions.read_text()) == []
