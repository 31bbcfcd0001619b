"""docs/reference/api.md says what the code does: its tables are compared with it."""

import ast
import inspect
import re
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

from agui.panel import api, asking, feed, requests, sign_in
from agui.panel.api import ApiRoutes
from agui.panel.entries import Clocks, entry, key_of
from agui.peers import Peers
from roost.panel import catalogue
from tests.agui.fakes import FakeThreads
from tests.agui.panels import a_panel, saved

PAGE = (Path(__file__).parents[2] / "docs/reference/api.md").read_text(encoding="utf-8")


def rows(first_cell: str) -> list[list[str]]:
    """The rows of the table whose heading begins with this cell."""
    table = re.search(rf"^\| {re.escape(first_cell)} \|.*\n\|[ |-]+\|\n((?:\|.*\n)+)", PAGE, re.M)
    assert table is not None, first_cell
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table[1].splitlines()]


def test_every_route_is_there_and_no_other() -> None:
    threads = FakeThreads()
    served = {
        f"`{method} {route.path}`"
        for route in ApiRoutes(a_panel(threads), Peers(threads, 1), 1.0).routes()
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert {row[0].strip("| ") for row in rows("route")} == served


def test_only_what_is_for_the_token_says_so() -> None:
    for route, who, *_ in rows("route"):
        name = route.strip("|` ").rpartition("/")[2].replace("-", "_")
        handler = getattr(ApiRoutes, "link" if name == "links" else name)
        source = inspect.getsource(handler)
        assert ("only_token=True" in source) == (who == "token"), route
        assert ("_door.admit" in source) == (who != "\u2013"), route


def test_every_member_of_a_row_is_there_and_no_other() -> None:
    row = entry(key_of(saved()), None, saved(), Clocks(0.0, datetime.now(UTC)))
    named = {name for line in rows("member") for name in re.findall(r"`(\w+)`", line[0])}
    assert named == set(row)


def test_every_event_of_the_feed_is_there_and_no_other() -> None:
    made = set(re.findall(r'_event\("(\w+)"', inspect.getsource(feed)))
    assert {row[0].strip("|` ") for row in rows("event")} == made


def test_every_code_is_there_with_its_status_and_no_other() -> None:
    found: set[tuple[str, str]] = {("reply_timeout", "409")}
    assert '"reply_timeout"' in inspect.getsource(asking)
    for module in (api, requests):
        found |= _refusals(module)
    assert {(row[0].strip("|` "), row[1]) for row in rows("code")} == found


def _refusals(module: ModuleType) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        is_call = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Refused"
        if is_call and isinstance(node, ast.Call):
            status, code, *_ = node.args
            if isinstance(code, ast.Constant) and isinstance(status, ast.Constant):
                found.add((str(code.value), str(status.value)))
    return found


def test_the_limits_are_the_ones_in_the_code() -> None:
    assert f"at most {requests.LONGEST_BODY // 2**10} KiB" in PAGE
    assert f"within {sign_in.LINK_SECONDS:g} s" in PAGE
    assert f"at most {sign_in.MOST_SESSIONS}" in PAGE
    assert f"every {feed.HEARTBEAT:g} s" in PAGE
    assert f"after {3 * feed.HEARTBEAT:g} s of silence" in PAGE
    assert f"for {catalogue.DELETED_KEPT_DAYS} days" in PAGE
