"""Requests that nobody writes on purpose, and some that somebody would: one clear answer each."""

import gzip
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.agui.endpoint.front_end import Body, FrontEnd, a_front_end
from tests.agui.endpoint.staged import a_staged_endpoint

MIB = 2**20


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def body(**members: str) -> bytes:
    """An input, with members as JSON text."""
    given = {
        "threadId": '"t1"',
        "runId": '"r1"',
        "messages": "[]",
        "forwardedProps": '{"project_dir":"/work/project"}',
    }
    pairs = (f'"{name}":{value}' for name, value in (given | members).items())
    return ("{" + ",".join(pairs) + "}").encode()


BAD: list[tuple[str, bytes, int, str, str | None]] = [
    ("nothing", b"", 400, "bad_json", None),
    ("no object", b'"hello"', 400, "bad_input", ""),
    ("cut short", body()[:-1], 400, "bad_json", None),
    ("two bodies", body() + body(), 400, "bad_json", None),
    ("a mark in front", b"\xef\xbb\xbf" + body(), 400, "bad_json", None),
    ("another encoding", body().decode().encode("utf-16"), 400, "bad_json", None),
    ("no UTF-8", body(threadId='"\xff"').replace("\xff".encode(), b"\xff"), 400, "bad_json", None),
    ("not a number", body(state="NaN"), 400, "bad_json", None),
    ("no number at all", body(state="Infinity"), 400, "bad_json", None),
    ("too large a number", body(state='{"a":1e999}'), 400, "bad_input", "state"),
    ("half a character", body(threadId='"\\ud800"'), 400, "bad_json", None),
    (
        "half a character in the folder",
        body(forwardedProps='{"project_dir":"/\\ud800"}'),
        400,
        "bad_json",
        None,
    ),
    (
        "a folder that is none",
        body(forwardedProps='{"project_dir":[]}'),
        400,
        "bad_input",
        "forwardedProps.project_dir",
    ),
    ("nested without end", body(messages=nested(100_000)), 400, "bad_json", None),
    ("a state without end", body(state=nested(100_000)), 400, "bad_json", None),
    ("a way out", body(threadId='"../../etc/passwd"'), 400, "bad_thread", "threadId"),
    ("a dot in front", body(threadId='".hidden"'), 400, "bad_thread", "threadId"),
    ("too long an id", body(threadId=f'"{"x" * 300}"'), 400, "bad_thread", "threadId"),
    ("an id of other letters", body(threadId='"dréi\U0001f600"'), 400, "bad_thread", "threadId"),
    ("an empty id", body(threadId='""'), 400, "bad_thread", "threadId"),
    ("a null in an id", body(threadId='"a\\u0000b"'), 400, "bad_thread", "threadId"),
    ("a number for a run", body(runId="7"), 400, "bad_input", "runId"),
    ("null for a run", body(runId="null"), 400, "bad_input", "runId"),
]


@pytest.mark.parametrize(
    ("what", "content", "status", "code", "path"), BAD, ids=[b[0] for b in BAD]
)
async def test_what_is_no_input_is_refused_and_nothing_is_launched(
    what: str, content: bytes, status: int, code: str, path: str | None
) -> None:
    async with a_staged_endpoint() as daemon, a_front_end(daemon) as front:
        for route in ("run", "connect"):
            got, refused = await front.refused(route, content)
            assert (got, refused["code"], refused.get("path")) == (status, code, path)
            assert refused["error"].endswith(".")
        assert daemon.stage.launches == []


async def test_of_a_member_that_comes_twice_the_last_counts_as_everywhere() -> None:
    """A reader in between that took the first one would check something else than what runs."""
    twice = body(runId='"first"', threadId='"t1"')[:-1] + b',"runId":"last","threadId":"t2"}'
    async with a_staged_endpoint() as daemon, a_front_end(daemon) as front:
        async with stream(front, twice) as (status, started):
            assert status == 200
            assert (started["threadId"], started["runId"]) == ("t2", "last")
        assert daemon.stage.launches[0][0].conversation_id == "t2"
        assert [given["runId"] for given in daemon.stage.inputs()] == ["last"]


@asynccontextmanager
async def stream(
    front: FrontEnd, content: bytes | AsyncIterator[bytes], **headers: str
) -> AsyncGenerator[tuple[int, dict[str, Any]]]:
    """The status and the first event of a run, or the refusal. Leaving the block leaves the run."""
    kinds = {"content-type": "application/json"} | headers
    url = "/agui/agent/default/run"
    async with front.http.stream("POST", url, content=content, headers=kinds) as answer:
        if answer.status_code == 200:
            body = Body(200, answer.headers, answer.aiter_raw())
            yield 200, await body.until("RUN_STARTED")
        else:
            yield answer.status_code, json.loads(await answer.aread())


async def pieces(content: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def test_a_body_in_pieces_without_a_length_is_taken_and_its_size_is_limited() -> None:
    async with a_staged_endpoint() as daemon, a_front_end(daemon) as front:
        async with stream(front, pieces(body(), 7)) as (status, _):
            assert status == 200
        too_much = pieces(b" " * (21 * MIB), MIB)
        async with stream(front, too_much) as (status, refused):
            assert (status, refused["code"]) == (413, "too_large")


async def test_a_body_of_twenty_mebibytes_is_read_and_its_input_is_too_long_for_a_worker() -> None:
    message = '{"id":"m","role":"user","content":"' + "x" * (19 * MIB) + '"}'
    async with a_staged_endpoint() as daemon, a_front_end(daemon) as front:
        status, refused = await front.refused("run", body(messages=f"[{message}]"))
        assert (status, refused["code"]) == (413, "line_too_long")
        assert daemon.stage.inputs() == []


TYPES: list[tuple[dict[str, str], int, str]] = [
    ({"content-type": "application/json"}, 200, ""),
    ({"content-type": "Application/JSON ; Charset=UTF-8"}, 200, ""),
    ({"content-type": 'application/json; charset="utf-8"'}, 200, ""),
    ({"content-type": "application/json; charset=utf-16"}, 415, "bad_type"),
    ({"content-type": "text/plain; charset=utf-8"}, 415, "bad_type"),
    ({"content-type": "text/json"}, 415, "bad_type"),
    ({"content-type": "application/json-patch+json"}, 415, "bad_type"),
    ({"content-type": "multipart/form-data; boundary=application/json"}, 415, "bad_type"),
    ({"content-type": ""}, 415, "bad_type"),
    ({"content-encoding": "identity"}, 200, ""),
    ({"content-encoding": "gzip"}, 415, "bad_encoding"),
]


async def test_only_plain_json_is_taken_and_a_packed_body_is_told_apart_from_a_broken_one() -> None:
    async with a_staged_endpoint() as daemon, a_front_end(daemon) as front:
        for number, (headers, status, code) in enumerate(TYPES):
            content = body(runId=f'"r{number}"', threadId=f'"t{number}"')
            if "gzip" in headers.values():
                content = gzip.compress(content)
            async with stream(front, content, **headers) as (got, told):
                assert (got, told.get("code", "")) == (status, code), headers


async def test_another_method_is_told_which_ones_there_are() -> None:
    async with a_staged_endpoint() as daemon, a_front_end(daemon) as front:
        for path, allowed in (
            ("agent/default/run", {"POST"}),
            ("agent/default/connect", {"POST"}),
            ("agent/default/stop/t1", {"POST"}),
            ("agent/default/capabilities", {"GET", "HEAD"}),
            ("info", {"GET", "HEAD"}),
        ):
            for method in {"GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "POST"} - allowed:
                answer = await front.http.request(method, f"/agui/{path}")
                assert answer.status_code == 405, (method, path)
                assert set(answer.headers["allow"].split(", ")) == allowed
                if method != "HEAD":
                    assert answer.json()["code"] == "bad_method"
        assert (await front.http.head("/agui/info")).status_code == 200
        assert daemon.stage.launches == []


SILLY_STOPS: list[tuple[str, bytes, int, str]] = [
    ("t1", b"{", 400, "bad_json"),
    ("t1", b"[]", 400, "bad_input"),
    ("t1", b'{"runId":7}', 400, "bad_input"),
    ("t1", b'{"forwardedProps":{"project_dir":7}}', 400, "bad_input"),
    ("t1", b'{"forwardedProps":{"project_dir":"relative"}}', 400, "bad_thread"),
    ("t1", b'{"forwardedProps":{"project_dir":"/a\\u0000"}}', 400, "bad_thread"),
    ("..%2f..%2fetc", b"{}", 404, "not_found"),
    ("%00", b"{}", 200, ""),
    ("x" * 300, b"{}", 200, ""),
    ("%F0%9F%98%80", b"{}", 200, ""),
]


async def test_a_silly_stop_stops_nothing_and_is_told_so() -> None:
    async with a_staged_endpoint() as daemon, a_front_end(daemon) as front:
        for thread, content, status, code in SILLY_STOPS:
            got, told = await front.refused(f"stop/{thread}", content)
            assert (got, told.get("code", "")) == (status, code), thread
            assert told.get("stopped", False) is False
        assert daemon.stage.launches == []


async def test_a_refused_body_leaves_the_connection_of_use() -> None:
    """A front end keeps its connection; what is left of one request must not begin the next."""
    async with a_staged_endpoint() as daemon, a_front_end(daemon) as front:
        for _ in range(3):
            status, _told = await front.refused("run", body(), authorization="Bearer no")
            assert status == 401
            status, _told = await front.refused("run", b" " * MIB, authorization="Bearer no")
            assert status == 401
        assert (await front.http.get("/agui/info")).status_code == 200
        assert daemon.registry.views() == []
