"""Inputs over HTTP, against the real daemon and its own worker."""

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from agui.endpoint.refusal import refused_by
from sessions.domain.keys import ThreadKey
from tests.agui.endpoint.conftest import Served
from tests.agui.endpoint.front_end import Body, FrontEnd, a_front_end
from tests.agui.real import a_real_daemon, settled
from tests.support.stream_judge import StreamJudge


@pytest.fixture
def anyio_backend() -> str:
    """The server library runs on asyncio."""
    return "asyncio"


async def test_a_run_streams_from_its_start_to_its_end_and_the_body_ends(
    served: Served, judge: StreamJudge
) -> None:
    async with a_front_end(served) as front:
        body = await front.run("think\nread none.txt")
        assert body.status == 200
        assert body.headers["content-type"] == "text/event-stream"
        assert b"\r" not in body.raw
        assert body.types[:2] == ["RUN_STARTED", "STATE_SNAPSHOT"]
        assert body.types.count("RUN_FINISHED") == 1
        assert body.types[-1] == "RUN_FINISHED"
        assert (body.events[0]["threadId"], body.events[0]["runId"]) == (front.thread, "r1")
        assert all(body.ids), "each is in the ring, so each has its place"
        sent = [{"id": "m-r1", "role": "user", "content": "think"}]
        assert judge(body.raw, threadId=front.thread, messages=sent).problems == []


async def test_only_what_the_thread_does_not_have_is_taken_from_a_history(served: Served) -> None:
    """Clients send the whole conversation with each input."""
    async with a_front_end(served) as front:
        await front.run("hello")
        snapshot = await history(front)
        again = {"id": "m2", "role": "user", "content": "again"}
        body = await front.run(runId="r2", messages=[*snapshot, again, again])
        assert [m["id"] for m in body.events[0]["input"]["messages"]] == ["m2"]
        assert [m["id"] for m in await history(front)][: len(snapshot) + 1] == [
            *[m["id"] for m in snapshot],
            "m2",
        ]


async def history(front: FrontEnd) -> list[dict[str, Any]]:
    body = await front.connect(runId="look")
    found = next(e for e in body.events if e["type"] == "MESSAGES_SNAPSHOT")
    messages: list[dict[str, Any]] = found["messages"]
    return messages


async def test_an_input_that_comes_twice_runs_once(tmp_path: Path) -> None:
    """A client that lost its connection sends again: the agent must not do the work again."""
    async with a_real_daemon(tmp_path) as daemon, a_front_end(daemon) as front:
        await front.run("!echo once >> ran.txt")
        status, body = await front.refused("run", front.input("!echo once >> ran.txt"))
        assert (status, body["code"]) == (409, "used_run_id")
        await daemon.registry.quiesce(ThreadKey.parse(str(daemon.project), "t1"))
        status, body = await front.refused("run", front.input("!echo once >> ran.txt"))
        assert (status, body["code"]) == (409, "used_run_id"), "also after a restart of the worker"


async def test_what_waits_for_a_person_is_answered_once_and_in_whole(served: Served) -> None:
    async with a_front_end(served) as front:
        body = await front.run("run echo a > a.txt\nrun echo b > b.txt")
        asked = [i["id"] for i in body.events[-1]["outcome"]["interrupts"]]
        assert len(asked) == 2
        answers = [{"interruptId": i, "status": "resolved"} for i in asked]

        given = front.input("go on", runId="r2")
        status, refused = await front.refused("run", given)
        assert (status, refused["missing"]) == (422, sorted(asked))
        given = front.input(runId="r2", resume=answers[:1])
        status, refused = await front.refused("run", given)
        assert (status, refused["missing"]) == (422, [asked[1]])
        assert not (served.project / "a.txt").exists()

        raced: list[Body] = []

        async def answer(run_id: str) -> None:
            given = front.input(runId=run_id, resume=answers)
            async with front.streams("run", given) as body:
                await body.rest()
            raced.append(body)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer, "r2")
            tasks.start_soon(answer, "r2b")
        won, lost = sorted((body.status, body.types[-1:]) for body in raced)
        assert won == (200, ["RUN_FINISHED"])
        assert lost == (409, []), "at once, not after a wait for a run that never comes"
        assert (served.project / "b.txt").exists()
        status, refused = await front.refused("run", front.input(runId="r3", resume=answers))
        assert (status, refused["code"]) == (409, "resume_not_open")


async def test_a_second_run_is_refused_while_one_is_open_and_a_stop_ends_it(served: Served) -> None:
    async with a_front_end(served) as front:
        async with front.streams("run", front.input("slow 300")) as body:
            await body.until("TEXT_MESSAGE_CONTENT")
            status, refused = await front.refused("run", front.input("hello", runId="r2"))
            assert (status, refused["code"], refused["runId"]) == (409, "run_active", "r1")
            status, refused = await front.refused(f"stop/{front.thread}", {"runId": "another"})
            assert (status, refused["code"]) == (409, "other_run")
            status, stopped = await front.refused(f"stop/{front.thread}", {"runId": "r1"})
            assert (status, stopped) == (200, {"stopped": True})
            events = await body.rest()
        assert events[-1]["outcome"] == {"type": "cancelled"}
        assert await front.refused(f"stop/{front.thread}", {}) == (
            200,
            {"stopped": False, "message": "No run is open on this thread."},
        )


async def test_a_client_that_leaves_ends_no_run_and_finds_it_again(
    served: Served, judge: StreamJudge
) -> None:
    async with a_front_end(served) as front:
        async with front.streams("run", front.input("slow 600")) as body:
            await body.until("TEXT_MESSAGE_CONTENT", 3)
        async with front.streams("connect", front.input(runId="look")) as joined:
            await joined.until("TEXT_MESSAGE_CONTENT", 30)  # what the stand-in says first: 13
            await front.refused(f"stop/{front.thread}", {})
            events = await joined.rest()
        kinds = [event["type"] for event in events]
        assert kinds[:3] == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"]
        assert kinds[-1] == "RUN_FINISHED"
        assert events[0]["runId"] == "r1"
        assert joined.ids[-1] is not None
        assert joined.ids[:3] == [None, None, None], "the join has no place in the events"
        verdict = judge(joined.raw, threadId=front.thread)
        assert verdict.problems == []
        assert counted(verdict.messages[-1]["content"]) > 3


async def test_who_names_the_last_event_gets_exactly_what_was_missed(served: Served) -> None:
    async with a_front_end(served) as front:
        whole = await front.run("hello")
        place = whole.ids[4]
        missed = await front.connect(place)
        assert missed.events == whole.events[5:]
        assert missed.ids == whole.ids[5:]
        assert (await front.connect(whole.ids[-1])).events == []
        unknown = await front.connect("0123:4")
        assert unknown.types == [
            "RUN_STARTED",
            "STATE_SNAPSHOT",
            "MESSAGES_SNAPSHOT",
            "RUN_FINISHED",
        ]
        for nonsense in ("", "x", ":", "a:b", "a:-1", "a:99999999999999999999"):
            assert (await front.connect(nonsense)).types == unknown.types


async def test_a_reconnect_in_the_middle_of_a_run_goes_on_where_it_was_cut(
    served: Served, judge: StreamJudge
) -> None:
    async with a_front_end(served) as front:
        async with front.streams("run", front.input("slow 600")) as body:
            await body.until("TEXT_MESSAGE_CONTENT", 3)
        place = {"last-event-id": str(body.ids[-1])}
        async with front.streams("connect", front.input(), place) as rest:
            await rest.until("TEXT_MESSAGE_CONTENT", 30)  # what the stand-in says first: 13
            await front.refused(f"stop/{front.thread}", {})
            await rest.rest()
        assert rest.types[-1] == "RUN_FINISHED"
        verdict = judge(framed_up_to(body.raw) + rest.raw, threadId=front.thread)
        assert verdict.problems == []
        assert counted(verdict.messages[-1]["content"]) > 3


def counted(said: str) -> int:
    """How far a slow answer came; each word of it was told once, and none is missing."""
    words = [word for word in said.split() if word.startswith("word")]
    assert words == [f"word{n}" for n in range(1, len(words) + 1)]
    return len(words)


def framed_up_to(raw: bytes) -> bytes:
    """The whole events of a body that was cut."""
    return raw[: raw.rindex(b"\n\n") + 2]


async def test_a_thread_that_waits_is_told_as_its_run_with_what_it_waits_for(
    served: Served,
) -> None:
    async with a_front_end(served) as front:
        asked = (await front.run("run echo a")).events[-1]["outcome"]
        told = await front.connect(runId="look")
        assert told.types[0] == "RUN_STARTED"
        assert told.events[-1]["outcome"] == asked
        assert (told.events[0]["runId"], told.events[-1]["runId"]) == ("r1", "r1")
        new = await front.connect(runId="look", threadId=f"{front.thread}-never-seen")
        assert new.types[-1] == "RUN_FINISHED"
        assert new.events[-1]["runId"] == "look"
        assert next(e for e in new.events if e["type"] == "MESSAGES_SNAPSHOT")["messages"] == []


async def test_a_client_of_before_1_0_is_sent_nothing_that_it_refuses(served: Served) -> None:
    async with a_front_end(served) as front:
        tools = [{"name": "paint", "description": "Paints."}]
        body = await front.run("use paint {}", protocolVersion=None, tools=tools)
        assert body.events[-1]["outcome"] == {"type": "success"}
        new = await front.run("use paint {}", runId="r2", tools=tools)
        assert len(new.events[-1]["outcome"]["pendingToolCallIds"]) == 1
        given = front.input("slow 300", runId="r3", protocolVersion=None)
        async with front.streams("run", given) as cut:
            await cut.until("TEXT_MESSAGE_CONTENT")
            await front.refused(f"stop/{front.thread}", {})
            end = (await cut.rest())[-1]
        assert "outcome" not in end
        assert end["metadata"] == {"roost.cancelled": True}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"threadId": None}, ""),
    ({"threadId": 7}, "threadId"),
    ({"threadId": ".."}, "threadId"),
    ({"runId": None}, ""),
    ({"messages": {}}, "messages"),
    ({"messages": [{"id": "a", "role": "user"}]}, "messages[0]"),
    ({"messages": [{"id": 1, "role": "user", "content": ""}]}, "messages[0]"),
    ({"tools": [{"name": "x"}]}, "tools[0]"),
    ({"resume": [{"interruptId": "a", "status": "maybe"}]}, "resume[0].status"),
    ({"forwardedProps": {}}, "forwardedProps.project_dir"),
    ({"forwardedProps": {"project_dir": 7}}, "forwardedProps.project_dir"),
    ({"forwardedProps": {"project_dir": "relative"}}, "forwardedProps.project_dir"),
]


async def test_a_wrong_input_is_refused_with_the_path_of_what_is_wrong(tmp_path: Path) -> None:
    async with a_real_daemon(tmp_path) as daemon, a_front_end(daemon) as front:
        for changed, path in WRONG:
            got, refused = await front.refused("run", front.input("hello", **changed))
            assert (got, refused["path"]) == (400, path), changed
        assert daemon.registry.views() == [], "nothing was launched"


async def test_other_refusals_have_their_status_and_a_sentence(served: Served) -> None:
    async with a_front_end(served) as front:
        good = front.input("hello")
        cases: list[tuple[tuple[int, dict[str, Any]], int, str]] = [
            (await front.refused("run", b"{"), 400, "bad_json"),
            (await front.refused("run", b"[]"), 400, "bad_input"),
            (await front.refused("run", good, authorization="Bearer no"), 401, "bad_token"),
            (await front.refused("../nobody/run", good), 404, "unknown_agent"),
            (await front.refused("run", good, **{"content-type": "text/plain"}), 415, "bad_type"),
            (await front.refused("run", b" " * (21 * 2**20)), 413, "too_large"),
            (await front.refused("run", good, origin="https://evil.example"), 403, "bad_origin"),
        ]
        for (got, body), status, code in cases:
            assert (got, body["code"]) == (status, code)
            assert body["error"]
        served.project.rmdir()
        got, body = await front.refused("run", good)
        assert (got, body["code"]) == (503, "launch_failed")
        assert str(served.project) in body["error"]


async def test_the_agents_of_the_settings_can_be_named(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    settings = {
        "ROOST_AGENTS__REVIEW__PROJECT_DIR": str(folder),
        "ROOST_AGENTS__REVIEW__MODE": "auto",
        "ROOST_AGENTS__REVIEW__DESCRIPTION": "Reviews.",
    }
    async with a_real_daemon(tmp_path, **settings) as daemon, a_front_end(daemon) as front:
        info = (await front.http.get("/agui/info")).json()
        assert list(info["agents"]) == ["default", "review"]
        assert info["agents"]["review"]["description"] == "Reviews."
        told = (await front.http.get("/agui/agent/review/capabilities")).json()
        assert told == info["agents"]["review"]["capabilities"]
        review = FrontEnd(front.http, "", "review")
        body = await review.run("run echo it ran > ran.txt", forwardedProps={})
        assert body.types[-1] == "RUN_FINISHED"
        assert (folder / "ran.txt").exists(), "its mode asks nobody"


async def test_a_stop_that_could_mean_two_threads_asks_which(served: Served) -> None:
    async with a_front_end(served) as front:
        other = served.project.with_name("other")
        other.mkdir()
        elsewhere = FrontEnd(front.http, str(other), thread=front.thread)
        async with front.streams("run", front.input("slow 300")) as one:
            await one.until("TEXT_MESSAGE_CONTENT")
            await elsewhere.run("hello")
            status, refused = await front.refused(f"stop/{front.thread}", {})
            assert (status, refused["code"]) == (409, "ambiguous_thread")
            named = {"forwardedProps": {"project_dir": front.project}}
            assert (await front.refused(f"stop/{front.thread}", named))[1] == {"stopped": True}
            assert (await one.rest())[-1]["outcome"] == {"type": "cancelled"}


async def test_a_run_is_seen_by_whoever_follows_on_the_websocket(tmp_path: Path) -> None:
    async with (
        a_real_daemon(tmp_path) as daemon,
        a_front_end(daemon) as front,
        daemon.client() as desktop,
    ):
        mark = await daemon.follows(desktop, "t1")
        body = await front.run("hello")
        await settled(desktop)
        seen = [e for e in desktop.events[mark:] if e["type"].isupper()]
        kinds = [e["type"] for e in seen if e["type"] != "MESSAGES_SNAPSHOT"]
        assert kinds == body.types


async def test_the_daemon_ends_open_streams_when_it_stops(tmp_path: Path) -> None:
    """A body that ends without an end of its run is a success for nobody, and no hang either."""
    async with AsyncExitStack() as kept:
        async with a_real_daemon(tmp_path) as daemon:
            front = await kept.enter_async_context(a_front_end(daemon))
            body = await kept.enter_async_context(front.streams("run", front.input("slow 300")))
            await body.until("TEXT_MESSAGE_CONTENT")
        events = await body.rest()
    assert events[-1]["type"] not in ("RUN_FINISHED", "RUN_ERROR")


def test_an_error_body_is_json_of_one_sentence_and_one_word() -> None:
    refused = refused_by("too_many_waiting", "256 requests wait.")
    assert (refused.status, refused.headers["retry-after"]) == (429, "5")
    assert json.loads(json.dumps(refused.body)) == {
        "error": "256 requests wait.",
        "code": "too_many_waiting",
    }
    assert refused_by(None, "x").status == 503
