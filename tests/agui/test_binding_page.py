"""docs/reference/binding.md says what the code does: its tables are compared with it."""

import ast
import inspect
import json
import re
from pathlib import Path

import pytest

import sessions.domain.thread
import sessions.registry
from agui import browser_frames, browser_relay, browser_turns, hello, websocket, websocket_client
from agui.settings import BindingSettings
from sessions.domain.frames import MODES, PANEL, OpenFrame
from sessions.domain.settings import RegistrySettings
from sessions.registry import Registry
from tests.agui.transcripts import GOLDEN

PAGE = (Path(__file__).parents[2] / "docs/reference/binding.md").read_text(encoding="utf-8")
MIB = 2**20


def rows(first_cell: str) -> list[list[str]]:
    """The rows of the table whose heading begins with this cell."""
    table = re.search(rf"^\| {re.escape(first_cell)} \|.*\n\|[ |-]+\|\n((?:\|.*\n)+)", PAGE, re.M)
    assert table is not None, first_cell
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table[1].splitlines()]


def names(first_cell: str) -> set[str]:
    return {row[0].strip("| `") for row in rows(first_cell)}


def words_of(function: object) -> set[str]:
    """The texts in a function that could be a frame's type or an error's code."""
    source = inspect.getsource(function)  # type: ignore[arg-type] # pyright: ignore
    return set(re.findall(r'"([a-z]+(?:_[a-z]+)+)"', source))


def test_every_frame_that_a_client_may_send_is_there_and_no_other() -> None:
    opens_and_more = words_of(Registry.handle) - {"bad_frame", "not_allowed", "unknown_type"}
    relayed = {"browser_command", "browser_result"}
    forwarded = set(vars(sessions.registry)["_FORWARDED"])
    assert names("`type`") == opens_and_more | forwarded | set(PANEL) | relayed


def test_the_replies_to_panel_requests_are_the_ones_that_are_named() -> None:
    answers = {row[0].strip("` "): row[3] for row in rows("`type`")}
    for kind, replies in PANEL.items():
        assert all(f"`{reply}`" in answers[kind] for reply in replies), kind


def test_every_thread_option_and_mode_is_named() -> None:
    for option in set(OpenFrame.__struct_fields__) - {"id", "project_dir"}:
        assert f"`{option}`" in PAGE
    assert f"`mode` ({', '.join(f'`{mode}`' for mode in MODES)})" in PAGE


def test_every_code_of_an_error_is_there_and_no_other() -> None:
    """Found where errors are made: a text with underscores that is an argument of its own."""
    makers = {
        "bare_error",
        "run_ended_in_error",
        "_refuse",
        "_answer_everyone",
        "_fail",
    }
    codes: set[str] = {"no_worker"}
    for module in (sessions.registry, sessions.domain.thread):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in makers:
                texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
                codes |= {t for t in texts if isinstance(t, str) and re.fullmatch(r"[a-z_]+", t)}
    assert names("code") == codes


def test_the_limits_are_the_defaults() -> None:
    binding, registry = BindingSettings(token="t"), RegistrySettings()
    assert {row[0].strip("| "): row[1] for row in rows("what")} == {
        "the hello": f"{binding.hello_timeout:g} s and {hello.LONGEST_HELLO // 1024} KiB",
        "one frame from a client": f"{binding.max_frame_bytes // MIB} MiB",
        "one frame to a worker": f"{registry.max_line_bytes // MIB} MiB",
        "live events that wait for one client": (
            f"{binding.outbox_frames:,} or {binding.outbox_bytes // MIB} MiB"
        ),
        "a client takes nothing": f"{binding.write_timeout:g} s",
        "a ping's answer": f"{binding.ping_interval:g} s",
        "an open's snapshot": f"{registry.snapshot_timeout:g} s",
        "browser commands of one sender that wait": str(browser_turns.MOST_PER_SOURCE),
    }
    assert f"pings every {binding.ping_interval:g} s" in PAGE
    timeouts = (
        f"else {browser_frames.DEFAULT_TIMEOUT:g} s, at most"
        f" {browser_frames.LONGEST_TIMEOUT / 60:g} min, plus {browser_frames.MARGIN:g} s"
    )
    assert timeouts in PAGE


def test_the_closing_codes_are_the_ones_that_are_used() -> None:
    ours = {
        str(websocket_client.GOING_AWAY),
        str(websocket.UNSUPPORTED_DATA),
        str(browser_relay.REPLACED_BY_ANOTHER),
    }
    by_the_server_library = {"1007", "1009"}
    assert names("close code") == {"none"} | ours | by_the_server_library


def test_the_frames_of_the_handshake_are_quoted_as_they_are() -> None:
    assert hello.ACK.decode() in PAGE
    shape = json.loads(browser_frames.status(connected=True, extension_version="x"))
    quoted = ",".join(f'"{name}":' for name in ("connected", "extension_version"))
    assert list(shape) == ["type", "connected", "extension_version", "protocol_version"]
    assert all(part in PAGE for part in quoted.split(",")), quoted


@pytest.mark.parametrize("story", ["desktop", "extension"])
def test_every_frame_of_the_golden_transcripts_is_on_this_page_or_on_the_workers(
    story: str,
) -> None:
    workers = (Path(__file__).parents[2] / "docs/reference/worker-lines.md").read_text("utf-8")
    lines = (GOLDEN / f"{story}.jsonl").read_text(encoding="utf-8").splitlines()
    for kind in {json.loads(line)[1]["type"] for line in lines}:
        known = f"`{kind}`" in PAGE + workers or f'"type":"{kind}"' in PAGE + workers
        # The worker's page writes an opener's relatives as `_CONTENT` and the like.
        suffix = "_" + kind.rpartition("_")[2]
        assert known or f"`{suffix}`" in workers or f"/{suffix}" in workers, kind
