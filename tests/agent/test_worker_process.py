"""The worker as a daemon meets it: a real process, its lines, its signals, its death."""

import signal
import subprocess
from pathlib import Path

import anyio
import msgspec
import pytest

from agent.domain.entries import decode_entry
from agent.infrastructure.process import process_start
from tests.agent.support.fakes import Line
from tests.agent.support.judge import judge
from tests.agent.support.openai_server import openai_server, text, tool_call
from tests.agent.support.worker_process import (
    PATIENCE,
    Place,
    WorkerProcess,
    a_place,
    command,
    until,
    worker,
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def one_shot(place: Place, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=place.project,
        env=place.environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


async def test_a_conversation_with_approval_crash_and_answer(tmp_path: Path) -> None:
    """The main job: the decision outlives the worker, and the command runs exactly once."""
    place = a_place(tmp_path)
    recording: list[dict[str, object]] = []
    async with worker(place) as it:
        assert it.lines[0] == {"type": "ready", "protocol": 1, "version": "0.1.0"}
        assert await it.snapshot() == []
        await it.ask("think\nrun echo one >> log; echo out\nwrite f.txt: text", "m1", "r1")
        suspended = await it.wait_end()
        assert not (place.project / "log").exists()
        recording += it.lines
        before = await it.snapshot()
        await it.kill()
    outcome = msgspec.convert(suspended["outcome"], dict[str, object])
    interrupts = msgspec.convert(outcome["interrupts"], list[dict[str, object]])
    ids = [str(each["id"]) for each in interrupts]
    assert len(ids) == 2
    async with worker(place) as it:
        assert it.lines[0]["suspended"] == suspended
        assert await it.snapshot() == before
        await it.answer(ids[0])
        missing = await it.next_line()
        assert ids[1] in str(missing["message"])
        await it.answer(*ids)
        finished = await it.wait_end()
        assert finished["outcome"] == {"type": "success"}
        recording += it.lines
        final = await it.snapshot()
        assert await it.end_stdin() == 0
    assert (place.project / "log").read_text() == "one\n"
    assert (place.project / "f.txt").read_text() == "text\n"
    async with worker(place) as it:
        assert "suspended" not in it.lines[0]
        await it.answer(*ids)
        await it.snapshot()
        assert (place.project / "log").read_text() == "one\n"
    # The published client, fed with the stream alone, shows what a snapshot shows.
    shown = judge(recording).messages
    assert [(m["id"], m.get("content")) for m in shown] == [
        (m["id"], m.get("content")) for m in final
    ]


async def test_a_worker_killed_in_a_command_says_that_its_outcome_is_unknown(
    tmp_path: Path,
) -> None:
    place = a_place(tmp_path)
    async with worker(place, "--mode", "auto") as it:
        await it.ask("run echo begun >> log; sleep 600 & echo $! > pid; wait", "m1")
        pid = await _pid_in(place.project / "pid")
        await it.kill()
        await _gone(pid)
    async with worker(place, "--mode", "auto") as it:
        last = (await it.snapshot())[-1]
        assert last["role"] == "tool"
        assert "its outcome is unknown" in str(last["content"])
        assert (place.project / "log").read_text() == "begun\n"


async def test_an_interrupt_ends_the_run_and_the_whole_group_of_its_command(
    tmp_path: Path,
) -> None:
    """Who is hurt: servers and builds that nobody sees any more keep ports and memory."""
    place = a_place(tmp_path)
    async with worker(place, "--mode", "auto") as it:
        await it.ask("run sleep 600 & echo $! > pid; wait", "m1")
        pid = await _pid_in(place.project / "pid")
        await it.send(type="interrupt")
        finished = await it.wait_end()
        assert finished["outcome"] == {"type": "cancelled"}
        await _gone(pid)
        judge(it.lines)


async def test_a_snapshot_in_the_middle_of_a_run_holds_the_partial_answer(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    async with worker(place) as it:
        await it.ask("slow 600", "m1")
        await it.wait_for(lambda line: "word9 " in str(line.get("delta")))
        messages = await it.snapshot()
        streamed = "".join(
            str(line["delta"]) for line in it.lines if line["type"] == "TEXT_MESSAGE_CONTENT"
        )
        assert messages[-1]["content"] == streamed
        await it.kill()
    async with worker(place) as it:
        again = (await it.snapshot())[-1]
        assert again["id"] == messages[-1]["id"]
        assert again["metadata"] == {"roost.interrupted": True}
        # What came in the last quarter of a second may be lost, and no more.
        assert streamed.startswith(str(again["content"]))
        assert "word4 " in str(again["content"])


async def test_the_end_of_stdin_lets_a_command_finish_and_then_ends(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    async with worker(place, "--mode", "auto") as it:
        goes_on = "until test -e go; do sleep 0.05; done; sleep 0.5"
        await it.ask(f"run echo begun > log; {goes_on}; echo ended >> log", "m1")
        await until((place.project / "log").exists)
        assert it.process.stdin is not None
        await it.process.stdin.aclose()
        (place.project / "go").touch()
        assert await it.end_stdin() == 0
        finished = await it.wait_end()
        assert finished["outcome"] == {"type": "cancelled"}
    assert (place.project / "log").read_text() == "begun\nended\n"


async def test_sigterm_ends_at_once_and_cleanly(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    async with worker(place, "--mode", "auto") as it:
        await it.ask("run sleep 600 & echo $! > pid; wait", "m1")
        pid = await _pid_in(place.project / "pid")
        it.process.send_signal(signal.SIGTERM)
        assert (await it.wait_end())["outcome"] == {"type": "cancelled"}
        with anyio.fail_after(PATIENCE):
            assert await it.process.wait() == 0
        await _gone(pid)


def test_a_reader_that_is_gone_is_an_end_like_any_other(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    process = subprocess.Popen(
        command("--serve", "--session-id", "c"),
        cwd=place.project,
        env=place.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin and process.stdout
    try:
        message = {"id": "m1", "role": "user", "content": "slow 1000"}
        frame = {"type": "run_agent_input", "input": {"messages": [message]}}
        process.stdin.write(msgspec.json.encode(frame) + b"\n")
        process.stdin.flush()
        while b"TEXT_MESSAGE_CONTENT" not in process.stdout.readline():
            pass
        process.stdout.close()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
    assert b'"outcome":"cancelled"' in place.history().read_bytes()


async def test_a_daemon_that_does_not_read_locks_nothing_up(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    async with worker(place) as it:
        await it.ask("\n".join(["help"] * 300), "m1")
        for _ in range(200):
            await it.send(type="resume_conversation", id="c")
        await it.send(type="command", id="k", name="ping")
        await it.wait_for(lambda line: line["type"] == "command_result")
        await it.send(type="interrupt")


async def test_rubbish_on_stdin_is_ignored_and_counted(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    async with worker(place) as it:
        for line in (b"{", b"\xff\xfe", b"[1]", b'{"no":"type"}', b'{"type":7}', b"[" * 100_000):
            await it.send_raw(line)
        await it.send_raw(b'{"type":"run_agent_input","input":{"messages":"no"}}')
        assert "malformed" in str((await it.next_line())["message"])
        await it.ask("help", "m1")
        assert (await it.wait_end())["outcome"] == {"type": "success"}
        await until(lambda: it.stderr.count(b"stdin_line_ignored") == 6)


async def test_a_disk_that_fills_up_ends_the_run_and_not_the_worker(tmp_path: Path) -> None:
    place = a_place(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    async with worker(place, largest_file=8) as it:
        ends = [await _asked(it, f"m{number}") for number in range(12)]
        failed = [end for end in ends if end["type"] == "RUN_ERROR"]
        assert 0 < len(failed) < len(ends)
        assert {str(end["code"]) for end in failed} == {"history"}
        assert "could not be written" in str(failed[0]["message"])
        await it.send(type="command", id="k", name="ping")
        await it.wait_for(lambda line: line["type"] == "command_result")
        shown = [m["id"] for m in await it.snapshot()]
    for line in place.history().read_bytes().splitlines():
        decode_entry(line)
    async with worker(place) as it:
        again = [m["id"] for m in await it.snapshot()]
        # What found no room was seen and is not there; the rest is, in its order.
        assert again == [each for each in shown if each in again]
        assert again[:4] == shown[:4]
        await it.ask("help", "later")
        assert (await it.wait_end())["outcome"] == {"type": "success"}


async def test_a_second_process_on_a_conversation_is_refused_with_one_line(tmp_path: Path) -> None:
    """One that serves waits for the first to end before it gives up; a task does not."""
    place = a_place(tmp_path)
    async with worker(place) as it:
        second = one_shot(place, "--session-id", "c", "help")
        assert second.returncode == 1
        assert second.stdout == ""
        assert f"pid {it.process.pid}" in second.stderr
        assert len(second.stderr.splitlines()) == 1


async def test_a_judge_that_can_not_be_a_model_is_named_at_the_start(tmp_path: Path) -> None:
    place = a_place(tmp_path, ROOST_AGENT__JUDGE_MODEL="nobody")
    async with worker(place, "--mode", "auto-with-judge") as it:
        error = await it.next_line()
        assert error["type"] == "RUN_ERROR"
        assert "agent.judge_model" in str(error["message"])
        with anyio.fail_after(PATIENCE):
            assert await it.process.wait() == 2


async def test_a_wrong_setting_is_one_line_that_names_it(tmp_path: Path) -> None:
    place = a_place(tmp_path, ROOST_AGENT__MAX_TURNS="many")
    async with worker(place) as it:
        error = await it.next_line()
        assert "ROOST_AGENT__MAX_TURNS" in str(error["message"])
        with anyio.fail_after(PATIENCE):
            assert await it.process.wait() == 2


def test_a_project_reached_by_a_link_is_a_project_of_its_own(tmp_path: Path) -> None:
    """The daemon names projects by the path it was given; a worker must find the same folder."""
    place = a_place(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(place.project)
    place.project = link
    one_shot(place, "--session-id", "s", "help")
    assert [each.parts[-3][:5] for each in place.home.glob("projects/*/conversations/*")] == [
        "link-"
    ]


def test_a_home_that_can_not_be_written_is_one_clear_line(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    place.home.write_text("a file, where a folder is wanted")
    failed = one_shot(place, "help")
    assert failed.returncode == 1
    assert str(place.home) in failed.stderr
    assert len(failed.stderr.splitlines()) == 1


def test_one_task_prints_its_answer(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    (place.project / "a.txt").write_text("alpha")
    done = one_shot(place, "read a.txt")
    assert done.returncode == 0, done.stderr
    assert "not a language model" in done.stdout
    assert "Read worked: alpha" in done.stdout
    assert done.stderr == ""


def test_a_task_that_needs_approval_stops_and_says_how_to_go_on(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    stopped = one_shot(place, "--session-id", "s1", "run echo x > made")
    assert stopped.returncode == 4
    assert "echo x > made" in stopped.stderr
    assert "roost headless --session-id s1 --approve" in stopped.stderr
    assert not (place.project / "made").exists()
    again = one_shot(place, "--session-id", "s1", "something else")
    assert again.returncode == 4
    approved = one_shot(place, "--session-id", "s1", "--approve")
    assert approved.returncode == 0, approved.stderr
    assert (place.project / "made").exists()
    assert one_shot(place, "--session-id", "s1", "--approve").returncode == 1


async def test_a_panel_lists_chooses_and_runs_a_command(tmp_path: Path) -> None:
    place = a_place(tmp_path, ROOST_WORKER__TOOL_APPROVAL_TIMEOUT="200ms")
    async with worker(place) as it:
        await it.ask("help", "m1")
        await it.wait_end()
        await it.send(type="list_conversations")
        listed = await it.wait_for(lambda line: line["type"] == "conversations")
        saved = msgspec.convert(listed["conversations"], list[dict[str, object]])
        assert [(c["id"], c["title"], c["message_count"]) for c in saved] == [("c", "help", 2)]
        await it.send(type="list_history")
        assert (await it.next_line())["history"] == ["help"]
        await it.send(type="list_models")
        models = await it.next_line()
        assert models == {"type": "models", "models": ["demo:scripted"], "current": "demo:scripted"}
        command = msgspec.json.encode({"command": "echo out; echo err >&2; exit 3"}).decode()
        await it.send(type="tool_request", id="t1", tool_name="Bash", tool_args=command)
        expired = await it.wait_for(lambda line: line["type"] == "tool_result")
        assert "not approved" in str(expired["error"])
        await it.send(type="set_mode", mode="auto")
        await it.send(type="tool_request", id="t2", tool_name="Bash", tool_args=command)
        ran = await it.wait_for(lambda line: line["type"] == "tool_result")
        assert ran["success"] is False
        assert ran["output"] == "out\nerr\n"
        assert ran["error"] == "Exit code 3."


def test_one_task_that_asks_is_answered_on_the_command_line(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    asked = one_shot(place, "--session-id", "s1", "ask Shall I?")
    assert asked.returncode == 4
    assert "--answer" in asked.stderr
    assert one_shot(place, "--session-id", "s1", "--approve").returncode == 4
    answered = one_shot(place, "--session-id", "s1", "--answer", "rather not")
    assert answered.returncode == 0, answered.stderr
    assert "You answered: Shall I? - rather not" in answered.stdout


def test_one_task_can_print_event_lines(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    done = one_shot(place, "--format", "ag-ui", "help")
    types = [msgspec.json.decode(line)["type"] for line in done.stdout.splitlines()]
    assert (types[0], types[-1]) == ("RUN_STARTED", "RUN_FINISHED")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--serve", "--session-id", "c", "a task"),
        ("--serve",),
        (),
        ("--session-id", "../x", "task"),
        ("--mode", "yolo", "task"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    wrong = one_shot(a_place(tmp_path), *arguments)
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr


async def _asked(it: WorkerProcess, message_id: str) -> Line:
    await it.ask("help", message_id)
    return await it.wait_for(lambda line: line["type"] in ("RUN_FINISHED", "RUN_ERROR"))


async def _pid_in(path: Path) -> int:
    await until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


async def _gone(pid: int) -> None:
    await until(lambda: process_start(pid) is None)


def test_a_command_inherits_the_users_environment_and_none_of_our_secrets(tmp_path: Path) -> None:
    place = a_place(
        tmp_path,
        ROOST_BINDING__TOKEN="the-daemons",
        ROOST_PROVIDERS__OPENAI__API_KEY="a-key",
        ROOST_AGENT__MODE="auto",
        MY_OWN="kept",
    )
    done = one_shot(place, "run env > seen")
    assert done.returncode == 0, done.stderr
    seen = (place.project / "seen").read_text()
    assert "MY_OWN=kept" in seen
    assert "the-daemons" not in seen
    assert "a-key" not in seen


def test_a_plan_is_shown_on_the_command_line_and_carried_out_when_it_is_approved(
    tmp_path: Path,
) -> None:
    plan = tool_call("c1", "ProposePlan", '{"plan": "First this.', '\\nThen that."}')
    with openai_server(plan, text("Done.")) as server:
        place = a_place(
            tmp_path,
            ROOST_AGENT__MODEL="openai:local",
            ROOST_PROVIDERS__OPENAI__BASE_URL=server.url,
        )
        asked = one_shot(place, "--session-id", "s1", "--mode", "plan", "how?")
        assert asked.returncode == 4, asked.stderr
        assert "First this.\nThen that." in asked.stderr
        done = one_shot(place, "--session-id", "s1", "--approve")
        assert done.returncode == 0, done.stderr
        assert done.stdout == "Done.\n"
        assert "The mode is 'standard' now" in server.requests[1]["messages"][-1]["content"]
        offered = [{tool["function"]["name"] for tool in each["tools"]} for each in server.requests]
        assert offered[0] - offered[1] == {"ProposePlan"}
