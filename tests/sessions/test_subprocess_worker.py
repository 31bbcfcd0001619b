"""Real processes that misbehave: whatever a worker does, its end is told and nothing is left."""

import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from sessions.domain.keys import ConversationId, Subagent, ThreadKey, ThreadOptions
from sessions.domain.ports import LaunchFailed, WorkerLost
from sessions.infrastructure.subprocess_worker import SubprocessLauncher, SubprocessWorker
from tests.support.pumped import all_lines, next_lines

TOKEN = "worker-token"
SCRIPTED = str(Path(__file__).parents[1] / "support/workers/scripted.py")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def a_worker(
    tmp_path: Path, *words: str, options: ThreadOptions | None = None, **settings: Any
) -> AsyncGenerator[SubprocessWorker]:
    launcher = SubprocessLauncher(
        argv=(sys.executable, SCRIPTED, *words),
        environ={"PATH": os.environ["PATH"], **settings.pop("environ", {})},
        **settings,
    )
    key = ThreadKey(str(tmp_path), ConversationId("c1"))
    with anyio.fail_after(120):
        async with launcher(key, options or ThreadOptions(), TOKEN) as worker:
            yield worker


async def first_line(worker: SubprocessWorker) -> dict[str, Any]:
    return dict(json.loads((await next_lines(worker))[0]))


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"  # a zombie has ended


async def until_gone(pid: int) -> None:
    with anyio.fail_after(60):
        while is_running(pid):  # noqa: ASYNC110 - the kernel tells nobody of a stranger's end
            await anyio.sleep(0.01)


async def test_the_worker_gets_its_arguments_directory_and_environment(tmp_path: Path) -> None:
    options = ThreadOptions(
        model="openai:m",
        mode="plan",
        system_prompt="s",
        custom_instructions="c",
        sandbox_directories=(".", "/x"),
        max_turns=7,
        subagent=Subagent(parent="p", depth=1, tools=("Read", "Grep")),
    )
    environ = {
        "ROOST_BINDING__TOKEN": "secret",
        "ROOST_WORKER_TOKEN": "secret",
        "PWD": "/daemon",
        "OPENAI_API_KEY": "kept",
    }
    async with a_worker(tmp_path, "environment", options=options, environ=environ) as worker:
        said = await first_line(worker)
    assert said["argv"] == (
        [
            "headless",
            "--serve",
            "--require-approval",
            "--session-id",
            "c1",
            "--model",
            "openai:m",
            "--mode",
            "plan",
        ]
    )
    assert said["cwd"] == str(tmp_path)
    env = said["env"]
    assert "secret" not in env.values()
    assert env["OPENAI_API_KEY"] == "kept"
    expected = {
        "PWD": str(tmp_path),
        "ROOST_LOGGING__STDERR_JSON": "true",
        "ROOST_AGENT__SYSTEM_PROMPT": "s",
        "ROOST_AGENT__CUSTOM_INSTRUCTIONS": "c",
        "ROOST_AGENT__SANDBOX_DIRECTORIES": ".\n/x",
        "ROOST_AGENT__MAX_TURNS": "7",
        "ROOST_SUBAGENT__PARENT": "p",
        "ROOST_SUBAGENT__DEPTH": "1",
        "ROOST_SUBAGENT__TOOLS": "Read,Grep",
        "ROOST_INVOKED_BY": "agent",
    }
    assert {name: env.get(name) for name in expected} == expected


async def test_options_that_were_not_given_add_nothing(tmp_path: Path) -> None:
    async with a_worker(tmp_path, "environment") as worker:
        said = await first_line(worker)
    assert said["argv"] == ["headless", "--serve", "--require-approval", "--session-id", "c1"]
    assert not [name for name in said["env"] if name.startswith(("ROOST_AGENT", "ROOST_SUB"))]


async def test_a_command_that_does_not_exist_fails_the_launch_by_name(tmp_path: Path) -> None:
    launcher = SubprocessLauncher(argv=("/no/such/program",), environ={})
    with pytest.raises(LaunchFailed, match=r"/no/such/program.*No such file"):
        async with launcher(ThreadKey(str(tmp_path), ConversationId("c")), ThreadOptions(), TOKEN):
            pytest.fail("nothing can have started")


async def test_a_file_as_project_dir_fails_the_launch_by_name(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    launcher = SubprocessLauncher(argv=(sys.executable,), environ={})
    with pytest.raises(LaunchFailed, match="file: it is no folder"):
        async with launcher(ThreadKey(str(file), ConversationId("c")), ThreadOptions(), TOKEN):
            pytest.fail("nothing can have started")


async def test_a_name_no_file_system_takes_is_one_clear_failure(tmp_path: Path) -> None:
    launcher = SubprocessLauncher(argv=(sys.executable,), environ={})
    key = ThreadKey(f"{tmp_path}/{'x' * 300}", ConversationId("c"))
    with pytest.raises(LaunchFailed, match="File name too long"):
        async with launcher(key, ThreadOptions(), TOKEN):
            pytest.fail("nothing can have started")


async def test_an_option_that_is_too_long_for_the_kernel_is_not_the_commands_fault(
    tmp_path: Path,
) -> None:
    launcher = SubprocessLauncher(argv=(sys.executable,), environ={})
    key = ThreadKey(str(tmp_path), ConversationId("c"))
    options = ThreadOptions(system_prompt="x" * 3_000_000)
    with pytest.raises(LaunchFailed, match="system_prompt"):
        async with launcher(key, options, TOKEN):
            pytest.fail("nothing can have started")


async def test_a_worker_that_needs_a_sigterm_gets_one_before_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions.infrastructure.subprocess_worker._TERM_GRACE", 60.0)
    async with a_worker(tmp_path, "ends-at-sigterm") as worker:
        await first_line(worker)
        worker.stop(0.1)
        assert await all_lines(worker) == [b'{"type": "TERMINATED"}']
        assert worker.exit_reason() == "exited with code 0"


@contextmanager
def not_as_root() -> Generator[None]:
    """Root may enter every directory; for a while, be somebody who may not."""
    nobody = 65534
    was = os.geteuid()
    if was == 0:
        os.seteuid(nobody)
    try:
        yield
    finally:
        os.seteuid(was)


async def test_a_project_dir_that_can_not_be_entered_fails_the_launch() -> None:
    with tempfile.TemporaryDirectory() as folder:
        closed = Path(folder) / "closed"
        closed.mkdir(mode=0o000)
        Path(folder).chmod(0o755)
        launcher = SubprocessLauncher(argv=(sys.executable,), environ={})
        key = ThreadKey(str(closed), ConversationId("c"))
        with not_as_root(), pytest.raises(LaunchFailed, match="closed: it can't be entered"):
            async with launcher(key, ThreadOptions(), TOKEN):
                pytest.fail("nothing can have started")


async def test_failed_launches_leave_no_open_files(tmp_path: Path) -> None:
    launcher = SubprocessLauncher(argv=("/no/such/program",), environ={})
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with suppress(LaunchFailed):
            async with launcher(
                ThreadKey(str(tmp_path), ConversationId("c")), ThreadOptions(), TOKEN
            ):
                pass
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


async def test_a_worker_that_exits_at_once_says_nothing_but_why(tmp_path: Path) -> None:
    async with a_worker(tmp_path, "exits-at-once") as worker:
        assert await all_lines(worker) == []
        assert worker.exit_reason() == "exited with code 3"


async def test_rubbish_is_passed_on_as_lines_for_the_registry_to_judge(tmp_path: Path) -> None:
    async with a_worker(tmp_path, "rubbish") as worker:
        assert await all_lines(worker) == [b"rubbish", b"\xff\xfe", b"{}", b'{"type": "AFTER"}']


async def test_what_a_worker_wrote_before_it_died_is_read_after_its_death(tmp_path: Path) -> None:
    async with a_worker(tmp_path, "rubbish") as worker:
        await until_gone(worker.pid)
        await anyio.wait_all_tasks_blocked()
        assert len(await all_lines(worker)) == 4


async def test_half_a_line_is_dropped_and_the_lines_before_it_are_not(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with a_worker(tmp_path, "half-a-line") as worker:
            assert await all_lines(worker) == [b'{"type": "WHOLE"}']
            assert worker.exit_reason() == "was killed by SIGKILL"
    assert [log["bytes"] for log in logs if log["event"] == "unfinished_line_dropped"] == [12]


async def test_a_line_of_twenty_megabytes_comes_whole(tmp_path: Path) -> None:
    async with a_worker(tmp_path, "long-line", "20000000") as worker:
        said = await first_line(worker)
        assert len(said["x"]) == 20_000_000


async def test_a_line_past_the_ceiling_ends_the_worker(tmp_path: Path) -> None:
    async with a_worker(tmp_path, "long-line", "200000", max_line_bytes=100_000) as worker:
        assert await all_lines(worker) == []
        assert "a line of more than 100,000 bytes" in worker.exit_reason()


async def test_a_worker_that_does_not_read_is_ended_and_blocks_nobody(tmp_path: Path) -> None:
    async with a_worker(tmp_path, "deaf", write_timeout=0.2) as worker:
        assert await first_line(worker) == {"type": "DEAF"}
        for _ in range(40):
            worker.send(b"x" * 100_000)
        assert await all_lines(worker) == []
        assert "did not read its input" in worker.exit_reason()


async def test_a_worker_that_closed_its_stdin_is_told_apart(tmp_path: Path) -> None:
    async with a_worker(tmp_path, "closes-stdin") as worker:
        await first_line(worker)
        with pytest.raises(WorkerLost, match="closed its input"):
            while True:
                worker.send(b"x")
                await anyio.sleep(0.01)


async def test_a_stubborn_worker_is_killed_after_the_grace(tmp_path: Path) -> None:
    async with a_worker(tmp_path, "stubborn") as worker:
        pid = (await first_line(worker))["pid"]
        worker.stop(0.1)
        assert await all_lines(worker) == []
        assert worker.exit_reason() == "was killed by SIGKILL"
    assert not is_running(pid)


async def test_a_second_stop_hurries_the_first(tmp_path: Path) -> None:
    async with a_worker(tmp_path, "stubborn") as worker:
        await first_line(worker)
        worker.stop(3600)
        worker.stop(0)
        assert await all_lines(worker) == []


async def test_a_later_stop_does_not_lengthen_the_first(tmp_path: Path) -> None:
    async with a_worker(tmp_path, "stubborn") as worker:
        await first_line(worker)
        worker.stop(0.1)
        worker.stop(3600)
        assert await all_lines(worker) == []


async def test_what_a_worker_leaves_in_its_group_ends_with_it(tmp_path: Path) -> None:
    async with a_worker(tmp_path, "polite-with-child") as worker:
        pid = (await first_line(worker))["pid"]
        assert is_running(pid)
        worker.stop(60)
        await all_lines(worker)
        assert worker.exit_reason() == "exited with code 0"
    await until_gone(pid)


async def test_a_grandchild_that_holds_the_pipe_changes_nothing(tmp_path: Path) -> None:
    async with a_worker(tmp_path, "grandchild-holds-the-pipe") as worker:
        lines = [json.loads(line) for line in await all_lines(worker)]
        assert [line["type"] for line in lines] == ["CHILD", "LAST"]
        assert worker.exit_reason() == "was killed by SIGKILL"
        # Another session is out of the launcher's reach; the test started it, the test ends it.
        os.kill(lines[0]["pid"], 9)


async def test_a_worker_that_closed_its_stdout_is_waited_for(tmp_path: Path) -> None:
    async with a_worker(tmp_path, "closes-stdout") as worker:
        assert await first_line(worker) == {"type": "LAST"}
        worker.stop(60)
        assert await all_lines(worker) == []
        assert worker.exit_reason() == "exited with code 0"


async def test_a_cancelled_owner_leaves_no_process(tmp_path: Path) -> None:
    pid = 0
    with anyio.CancelScope() as scope:
        async with a_worker(tmp_path, "stubborn") as worker:
            pid = (await first_line(worker))["pid"]
            scope.cancel()
            await anyio.sleep_forever()
    assert pid
    assert not is_running(pid)


async def test_stderr_goes_to_the_log_and_never_as_critical(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with a_worker(tmp_path, "logs") as worker:
            await all_lines(worker)
            pid = worker.pid
    happened = next(log for log in logs if log["event"] == "it_happened")
    assert happened["log_level"] == "error"
    assert (happened["n"], happened["worker_pid"]) == (1, pid)
    rest = next(log for log in logs if log["event"] == "worker_stderr")
    assert "boom" in rest["text"]
