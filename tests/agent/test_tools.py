"""The tools: what they do, what they refuse, and that nothing of them stays behind."""

import os
import shutil
import tempfile
import threading
from pathlib import Path

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.domain.ports import BadArguments, Tool, ToolResult
from agent.infrastructure.process import process_start
from agent.infrastructure.tools.bash import MAX_OUTPUT, Bash
from agent.infrastructure.tools.files import Edit, FileCall, Read, Write
from agent.infrastructure.tools.finding import Walk
from agent.infrastructure.tools.sandbox import OutsideSandbox, Sandbox
from agent.infrastructure.tools.search import Glob, Grep
from agent.infrastructure.tools.todos import TodoWrite
from tests.agent.support.worker_process import until
from tests.support.time import later


class _Heard:
    """A `Tell` to wait for."""

    def __init__(self) -> None:
        self.something = anyio.Event()

    def __call__(self, data: bytes) -> None:
        self.something.set()

    def runs_as(self, pid: int) -> None:
        """Nobody asks."""


async def used(tool: Tool, **arguments: object) -> ToolResult:
    with anyio.fail_after(60):
        return await tool.prepare(msgspec.json.encode(arguments)).run()


def sandbox(folder: Path, *added: str) -> Sandbox:
    return Sandbox.around(folder, added)


def bash(folder: Path, timeout: float = 60) -> Bash:
    return Bash(folder, {"PATH": os.environ["PATH"], "HOME": str(folder)}, timeout)


def test_every_tool_describes_its_arguments(tmp_path: Path) -> None:
    box = sandbox(tmp_path)
    tools: list[Tool] = [
        bash(tmp_path),
        Read(box),
        Write(box),
        Edit(box),
        Grep(box, Walk()),
        Glob(box, Walk()),
        TodoWrite(),
    ]
    for tool in tools:
        schema = tool.spec.parameters
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        properties = msgspec.convert(schema["properties"], dict[str, dict[str, object]])
        assert all("description" in str(each) for each in properties.values()), tool.spec.name
        with pytest.raises(BadArguments, match="do not fit"):
            tool.prepare(b'{"nonsense": 1}')
        with pytest.raises(BadArguments, match="do not fit"):
            tool.prepare(b'{"path": ')


# -- Bash --------------------------------------------------------------------------------------


async def test_a_command_gives_stdout_and_stderr_together_in_the_project(tmp_path: Path) -> None:
    done = await used(bash(tmp_path), command="pwd; echo oops >&2")
    assert done == ToolResult(success=True, output=f"{tmp_path.resolve()}\noops\n")


async def test_a_command_that_fails_still_shows_its_output(tmp_path: Path) -> None:
    failed = await used(bash(tmp_path), command="echo why; exit 3")
    assert failed == ToolResult(success=False, output="why\n", error="Exit code 3.")


async def test_a_command_has_no_input_to_wait_for(tmp_path: Path) -> None:
    assert (await used(bash(tmp_path), command="cat; echo end")).output == "end\n"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_command_over_its_time_is_killed_with_its_children(tmp_path: Path) -> None:
    command = "sleep 600 & echo $! > pid; echo before; wait"
    call = bash(tmp_path).prepare(msgspec.json.encode({"command": command, "timeout": 500}))
    heard = _Heard()
    killed: list[ToolResult] = []

    async def run() -> None:
        killed.append(await call.run(heard))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        with anyio.fail_after(60):
            await heard.something.wait()
        later(501)
    assert killed[0].success is False
    assert killed[0].output == "before\n"
    assert "500 seconds" in killed[0].error
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: process_start(pid) is None)


async def test_a_child_that_holds_the_output_open_does_not_hold_the_call(tmp_path: Path) -> None:
    """Who is hurt: `server &` in a command would hang the agent until its timeout."""
    done = await used(bash(tmp_path), command="sleep 600 & echo $! > pid; echo started")
    assert done == ToolResult(success=True, output="started\n")
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: process_start(pid) is None)


async def test_a_cancelled_command_leaves_nothing_behind(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            call = bash(tmp_path).prepare(b'{"command": "sleep 600 & echo $! > pid; wait"}')
            tasks.start_soon(call.run)
            await until(
                lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text())
            )
            tasks.cancel_scope.cancel()
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: process_start(pid) is None)


async def test_a_command_can_wait_for_its_own_children(tmp_path: Path) -> None:
    """The guard in the group is none of them."""
    done = await used(bash(tmp_path), command='sleep 0.01 & wait; jobs; echo "$0 $# $1"')
    assert done == ToolResult(success=True, output="bash 0 \n")


async def test_much_output_keeps_its_head_and_its_tail(tmp_path: Path) -> None:
    done = await used(bash(tmp_path), command="echo first; yes | head -c 9000000; echo last")
    assert done.output.startswith("first\n")
    assert done.output.endswith("last\n")
    assert "bytes left out" in done.output
    assert len(done.output) < MAX_OUTPUT + 100


async def test_output_that_is_not_text_does_no_harm(tmp_path: Path) -> None:
    assert (await used(bash(tmp_path), command=r"printf '\xff\xfe'")).output == "\ufffd\ufffd"


async def test_a_command_tells_its_output_as_it_comes(tmp_path: Path) -> None:
    heard: list[bytes] = []
    pids: list[int] = []
    go_on = tmp_path / "go"
    command = "echo one; until [ -e go ]; do sleep 0.02; done; echo two >&2"
    call = bash(tmp_path).prepare(msgspec.json.encode({"command": command}))

    class Listener:
        def __call__(self, data: bytes) -> None:
            heard.append(data)
            go_on.touch()

        def runs_as(self, pid: int) -> None:
            pids.append(pid)

    with anyio.fail_after(60):
        assert (await call.run(Listener())).output == "one\ntwo\n"
    assert heard == [b"one\n", b"two\n"]
    assert len(pids) == 1


async def test_a_command_in_the_background_is_a_job_that_has_no_timeout_of_its_own(
    tmp_path: Path,
) -> None:
    started = await used(
        bash(tmp_path, timeout=0.01), command="sleep 0.2; pwd; exit 3", run_in_background=True
    )
    job = started.job
    assert started.success
    assert job is not None
    assert (job.kind, job.label, job.detail) == (
        "shell",
        "sleep 0.2; pwd; exit 3",
        "sleep 0.2; pwd; exit 3",
    )
    with anyio.fail_after(60):
        result = await job.work()
    assert (result.success, result.error) == (False, "Exit code 3.")
    assert result.output == f"{tmp_path}\n"


async def test_a_job_that_is_stopped_leaves_no_process(tmp_path: Path) -> None:
    started = await used(
        bash(tmp_path),
        command="echo $$ > pid; sleep 600",
        run_in_background=True,
        description="nap",
    )
    job = started.job
    assert job is not None
    assert job.label == "nap"
    pid = tmp_path / "pid"

    async def work() -> None:
        await job.work()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await until(lambda: pid.exists() and pid.read_text().endswith("\n"))
        tasks.cancel_scope.cancel()
    await until(lambda: process_start(int(pid.read_text())) is None)


# -- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["../outside.txt", "/etc/passwd", "link/x", "link-file", "~root/x"]
)
async def test_a_path_that_leads_out_is_refused_with_the_reason(tmp_path: Path, path: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "outside.txt").write_text("secret")
    (outside / "x").write_text("secret")
    (project / "link").symlink_to(outside)
    (project / "link-file").symlink_to(tmp_path / "outside.txt")
    box = sandbox(project)
    for tool in (Read(box), Write(box), Edit(box)):
        arguments = {"path": path}
        if tool.spec.name == "Write":
            arguments["content"] = "x"
        if tool.spec.name == "Edit":
            arguments |= {"old": "secret", "new": "x"}
        refused = await used(tool, **arguments)
        assert refused.success is False
        assert "outside of the folders" in refused.error
    assert (tmp_path / "outside.txt").read_text() == "secret"
    assert (outside / "x").read_text() == "secret"


async def test_a_home_that_is_nobodys_and_a_name_that_no_disk_takes_are_said(
    tmp_path: Path,
) -> None:
    box = sandbox(tmp_path)
    for path in ("~nobody-of-this-name/x", "x" * 5000):
        for tool, more in ((Read(box), {}), (Write(box), {"content": "x"})):
            call = tool.prepare(msgspec.json.encode({"path": path, **more}))
            call.subject()  # as the allow list asks
            with anyio.fail_after(60):
                assert not (await call.run()).success


async def test_an_added_folder_counts_also_a_relative_one(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "shared").mkdir()
    box = sandbox(project, "../shared")
    assert (await used(Write(box), path="../shared/a", content="x")).success
    assert (tmp_path / "shared" / "a").read_text() == "x"
    with pytest.raises(OutsideSandbox):
        box.resolve("../elsewhere")


async def test_reading_is_bounded_and_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("".join(f"line {n}\n" for n in range(1, 5001)))
    first = await used(Read(sandbox(tmp_path)), path="long")
    assert first.output.endswith("line 2000\n\n[There is more: go on with offset 2001]")
    some = await used(Read(sandbox(tmp_path)), path="long", offset=4999, limit=5)
    assert some.output == "line 4999\nline 5000\n"


async def test_what_can_not_be_read_is_a_result_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"a\0b")
    read = Read(sandbox(tmp_path))
    assert "does not exist" in (await used(read, path="nope")).error
    assert "is a folder" in (await used(read, path=".")).error
    assert "not a text file" in (await used(read, path="binary")).error


async def test_writing_makes_folders_and_keeps_a_files_mode(tmp_path: Path) -> None:
    write = Write(sandbox(tmp_path))
    assert (await used(write, path="a/b/c.sh", content="1")).success
    script = tmp_path / "a/b/c.sh"
    script.chmod(0o755)
    assert (await used(write, path="a/b/c.sh", content="2")).success
    assert script.read_text() == "2"
    assert script.stat().st_mode & 0o777 == 0o755
    assert sorted(each.name for each in script.parent.iterdir()) == ["c.sh"]


async def test_an_edit_needs_exactly_one_place_or_all(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("one two one")
    edit = Edit(sandbox(tmp_path))
    assert "2 times" in (await used(edit, path="f", old="one", new="1")).error
    assert "does not have that text" in (await used(edit, path="f", old="three", new="3")).error
    assert file.read_text() == "one two one"
    assert (await used(edit, path="f", old="two", new="2")).success
    assert (await used(edit, path="f", old="one", new="1", all=True)).output == (
        "Changed 2 places in f."
    )
    assert file.read_text() == "1 2 1"
    for old, new in (("", "x"), ("x", "x")):
        with pytest.raises(BadArguments):
            edit.prepare(msgspec.json.encode({"path": "f", "old": old, "new": new}))


async def test_an_edit_keeps_the_line_ends_and_the_mark_that_a_file_has(tmp_path: Path) -> None:
    """Who is hurt: who works on files from Windows, whose line ends no model sees."""
    file, edit = tmp_path / "f", Edit(sandbox(tmp_path))
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    done = await used(edit, path="f", old="one\ntwo\n", new="1\n2\n")
    assert done.output == "Changed 1 place in f."
    assert file.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\nthree\r\n"
    await used(edit, path="f", old="three", new="3\n4")
    assert file.read_bytes().endswith(b"\r\n3\r\n4\r\n")
    # What was asked for with its own line ends is done to the letter.
    await used(edit, path="f", old="3\r\n4", new="x\ry")
    assert file.read_bytes().endswith(b"\r\nx\ry\r\n")


async def test_what_is_no_text_is_not_edited(tmp_path: Path) -> None:
    file, edit = tmp_path / "f", Edit(sandbox(tmp_path))
    file.write_bytes(b"caf\xe9 one")
    assert "not a UTF-8 text file" in (await used(edit, path="f", old="one", new="1")).error
    os.mkfifo(tmp_path / "pipe")
    for tool in (edit, Read(sandbox(tmp_path))):
        wanted = {"old": "a", "new": "b"} if tool is edit else {}
        assert "does not exist as a file" in (await used(tool, path="pipe", **wanted)).error
    assert file.read_bytes() == b"caf\xe9 one"


async def test_a_line_that_is_not_there_or_too_far_away_is_said(tmp_path: Path) -> None:
    read = Read(sandbox(tmp_path))
    (tmp_path / "f").write_text("one\n")
    assert (await used(read, path="f", offset=9)).error == "f has no line 9: it is shorter."
    (tmp_path / "empty").write_text("")
    assert await used(read, path="empty") == ToolResult(success=True)
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    assert "Too large to reach that line" in (await used(read, path="huge", offset=1 << 40)).error


# -- todos -------------------------------------------------------------------------------------


async def test_a_read_is_left_behind_by_a_run_that_ends_and_a_write_is_finished() -> None:
    """A file on a server that does not answer must not keep a run; half a write nobody wants."""
    let_go = threading.Event()

    def work() -> ToolResult:
        let_go.wait(120)
        return ToolResult(success=True)

    ended: list[str] = []

    async def run(call: FileCall) -> None:
        try:
            await call.run()
        finally:
            ended.append(call.summary)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, FileCall("read", work))
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, FileCall("write", work, lambda: None))
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
            assert ended == ["read"]
            let_go.set()
    assert ended == ["read", "write"]


async def test_todos_replace_the_whole_list(tmp_path: Path) -> None:
    items = [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]
    done = await used(TodoWrite(), todos=items)
    assert done.state == {"todos": items}
    assert done.output == "The list has 2 items, 1 of them done."


async def test_a_link_that_takes_a_folders_place_after_the_check_leads_nobody_out(
    tmp_path: Path,
) -> None:
    """Who is hurt: a command in the background swaps a folder while Write looks at it."""
    project, outside = tmp_path / "p", tmp_path / "out"
    (project / "inner").mkdir(parents=True)
    outside.mkdir()
    (outside / "f").write_text("theirs")
    (project / "inner" / "f").write_text("ours")

    class Swapping(Sandbox):
        def resolve(self, path: str) -> Path:
            real = Sandbox.resolve(self, path)
            shutil.rmtree(project / "inner")
            (project / "inner").symlink_to(outside)
            return real

    for tool, arguments in (
        (Read, {"path": "inner/f"}),
        (Write, {"path": "inner/f", "content": "x"}),
        (Edit, {"path": "inner/f", "old": "theirs", "new": "x"}),
    ):
        sandbox = Swapping.around(project, ())
        result = await tool(sandbox).prepare(msgspec.json.encode(arguments)).run()
        assert not result.success
        assert "theirs" not in result.output
        assert (outside / "f").read_text() == "theirs"
        (project / "inner").unlink()
        (project / "inner").mkdir()
        (project / "inner" / "f").write_text("ours")


async def test_an_edit_of_a_file_that_changes_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is hurt: whoever saved the file in an editor in that moment."""
    file = tmp_path / "f"
    file.write_text("one two")
    edit = Edit(Sandbox.around(tmp_path, ()))
    call = edit.prepare(msgspec.json.encode({"path": "f", "old": "one", "new": "1"}))
    fchmod = os.fchmod

    def saved_by_somebody(fd: int, mode: int) -> None:
        fchmod(fd, mode)
        file.write_text("one two three")

    monkeypatch.setattr(os, "fchmod", saved_by_somebody)
    result = await call.run()
    assert not result.success
    assert "changed by somebody else" in result.error
    assert file.read_text() == "one two three"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


PARTS = st.sampled_from(
    ["..", ".", "", "a", "f", "in", "out", "file-out", "loop", "~", "~root", "\0", "new", "é"]
)


@given(st.lists(PARTS, min_size=1, max_size=7), st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_path_leads_a_tool_out_of_the_sandbox(parts: list[str], is_absolute: bool) -> None:
    """Dots, links to folders and files, links in circles, homes, and what is no path at all."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        project, outside = top / "project", top / "outside"
        (project / "a").mkdir(parents=True)
        outside.mkdir()
        (outside / "f").write_text("theirs")
        (project / "a" / "f").write_text("ours")
        (project / "in").symlink_to("a")
        (project / "out").symlink_to(outside)
        (project / "file-out").symlink_to(outside / "f")
        (project / "loop").symlink_to("loop")
        path = "/".join(parts)
        path = f"{project}/{path}" if is_absolute else path
        box = Sandbox.around(project, ())
        tools: list[tuple[Tool, dict[str, str]]] = [
            (Read(box), {}),
            (Write(box), {"content": "changed"}),
            (Edit(box), {"old": "theirs", "new": "changed"}),
            (Grep(box, Walk()), {"pattern": "theirs"}),
            (Glob(box, Walk()), {"pattern": "*"}),
        ]
        for tool, more in tools:
            arguments = {"path": path, **more}
            result = anyio.run(tool.prepare(msgspec.json.encode(arguments)).run)
            assert "theirs" not in result.output
            assert set(result.output.split()).isdisjoint({"outside/f", str(outside / "f")})
        assert (outside / "f").read_text() == "theirs"
        assert sorted(each.name for each in outside.iterdir()) == ["f"]
        assert sorted(each.name for each in top.iterdir()) == ["outside", "project"]
