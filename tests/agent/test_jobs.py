"""Work in the background: it outlives its run, its end is a message, it ends with the worker."""

import anyio
import msgspec
import pytest
from trio.testing import MockClock

from agent.domain.messages import JOB
from agent.domain.ports import Job, ToolResult
from agent.jobs import MOST
from agent.tool_output import MOST as MOST_OUTPUT
from tests.agent.support.fakes import FakeHistory, FakeTool, Line
from tests.agent.support.judge import judge
from tests.agent.support.scene import Scene, calls, one_session, says
from tests.agent.test_run import kinds, verified

VIRTUAL = pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})]
)


class Background:
    """A tool whose call leaves a job, and when that ends."""

    def __init__(self, result: ToolResult | None = None) -> None:
        self.result = result or ToolResult(success=True, output="all green")
        self.gate = anyio.Event()
        self.ended = False
        job = Job(kind="shell", label="tests", description="", detail="make test", work=self._work)
        self.tool = FakeTool(job=job)

    async def _work(self) -> ToolResult:
        try:
            await self.gate.wait()
        finally:
            self.ended = True
        return self.result


def background(lines: list[Line]) -> list[dict[str, object]]:
    """Each `backgroundTasks` that a follower was told, in order."""
    found: list[dict[str, object]] = []
    for line in lines:
        if line["type"] == "STATE_SNAPSHOT":
            snapshot = msgspec.convert(line["snapshot"], dict[str, object])
            found.append(msgspec.convert(snapshot["backgroundTasks"], dict[str, object]))
        if line["type"] == "STATE_DELTA":
            change = msgspec.convert(line["delta"], list[dict[str, object]])[0]
            if change["path"] == "/backgroundTasks":
                found.append(msgspec.convert(change["value"], dict[str, object]))
    return found


async def until_finished(scene: Scene, count: int) -> None:
    with anyio.fail_after(60):
        while kinds(scene.lines.lines).count("RUN_FINISHED") < count:
            await anyio.wait_all_tasks_blocked()


async def test_a_job_outlives_its_run_and_its_end_begins_one_when_idle() -> None:
    it = Background()
    response = calls(("c1", "Do", "x"))
    async with one_session(
        response, says("started"), says("seen"), mode="auto", tool=it.tool
    ) as scene:
        lines = await scene.turn("test it", "m1")
        row = {
            "id": "c1",
            "kind": "shell",
            "label": "tests",
            "description": "",
            "detail": "make test",
            "status": "running",
            "started_at": "2026-01-02T03:04:05Z",
        }
        assert background(lines)[-1] == {"running": 1, "jobs": [row]}
        it.gate.set()
        await until_finished(scene, 2)
        verified(scene.lines.lines)
        assert background(scene.lines.lines)[-1] == {
            "running": 0,
            "jobs": [{**row, "status": "completed"}],
        }
        last = scene.model.requests[-1].messages[-1]
        assert last.text == "[Shell Completed: tests]\nall green"
        assert last.is_marked(JOB)
        assert last.id in [m["id"] for m in await scene.snapshot()]


async def test_a_job_that_ends_during_a_run_joins_it_and_a_failed_one_says_so() -> None:
    it = Background(ToolResult(success=False, output="1 failed", error="Exit code 1."))
    async with one_session(
        calls(("c1", "Do", "x")),
        calls(("c2", "Look", "y")),
        says("seen"),
        mode="auto",
        tool=it.tool,
    ) as scene:

        async def end_it() -> None:
            if len(scene.model.requests) == 2 and not it.ended:
                it.gate.set()
                await anyio.wait_all_tasks_blocked()
            await anyio.lowlevel.checkpoint()

        scene.model.before_piece = end_it
        lines = await scene.turn("test it", "m1")
        verified(lines)
        assert scene.model.requests[-1].messages[-1].text == (
            "[Shell Failed: tests]\nExit code 1.\n1 failed"
        )
        assert background(lines)[-1]["running"] == 0
        judge(scene.lines.lines)


async def test_a_job_ends_with_its_worker_and_the_next_one_says_so_without_a_run() -> None:
    history = FakeHistory()
    it = Background()
    async with one_session(
        calls(("c1", "Do", "x")), says("ok"), mode="auto", tool=it.tool, history=history
    ) as scene:
        await scene.turn("test it", "m1")
    assert it.ended
    async with one_session(history=history) as scene:
        await anyio.wait_all_tasks_blocked()
        assert scene.lines.lines == []
        assert str((await scene.snapshot())[-1]["content"]).startswith("[Shell Failed: tests]")
    async with one_session(history=history) as scene:
        texts = [str(m["content"]) for m in await scene.snapshot()]
        assert sum(text.startswith("[Shell Failed") for text in texts) == 1


async def test_a_job_can_be_stopped_and_is_told_as_failed() -> None:
    it = Background()
    async with one_session(
        calls(("c1", "Do", "x")), says("ok"), says("seen"), mode="auto", tool=it.tool
    ) as scene:
        await scene.turn("test it", "m1")
        await scene.send(type="command", id="k", name="stop_job", args={"id": "c1"})
        await until_finished(scene, 2)
        assert it.ended
        assert "Stopped" in scene.model.requests[-1].messages[-1].text
        await scene.send(type="command", id="k", name="stop_job", args={"id": "c1"})
        assert scene.lines.lines[-1]["code"] == "unknown_job"


async def test_a_bug_in_a_job_is_its_failure_and_the_worker_lives() -> None:
    async def bug() -> ToolResult:
        raise ZeroDivisionError("secret")

    tool = FakeTool(job=Job(kind="shell", label="t", description="", detail="", work=bug))
    async with one_session(
        calls(("c1", "Do", "x")), says("ok"), says("seen"), mode="auto", tool=tool
    ) as scene:
        await scene.ask("go", "m1")
        with anyio.fail_after(60):
            while scene.model.responses and len(scene.model.requests) < 2:
                await anyio.wait_all_tasks_blocked()
        await scene.lines.wait_for(lambda line: line["type"] == "RUN_FINISHED")
        await anyio.wait_all_tasks_blocked()
        assert "job_crashed" in scene.log.names()
        shown = str(await scene.snapshot())
        assert "[Shell Failed: t]" in shown
        assert "secret" not in shown


async def test_only_so_many_jobs_run_at_once() -> None:
    it = Background()
    many = calls(*((f"c{number}", "Do", "x") for number in range(MOST + 1)))
    async with one_session(many, says("ok"), mode="auto", tool=it.tool) as scene:
        lines = await scene.turn("go", "m1")
        assert background(lines)[-1]["running"] == MOST
        results = [str(line["content"]) for line in lines if line["type"] == "TOOL_CALL_RESULT"]
        assert "run in the background already" in results[-1]


async def test_one_task_waits_for_its_jobs() -> None:
    it = Background()
    response = calls(("c1", "Do", "x"))
    async with one_session(
        response, says("ok"), says("seen"), mode="auto", tool=it.tool, serve=False
    ) as scene:
        await scene.ask("go", "m1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scene.session.run_alone)
            await until_finished(scene, 1)
            it.gate.set()
        assert kinds(scene.lines.lines).count("RUN_FINISHED") == 2


async def test_a_panel_leaves_nothing_in_the_background() -> None:
    it = Background()
    async with one_session(mode="auto", tool=it.tool) as scene:
        await scene.send(type="tool_request", id="t", tool_name="Do", tool_args="{}")
        result = await scene.lines.wait_for(lambda line: line["type"] == "tool_result")
        assert "only a run" in str(result["error"])


# -- output as it comes ------------------------------------------------------------------------


def told(scene: Scene) -> list[dict[str, object]]:
    return [
        msgspec.convert(line["value"], dict[str, object])
        for line in scene.lines.lines
        if line["type"] == "CUSTOM" and line["name"] == "roost.tool_output"
    ]


@VIRTUAL
async def test_output_is_told_while_the_call_runs_a_little_at_a_time(
    anyio_backend: object,
) -> None:
    """Who is hurt: a command that prints a million lines would drown every window."""
    del anyio_backend

    async def work() -> None:
        await anyio.sleep(1)

    tool = FakeTool(prints=[b"x" * MOST_OUTPUT, "né".encode()[:2], "né".encode()[2:]], work=work)
    async with one_session(calls(("c1", "Do", "x")), says("ok"), mode="auto", tool=tool) as scene:
        lines = await scene.turn("go", "m1")
        verified(lines)
        (value,) = told(scene)
        assert (value["toolCallId"], value["leftOut"]) == ("c1", 2)
        assert str(value["text"]).endswith("xné")


@VIRTUAL
async def test_a_call_that_ends_at_once_has_its_result_only(anyio_backend: object) -> None:
    del anyio_backend
    tool = FakeTool(prints=[b"quick"])
    async with one_session(calls(("c1", "Do", "x")), says("ok"), mode="auto", tool=tool) as scene:
        await scene.turn("go", "m1")
        assert told(scene) == []


@VIRTUAL
async def test_output_waits_for_a_reader_that_does_not_keep_up(anyio_backend: object) -> None:
    del anyio_backend
    tool = FakeTool(prints=[b"some"], work=lambda: anyio.sleep(1))
    async with one_session(calls(("c1", "Do", "x")), says("ok"), mode="auto", tool=tool) as scene:
        await scene.ask("go", "m1")
        await scene.lines.wait_for(lambda line: line["type"] == "TOOL_CALL_END")
        scene.lines.is_full = True
        await anyio.sleep(0.9)
        assert told(scene) == []
        scene.lines.let_go()
        await scene.wait_end()
