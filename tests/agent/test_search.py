"""Grep and Glob: what they find and what they refuse, the same with ripgrep and without it."""

import os
import shutil
from functools import partial
from pathlib import Path

import anyio
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.domain.ports import BadArguments, Tool, ToolResult
from agent.infrastructure.process import process_start
from agent.infrastructure.tools import finding
from agent.infrastructure.tools.finding import Finder, Ripgrep, Walk
from agent.infrastructure.tools.sandbox import Sandbox
from agent.infrastructure.tools.search import MAX_RESULTS, Glob, Grep
from tests.agent.support.worker_process import until


def ripgrep() -> Ripgrep:
    """Skips loudly where it is not installed, and fails there in CI."""
    program = shutil.which("rg")
    if program is None:
        assert not os.environ.get("CI"), "CI installs ripgrep: see .ci/run"
        pytest.skip("ripgrep is not installed: half of these tests did not run")
    return Ripgrep(program)


@pytest.fixture(params=["walk", "ripgrep"])
def finder(request: pytest.FixtureRequest) -> Finder:
    return Walk() if request.param == "walk" else ripgrep()


def sandbox(folder: Path) -> Sandbox:
    return Sandbox.around(folder, ())


def has_ended(pid: int) -> bool:
    return process_start(pid) is None


async def used(tool: Tool, **arguments: object) -> ToolResult:
    with anyio.fail_after(60):
        return await tool.prepare(msgspec.json.encode(arguments)).run()


async def test_grep_finds_lines_and_skips_what_is_none_of_its_business(
    tmp_path: Path, finder: Finder
) -> None:
    (tmp_path / "a.py").write_text("x = 1\nneedle = 2\n")
    (tmp_path / "b.txt").write_text("NEEDLE\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "c").write_text("needle\n")
    (tmp_path / "binary").write_bytes(b"\0needle")
    grep = Grep(sandbox(tmp_path), finder)
    assert (await used(grep, pattern="needle")).output == "a.py:2: needle = 2"
    both = await used(grep, pattern="needle", ignore_case=True)
    assert both.output == "a.py:2: needle = 2\nb.txt:1: NEEDLE"
    assert (await used(grep, pattern="n", glob="*.txt")).output == "Nothing was found."
    with pytest.raises(BadArguments, match="regular expression"):
        grep.prepare(b'{"pattern": "("}')


async def test_a_pattern_that_takes_for_ever_is_stopped_and_holds_nobody_up(tmp_path: Path) -> None:
    """The worker must answer an interrupt meanwhile: the search lets go of the interpreter."""
    (tmp_path / "a.txt").write_text("a" * 60 + "!\n")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0.01)
            ticks += 1

    with anyio.fail_after(60):
        # A machine that is held up just then says nothing of us.
        while ticks < 5:
            ticks = 0
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tick)
                grep = Grep(sandbox(tmp_path), Walk(), seconds=0.5)
                found = await used(grep, pattern="(a|aa)+$|(a+)+$|(.*a){30}$")
                assert "Stopped after 0.5 seconds" in found.output
                tasks.cancel_scope.cancel()


@pytest.mark.parametrize("pattern", ["(" * 2000 + ")" * 2000, "x" * 5000, "a{1,99999999999}", "[["])
def test_a_pattern_that_nobody_means_is_refused(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(BadArguments):
        Grep(sandbox(tmp_path), Walk()).prepare(msgspec.json.encode({"pattern": pattern}))


async def test_names_with_many_stars_are_compared_at_once(tmp_path: Path) -> None:
    """Who is hurt: whose worker is frozen by one odd pattern, and takes no stop."""
    (tmp_path / ("cb" + "a" * 200)).write_text("")
    found = await used(Glob(sandbox(tmp_path), Walk()), pattern="*a" * 40 + "b*c")
    assert found.output == "Nothing was found."
    (tmp_path / "x").write_text("")
    for pattern in ("**/" * 1000 + "x", "**" * 1000 + "/x", "***/x"):
        assert (await used(Glob(sandbox(tmp_path), Walk()), pattern=pattern)).output == "x"


async def test_grep_is_bounded(tmp_path: Path, finder: Finder) -> None:
    (tmp_path / "many").write_text("hit\n" * 1000)
    found = await used(Grep(sandbox(tmp_path), finder), pattern="hit")
    assert len(found.output.splitlines()) == MAX_RESULTS + 1
    assert "narrow the search" in found.output


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", {"a.py", "src/b.py", "src/deep/c.py"}),
        ("src/*.py", {"src/b.py"}),
        ("src/**/*.py", {"src/b.py", "src/deep/c.py"}),
        ("**/deep/*", {"src/deep/c.py"}),
        ("?.txt", {"x.txt"}),
    ],
)
async def test_glob_finds_files_by_name(
    tmp_path: Path, finder: Finder, pattern: str, expected: set[str]
) -> None:
    for name in ("a.py", "src/b.py", "src/deep/c.py", "x.txt", "xy.txt", ".git/h.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    found = await used(Glob(sandbox(tmp_path), finder), pattern=pattern)
    assert set(found.output.splitlines()) == expected


async def test_searches_do_not_follow_links_out(tmp_path: Path, finder: Finder) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "s.txt").write_text("needle")
    (project / "link").symlink_to(tmp_path / "secret")
    (project / "file").symlink_to(tmp_path / "secret" / "s.txt")
    box = sandbox(project)
    assert (await used(Grep(box, finder), pattern="needle")).output == "Nothing was found."
    assert (await used(Glob(box, finder), pattern="*.txt")).output == "Nothing was found."
    assert "outside" in (await used(Grep(box, finder), pattern="needle", path="link")).error


async def test_a_search_that_takes_too_long_is_stopped(tmp_path: Path, finder: Finder) -> None:
    (tmp_path / "a").write_text("x")
    found = await used(Grep(sandbox(tmp_path), finder, seconds=0.0), pattern="x")
    assert "Stopped after 0 seconds" in found.output


async def test_a_search_that_nobody_waits_for_any_more_is_left_and_its_program_ends(
    tmp_path: Path,
) -> None:
    """Who is hurt: who stops a run, and waits for a search through a whole disk."""
    slow = tmp_path / "rg"
    slow.write_text("#!/bin/sh\necho $$ > pid.new\nmv pid.new pid\nexec sleep 600\n")
    slow.chmod(0o755)
    box, finder = sandbox(tmp_path), Ripgrep(str(slow))
    for tool in (Grep(box, finder, seconds=600), Glob(box, finder)):
        pids: list[int] = []
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tool.prepare(b'{"pattern": "x"}').run)
                await until((tmp_path / "pid").exists)
                pids.append(int((tmp_path / "pid").read_text()))
                assert process_start(pids[0]) is not None
                tasks.cancel_scope.cancel()
            await until(partial(has_ended, pids[0]))
        (tmp_path / "pid").unlink()


def test_more_folders_in_folders_than_python_likes_are_walked(tmp_path: Path) -> None:
    """Who is hurt: who works where something made folders in folders, and can't search."""
    deepest = Path(tmp_path, *("x" for _ in range(1100)))
    os.close(sandbox(tmp_path).folder(deepest, make=True))
    (deepest / "f").touch()
    try:
        assert list(Walk().files(tmp_path, finding.Patience(60))) == ["x/" * 1100 + "f"]
    finally:
        (deepest / "f").unlink()
        # Nor does it like to remove them.
        for folder in (deepest, *deepest.parents[:1099]):
            folder.rmdir()


def test_a_walk_ends_when_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("x")
    patience = finding.Patience(600)
    names = Walk().files(tmp_path, patience)
    assert next(names) == "a"
    patience.give_up()
    with pytest.raises(TimeoutError):
        next(names)


ODD: dict[str, bytes] = {
    "a.py": b"needle = 1\r\nother\n",
    "sub/.hidden": b"needle\n",
    "sub/deep/b.txt": "NEEDLE und N\u00e4del\n\u017fharp\n".encode(),
    "sub.txt": b"a needle\x0cneedle",
    "-dash": b"needle",
    "new\nline": b"needle",
    "bytes.latin1": b"caf\xe9 needle n\xe4del\ntail\xe9",
    "late-nul": b"x" * 5000 + b"\0\nneedle\n",
    os.fsdecode(b"\xff.txt"): b"needle",
    "early-nul": b"\0needle\n",
    "utf16": "needle".encode("utf-16"),
    "large": b"needle\n" + b"x" * finding.MAX_FILE,
    ".gitignore": b"*.py\n",
    ".ignore": b"*\n",
    ".git/config": b"needle",
    "node_modules/m.js": b"needle",
    "kept/.venv": b"needle in a file of that name\n",
}
PIECES = (
    r"needle n . ^ $ \w+ \b (?=n) [a-e] [^\w] é ä s | ( ) (?: * + ? {1,2} \Z [[:alpha:]]"
    r" [a&&b] \s \x65 { (?i) e{2} ++ \1 \< []a] [a- -z] # \."
)
PATTERNS = st.lists(
    st.sampled_from([*PIECES.split(), " "]),
    min_size=1,
    max_size=5,
)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    for name, data in ODD.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to(".")
    (folder / "sub/link.txt").symlink_to("deep/b.txt")
    (folder / "closed").mkdir(mode=0)
    return folder


@given(pieces=PATTERNS, ignore_case=st.booleans())
@example(pieces=["^[a-z--n]eedle"], ignore_case=False)  # a set, or one set less another
@example(pieces=["caf.", " ", "n"], ignore_case=False)  # U+FFFD, or no character
@example(pieces=["x$"], ignore_case=False)
@settings(max_examples=30, deadline=None)
def test_ripgrep_never_changes_an_answer(odd: Path, pieces: list[str], ignore_case: bool) -> None:
    """Who is hurt: who believes "nothing was found" on the machine where it is installed."""
    arguments = msgspec.json.encode({"pattern": "".join(pieces), "ignore_case": ignore_case})
    answers: list[ToolResult] = []
    for each in (Walk(), ripgrep()):
        try:
            call = Grep(Sandbox.around(odd, ()), each).prepare(arguments)
        except BadArguments:
            return
        answers.append(anyio.run(call.run))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("pattern", ["*", "*.txt", "**/*", "sub/*", ".*", "**/deep/*"])
async def test_ripgrep_names_the_same_files(odd: Path, pattern: str) -> None:
    walked = await used(Glob(Sandbox.around(odd, ()), Walk()), pattern=pattern)
    named = await used(Glob(Sandbox.around(odd, ()), ripgrep()), pattern=pattern)
    assert walked == named


async def test_a_ripgrep_that_is_broken_is_not_missed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("needle")
    broken = tmp_path / "rg"
    broken.write_text("#!/bin/sh\necho broken >&2\nexit 2\n")
    broken.chmod(0o755)
    for program in (broken, tmp_path / "gone"):
        grep = Grep(sandbox(tmp_path), Ripgrep(str(program)))
        assert (await used(grep, pattern="needle")).output == "a.txt:1: needle"
        glob = Glob(sandbox(tmp_path), Ripgrep(str(program)))
        assert (await used(glob, pattern="*.txt")).output == "a.txt"


def test_a_program_in_a_relative_folder_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is hurt: who opens a project that brings an `rg` of its own, with `.` in the PATH."""
    (tmp_path / "rg").write_text("#!/bin/sh\n")
    (tmp_path / "rg").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert isinstance(finding.finder({"PATH": ".::bin"}), Walk)
    assert isinstance(finding.finder({}), Walk)
    assert isinstance(finding.finder({"PATH": f".:{tmp_path}"}), Ripgrep)
