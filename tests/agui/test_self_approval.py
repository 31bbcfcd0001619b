"""An agent's shell command tries to approve what a person should: with its token, and with ours."""

import json
import sys
from pathlib import Path

import pytest

from tests.agui.real import RealDaemon, a_real_daemon, end_of_run
from tests.agui.scenes import TOKEN

# It opens the thread that waits, sends an approval for whatever it waits for, and tells what it
# was answered, until both were refused.
CULPRIT = """
import json, os, sys
from websockets.sync.client import connect
url, token, project, interrupt = sys.argv[1:]
token = os.environ["ROOST_WORKER_TOKEN"] if token == "mine" else token
frames = [
    {"type": "resume_conversation", "project_dir": project, "id": "waiting"},
    {"type": "run_agent_input", "input": {"messages": [],
        "resume": [{"interruptId": interrupt, "status": "resolved"}]}},
]
with connect(url, proxy=None, open_timeout=60) as socket:
    hello = {"type": "browser_hello", "client": "desktop", "token": token}
    socket.send(json.dumps({**hello, "protocol_version": 2}))
    for frame in frames:
        socket.send(json.dumps(frame))
    refused = 0
    while refused < len(frames):
        try:
            told = json.loads(socket.recv(timeout=60))["type"]
        except Exception as exc:
            print(type(exc).__name__, flush=True)
            break
        print(told, flush=True)
        refused += told == "RUN_ERROR"
"""

# The same over HTTP: it answers, it reads along, it stops.
HTTP_CULPRIT = """
import json, os, sys
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener
url, token, project, interrupt = sys.argv[1:]
token = os.environ["ROOST_WORKER_TOKEN"] if token == "mine" else token
base = url.replace("ws://", "http://").replace("/ws", "/agui/agent/default/")
given = {"threadId": "waiting", "runId": "theft", "messages": [],
    "forwardedProps": {"project_dir": project},
    "resume": [{"interruptId": interrupt, "status": "resolved"}]}
for what in ("run", "connect"):
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
    request = Request(base + what, json.dumps(given).encode(), headers)
    try:
        print(build_opener(ProxyHandler({})).open(request, timeout=60).read(), flush=True)
    except HTTPError as exc:
        print(exc.code, json.load(exc)["code"], flush=True)
"""

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="processes are recognised on Linux only"
)


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


async def what_it_was_told(
    daemon: RealDaemon, token: str, *, launcher: str = "", culprit: str = CULPRIT
) -> tuple[list[str], bool]:
    """Let an agent in mode auto run the culprit; whether the other thread still waits, too."""
    script = daemon.project / "culprit.py"
    script.write_text(culprit)
    told = daemon.project / "told.txt"
    async with daemon.client() as person, daemon.client() as watcher:
        await daemon.follows(person, "waiting")
        mark = await person.say("run echo approved > approved.txt", "m1")
        end = await end_of_run(person, mark, "interrupt")
        interrupt = end["outcome"]["interrupts"][0]["id"]
        await daemon.follows(watcher, "agent", mode="auto")
        words = [sys.executable, str(script), daemon.url, token, str(daemon.project), interrupt]
        command = f"{launcher} {' '.join(words)} > told.txt 2>&1"
        mark = await watcher.say(f"run {command}; true", "m2")
        await end_of_run(watcher, mark)
        (view,) = [v for v in daemon.registry.views() if v.conversation_id == "waiting"]
        waits = view.interrupts == (interrupt,) and not (daemon.project / "approved.txt").exists()
        return told.read_text().split(), waits


@needs_proc
@pytest.mark.parametrize("token", ["mine", TOKEN])
async def test_neither_token_lets_an_agent_approve(tmp_path: Path, token: str) -> None:
    async with a_real_daemon(tmp_path) as daemon:
        told, waits = await what_it_was_told(daemon, token)
        assert waits
        assert told.count("RUN_ERROR") == 2, told  # neither the open nor the answer
        assert "MESSAGES_SNAPSHOT" not in told


@needs_proc
async def test_leaving_the_agents_session_does_not_help(tmp_path: Path) -> None:
    async with a_real_daemon(tmp_path) as daemon:
        told, waits = await what_it_was_told(daemon, TOKEN, launcher="setsid --fork --wait")
        assert waits, told
        assert told.count("RUN_ERROR") == 2, told


@needs_proc
@pytest.mark.parametrize("token", ["mine", TOKEN])
async def test_neither_token_lets_an_agent_approve_over_http(tmp_path: Path, token: str) -> None:
    async with a_real_daemon(tmp_path) as daemon:
        told, waits = await what_it_was_told(daemon, token, culprit=HTTP_CULPRIT)
        assert waits
        assert told == ["403", "not_allowed"] * 2


async def test_a_person_with_the_same_token_does_approve(tmp_path: Path) -> None:
    """Else the tests above would prove nothing."""
    async with a_real_daemon(tmp_path) as daemon, daemon.client() as person:
        await daemon.follows(person, "waiting")
        mark = await person.say("run echo approved > approved.txt", "m1")
        end = await end_of_run(person, mark, "interrupt")
        async with daemon.client() as other:
            await daemon.follows(other, "waiting")
            await other.answer(end["outcome"]["interrupts"][0]["id"], "resolved")
            await end_of_run(person, mark)
        assert (daemon.project / "approved.txt").read_text() == "approved\n"
        assert json.dumps(TOKEN) not in json.dumps(person.events)
