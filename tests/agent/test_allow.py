"""The rules of the allow list: what they cover, and how a shell could be used to slip past them."""

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.domain.allow import AllowList, BadRule, Subject, plain_words
from agent.infrastructure.tools.bash import Bash
from agent.infrastructure.tools.files import Edit, Write
from agent.infrastructure.tools.sandbox import Sandbox


def covers(rule: str, command: str) -> bool:
    return AllowList.of([rule]).covers("Bash", Subject("command", command))


@pytest.mark.parametrize(
    "command",
    ["git status", "git status -s", "  git  status ", "git 'status' \"a b\"", "git stat''us"],
)
def test_a_rule_covers_its_command_with_more_words(command: str) -> None:
    assert covers("Bash(git status*)", command)


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf .",
        "git status;rm -rf .",
        "git status && rm x",
        "git status & rm x",
        "git status || rm x",
        "git status | sh",
        "git status\nrm x",
        "git status\rrm x",
        "git status $(rm x)",
        "git status `rm x`",
        'git status "$(rm x)"',
        'git status "`rm x`"',
        "git status $HOME",
        "git status ${IFS}x",
        "git status > .bashrc",
        "git status >> .bashrc",
        "git status < x",
        "git status <(rm x)",
        "git status 2>x",
        "git status *",
        "git status ~",
        "git status {a,b}",
        "git status \\; rm",
        "git status # no",
        "(git status)",
        "{ git status; }",
        "! git status",
        "PATH=. git status",
        "git status 'open",
        "git status $'\\x3b'",
        "git\tstatus\x00",
        "",
        " ",
    ],
)
def test_what_a_shell_reads_as_more_than_words_is_covered_by_no_rule(command: str) -> None:
    """Who is hurt: the person who allowed `git status`, and nothing else."""
    assert not covers("Bash(git status*)", command)
    assert not covers("Bash(*)", command)


@pytest.mark.parametrize(
    ("rule", "command", "is_covered"),
    [
        ("Bash(git status)", "git status", True),
        ("Bash(git status)", "git status -s", False),
        ("Bash(git status*)", "git", False),
        ("Bash(git status*)", "git push", False),
        ("Bash(git status*)", "'git status'", False),
        ("Bash(npm run *)", "npm run test -- x", True),
        ("Bash(npm run *)", "npm run", False),
        ("Bash(make * -j2)", "make test -j2", True),
        ("Bash(make * -j2)", "make test lint -j2", False),
        ("Bash", "git status", True),
        ("Write", "git status", False),
        ("mcp__*", "git status", False),
    ],
)
def test_words_are_compared_one_by_one(rule: str, command: str, is_covered: bool) -> None:
    assert covers(rule, command) is is_covered


def test_a_rule_for_the_whole_tool_covers_operators_too() -> None:
    """That is what the user wrote: every command."""
    assert covers("Bash", "a; b")


@pytest.mark.parametrize("text", ["", "*", "B*", "Bash(", "Bash()", "Bash(x", "1x", "a b", "(x)"])
def test_a_bad_rule_is_an_error(text: str) -> None:
    with pytest.raises(BadRule):
        AllowList.of([text])


def test_tools_of_a_server_are_allowed_by_name_or_all() -> None:
    nothing = Subject("text", "")
    assert AllowList.of(["mcp__docs__*"]).covers("mcp__docs__search", nothing)
    assert AllowList.of(["mcp__docs__search"]).covers("mcp__docs__search", nothing)
    assert not AllowList.of(["mcp__docs__*"]).covers("mcp__mail__send", nothing)


def test_addresses_are_compared_from_their_start() -> None:
    allowed = AllowList.of(["WebFetch(https://docs.example/*)"])
    assert allowed.covers("WebFetch", Subject("text", "https://docs.example/a/b?c"))
    assert not allowed.covers("WebFetch", Subject("text", "https://docs.example.evil/a"))
    assert not allowed.covers("WebFetch", Subject("text", "http://docs.example/a"))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.text(alphabet="ab'\"$`\\;&|<>(){}*?~#!=- \t\n\r/.", max_size=12),
        min_size=20,
        max_size=20,
    )
)
def test_plain_words_are_exactly_what_a_shell_makes_of_them(commands: list[str]) -> None:
    """One bash tells for many commands: what we call plain, it must split into the same words."""
    plain = [(words, command) for command in commands if (words := plain_words(f"x {command}"))]
    if not plain:
        return
    script = "\n".join(f"x {command}" for _, command in plain)
    told = subprocess.run(
        ["bash", "-c", "x() { printf '%s\\0' x \"$@\"; printf '\\1\\0'; }\n" + script],
        capture_output=True, check=True, timeout=120,
    ).stdout.decode()  # fmt: skip
    calls = [call.split("\0")[:-1] for call in told.split("\1\0")[:-1]]
    assert calls == [words for words, _ in plain]
    assert [shlex.split(command) for _, command in plain] == [words[1:] for words, _ in plain]


def test_a_long_command_is_judged_at_once() -> None:
    """A pattern that tries again and again would hold the worker for hours."""
    assert plain_words("a" * 100_000 + "\x00") is None
    assert plain_words("a " * 50_000 + ";") is None
    assert plain_words("''" * 50_000 + ";") is None


# -- what a call is about ----------------------------------------------------------------------


def file_rule(rule: str, project: Path, path: str) -> bool:
    call = Write(Sandbox.around(project, ())).prepare(
        b'{"path": "%s", "content": ""}' % path.encode()
    )
    return AllowList.of([rule]).covers("Write", call.subject())


@pytest.mark.parametrize(
    ("rule", "path", "is_covered"),
    [
        ("Write(docs/**)", "docs/a/b.md", True),
        ("Write(docs/*.md)", "docs/b.md", True),
        ("Write(docs/*.md)", "docs/a/b.md", False),
        ("Write(**/*.md)", "b.md", True),
        ("Write(**/*.md)", "docs/a/b.md", True),
        ("Write(docs/**)", "docs/../src/a.py", False),
        ("Write(docs/**)", "./docs/a.md", True),
        ("Write(docs/**)", "docsx/a.md", False),
        ("Write(docs/?.md)", "docs/a.md", True),
        ("Write(**)", "../other/a.md", False),
        ("Write", "anything", True),
        ("Write", ".roost/config.yaml", False),
        ("Write(**)", "x/../.roost/config.yaml", False),
        ("Write", ".git/hooks/pre-commit", False),
    ],
)
def test_files_are_covered_by_where_they_really_are(
    tmp_path: Path, rule: str, path: str, is_covered: bool
) -> None:
    """What decides what is allowed is never changed unasked, whatever is allowed."""
    project = tmp_path / "project"
    project.mkdir()
    assert file_rule(rule, project, path) is is_covered


def test_a_link_is_covered_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "docs" / "link").symlink_to(tmp_path / "src")
    assert not file_rule("Write(docs/**)", tmp_path, "docs/link/a.py")
    assert file_rule("Write(src/**)", tmp_path, "docs/link/a.py")
    (tmp_path / "settings").symlink_to(tmp_path / ".roost")
    assert not file_rule("Write(**)", tmp_path, "settings/config.yaml")


def test_every_kind_of_call_says_what_it_is_about(tmp_path: Path) -> None:
    bash = Bash(tmp_path, {}, 1.0)
    in_background = bash.prepare(b'{"command": "make", "run_in_background": true}')
    assert in_background.subject() == Subject("command", "make")
    edit = Edit(Sandbox.around(tmp_path, ())).prepare(b'{"path": "a", "old": "b", "new": "c"}')
    assert edit.subject() == Subject("path", "a")
