"""The chat's own commands, and tool calls in words."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.chat.call_text import headline, in_full, live_output, printable, summary
from roost.chat.doing import doing
from roost.chat.slash import COMMANDS, Slash, help_text, parse
from roost.chat.transcript import Result, Row


@pytest.mark.parametrize(
    ("text", "slash"),
    [
        ("/help", Slash("help", "")),
        ("/model  openai:gpt-5 ", Slash("model", "openai:gpt-5")),
        ("/queue edit 1 other words", Slash("queue", "edit 1 other words")),
        ("/review this", None),  # a skill of the agent
        ("/etc/passwd", None),
        ("help", None),
        ("/help\nme", None),
    ],
)
def test_a_slash_is_a_command_of_the_chat_only_when_it_is_known(
    text: str, slash: Slash | None
) -> None:
    assert parse(text) == slash


def test_help_names_every_command() -> None:
    assert all(f"/{name}" in help_text() for name in COMMANDS)


def test_a_call_in_one_line() -> None:
    assert headline("Bash", '{"description":"d","command":"ls -la\\nrm x"}') == "ls -la ⏎ rm x"
    assert headline("Bash", '{"comma') == ""
    assert headline("Unknown", '{"n":1,"what":"this"}') == "this"
    assert len(headline("Bash", json.dumps({"command": "x" * 500}))) == 100


def test_an_edit_is_shown_as_what_it_changes() -> None:
    arguments = json.dumps({"path": "a.py", "old": "one\ntwo", "new": "one\nthree"})
    assert in_full("Edit", arguments).splitlines()[0] == "a.py"
    assert "-two" in in_full("Edit", arguments)
    assert "+three" in in_full("Edit", arguments)


def test_what_hides_in_a_command_is_shown_before_it_is_approved() -> None:
    hidden = json.dumps({"command": "echo safe\u202e; rm\u200b x\r"})
    assert in_full("Bash", hidden) == "command: echo safe⟨U+202E⟩; rm⟨U+200B⟩ x⟨U+000D⟩"


def test_a_command_is_shown_whole() -> None:
    command = "x" * 5000
    assert command in in_full("Bash", json.dumps({"command": command}))


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (None, ""),
        (Result(success=True, output="one", error=""), "one"),
        (Result(success=True, output="1\n2\n3\n", error=""), "3 lines"),
        (Result(success=False, output="out", error="exit code 2"), "exit code 2"),
    ],
)
def test_how_a_call_went(result: Result | None, said: str) -> None:
    assert summary(Row(id="c", kind="call", result=result)) == said


def test_a_running_call_shows_its_last_lines() -> None:
    row = Row(id="c", kind="call", output="\n".join(str(n) for n in range(20)))
    assert live_output(row) == "15\n16\n17\n18\n19"


def test_what_goes_on_is_a_line_each() -> None:
    todos = [{"content": "first", "status": "completed"}, {"content": "then", "status": "pending"}]
    children = {
        "t1": {"threadId": "t1", "label": "look", "status": "running", "activity": "Grep x"},
        "t2": {"threadId": "t2", "label": "mend", "status": "waiting"},
        "t3": {"threadId": "t3", "label": "gone", "status": "closed"},
    }
    assert doing({"todos": todos, "subagents": children}) == [
        "✓ first",
        "○ then",
        "↳ look: Grep x",
        "↳ mend: waits for you: roost attach t2",
    ]
    assert doing({"todos": todos[:1]}) == []


@given(st.text())
def test_nothing_that_moves_the_cursor_reaches_the_terminal(text: str) -> None:
    shown = printable(text)
    assert all(c in "\n\t" or c.isprintable() for c in shown)
    assert printable("\x1b[31mred\x07") == "[31mred"
