"""The samples of the how-to pages, run as their readers would."""

import json
import os
import re
from pathlib import Path

import anyio
import pytest

from tests.agui.endpoint.conftest import Served
from tests.agui.scenes import TOKEN
from tests.support.judge import node_program

ROOT = Path(__file__).parents[3]
NODE_MODULES = ROOT / "tests/judge/node_modules"

# What a page brings, and node does not.
WINDOW = """
globalThis.window = {
  location: new URL("http://localhost:3000/"), navigator: { vendor: "", userAgent: "" },
  addEventListener() {}, removeEventListener() {},
};
const { chat } = await import("./sample.mjs");
const [, , url, token, project] = process.argv;
const messages = await chat(url, token, project, "page", "hello");
console.log(messages.at(-1).content);
process.exit(0);
"""


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


def sample(page: str, language: str) -> str:
    text = (ROOT / "docs/how-to" / f"{page}.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    return str(found)


async def output(daemon: Served, *argv: str) -> str:
    """Run a program where a reader would: in a project, beside a daemon that serves."""
    # The daemon has its token from the environment; its readers have the file.
    daemon.home.token.write_text(TOKEN + "\n")
    environ = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
    done = await anyio.run_process(
        argv,
        cwd=daemon.project,
        env=environ | {"ROOST_HOME": str(daemon.home.path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


async def test_the_sample_for_curl(served: Served) -> None:
    said = await output(served, "bash", "-euc", sample("curl", "bash"))
    events = [json.loads(line[6:]) for line in said.splitlines() if line.startswith("data: ")]
    assert [events[0]["type"], events[-1]["type"]] == ["RUN_STARTED", "RUN_FINISHED"]


async def test_the_sample_for_the_http_agent(served: Served, tmp_path: Path) -> None:
    node = node_program()
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    (tmp_path / "sample.mjs").write_text(sample("http-agent", "js"))
    said = await output(served, node, str(tmp_path / "sample.mjs"))
    assert "You said: hello." in said


async def test_the_sample_for_copilotkit(served: Served, tmp_path: Path) -> None:
    node = node_program()
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    (tmp_path / "sample.mjs").write_text(sample("copilotkit", "js"))
    (tmp_path / "page.mjs").write_text(WINDOW)
    url = f"http://127.0.0.1:{served.port}/agui"
    page = str(tmp_path / "page.mjs")
    said = await output(served, node, page, url, TOKEN, str(served.project))
    assert "You said: hello." in said
