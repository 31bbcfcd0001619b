"""Large outputs: the model gets what it can use, and nothing of it is lost."""

from dataclasses import replace

import msgspec

from agent.domain.ports import BadFile, Job, ToolResult
from agent.outputs import MOST, fitted
from tests.agent.support.fakes import FakeArchive, FakeTool
from tests.agent.support.scene import calls, one_session, says

LARGE = "head " + "x" * MOST + " tail"


async def test_a_large_output_is_cut_with_a_note_and_the_whole_is_an_artifact() -> None:
    archive = FakeArchive()
    found = await fitted(ToolResult(success=True, output=LARGE), archive, "c", "call/../1")
    assert archive.files == {"/artifacts/c-call-1.txt": LARGE.encode()}
    assert found.output.startswith("head ")
    assert found.output.endswith(" tail")
    assert "10 characters left out; the whole is in /artifacts/c-call-1.txt" in found.output
    small = ToolResult(success=True, output="x" * MOST)
    assert await fitted(small, archive, "c", "2") is small


async def test_a_name_that_is_no_text_is_told_as_well_as_it_can_be() -> None:
    """Who is hurt: who has one file with a name in an old encoding, and asks for all files."""
    result = ToolResult(success=True, output="\udcff.txt", error="\ud800")
    found = await fitted(result, None, "c", "1")
    assert (found.output, found.error) == ("\ufffd.txt", "\ufffd")
    large = await fitted(ToolResult(success=True, output="\udcff" + LARGE), FakeArchive(), "c", "1")
    assert large.output.startswith("\ufffdhead")


async def test_a_disk_without_room_costs_the_rest_of_the_output_and_not_the_call() -> None:
    class FullArchive(FakeArchive):
        async def write(self, name: str, text: bytes, path: str | None, *, overwrite: bool) -> str:
            raise BadFile("no space left")

    found = await fitted(ToolResult(success=True, output=LARGE), FullArchive(), "c", "1")
    assert found.success
    assert "the rest is lost: no space left" in found.output


async def test_results_of_calls_and_of_background_jobs_are_fitted() -> None:
    archive = FakeArchive()

    async def work() -> ToolResult:
        return ToolResult(success=True, output=LARGE)

    job = Job(kind="shell", label="l", description="", detail="", work=work)
    async with one_session(
        calls(("c-1", "Do", LARGE)),
        calls(("c-2", "Later", "x")),
        says("done"),
        says("and more"),
        mode="auto",
        equip=lambda it: replace(it, archive=archive),
    ) as scene:
        scene.add_tool(FakeTool("Later", job=job))
        await scene.turn("go", "m1")
        await scene.lines.wait_for(lambda _: len(archive.files) == 2)
        assert set(archive.files) == {"/artifacts/c-c-1.txt", "/artifacts/c-c-2.txt"}
        result = next(line for line in scene.lines.lines if line["type"] == "TOOL_CALL_RESULT")
        content = msgspec.json.decode(str(result["content"]))
        assert set(content) == {"success", "output", "error"}
        assert len(content["output"]) < MOST + 200
