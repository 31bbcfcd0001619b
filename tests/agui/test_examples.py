"""The example clients of docs/examples, run as their reader would, against the real daemon."""

import os
import shutil
import subprocess
from pathlib import Path

import anyio
import pytest

from tests.agui.real import RealDaemon, a_real_daemon
from tests.agui.scenes import TOKEN

CLIENT = Path(__file__).parents[2] / "docs/examples/client.mjs"


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


@pytest.fixture
def node() -> list[str]:
    """node, with the flag it needs for a WebSocket. Without it, a loud skip; a failure in CI."""
    found = shutil.which("node")
    version = 0
    if found is not None:
        asked = subprocess.run(
            [found, "-p", "process.versions.node"], capture_output=True, text=True
        )
        version = int(asked.stdout.split(".")[0] or 0)
    if found is None or version < 20:
        reason = "NOT RUN: docs/examples need node 20 or newer"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return [found] if version >= 22 else [found, "--experimental-websocket", "--no-warnings"]


async def run(
    daemon: RealDaemon, node: list[str], message: str, said: str = "", token: str = TOKEN
) -> tuple[int, str, str]:
    """Run the client with this typed on its terminal: exit code, stdout, stderr."""
    daemon.home.run.mkdir(exist_ok=True)
    daemon.home.daemon_json.write_text(f'{{"port": {daemon.port}}}')
    daemon.home.token.write_text(token + "\n")
    environ = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
    done = await anyio.run_process(
        [*node, str(CLIENT), str(daemon.project), message],
        input=said.encode(),
        env=environ | {"ROOST_HOME": str(daemon.home.path)},
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_the_small_client_talks_and_comes_back(tmp_path: Path, node: list[str]) -> None:
    async with a_real_daemon(tmp_path) as daemon:
        code, out, err = await run(daemon, node, "hello")
        assert (code, err) == (0, "")
        assert out.startswith("(0 messages so far)\n")
        assert "I am roost's built-in stand-in" in out
        code, out, _ = await run(daemon, node, "help")
        assert out.startswith("(2 messages so far)\n")
        assert code == 0


@pytest.mark.parametrize(("said", "ran"), [("y\n", True), ("n\n", False)])
async def test_the_small_client_asks_before_a_command_runs(
    tmp_path: Path, node: list[str], said: str, ran: bool
) -> None:
    async with a_real_daemon(tmp_path) as daemon:
        code, out, _ = await run(daemon, node, "run echo it ran > ran.txt", said)
        assert code == 0
        assert "? Bash waits for your approval" in out
        assert (daemon.project / "ran.txt").exists() is ran


async def test_the_small_client_says_what_is_wrong(tmp_path: Path, node: list[str]) -> None:
    async with a_real_daemon(tmp_path) as daemon:
        code, _, err = await run(daemon, node, "hello", token="wrong")
        assert (code, err.count("check the token")) == (3, 1)
        daemon.project.rmdir()
        code, _, err = await run(daemon, node, "hello")
        assert code == 1
        assert str(daemon.project) in err
