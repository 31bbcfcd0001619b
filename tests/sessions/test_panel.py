"""Decisions 5 and 6: panel requests find a worker, and their replies find who asked."""

import json
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from tests.support.fakes import FakeClient
from tests.support.scenes import (
    PROJECT,
    READY,
    a_followed_thread,
    a_registry,
    line,
    run_started,
    snapshot,
)
from tests.support.time import MINUTE, virtual_time


def ask(kind: str, **fields: Any) -> bytes:
    return line(kind, project_dir=PROJECT, **fields)


def tool_request(id_: str, **fields: Any) -> bytes:
    return ask("tool_request", id=id_, tool_name="Bash", tool_args="{}", **fields)


def tool_result(id_: str) -> bytes:
    return line("tool_result", id=id_, success=True, output="", error="")


def approval_request(id_: str) -> bytes:
    value = {"type": "tool", "tool_name": "Bash", "tool_args": "{}", "tool_call_id": id_}
    return line("CUSTOM", name="approval_request", value=value)


def approval(id_: str, *, approved: bool = True) -> bytes:
    return line("approval_response", tool_call_id=id_, approved=approved)


async def test_a_request_uses_the_worker_that_its_project_has_and_answers_who_asked() -> None:
    async with a_followed_thread() as (scene, desktop):
        panel = FakeClient("panel")
        scene.sends(panel, ask("list_conversations"))
        reply = line("conversations", conversations=[])
        await scene.worker_says(reply)
        assert scene.worker.sent[-1] == ask("list_conversations")
        assert len(scene.launcher.workers) == 1
        assert panel.frames == [reply]
        assert desktop.frames == []


async def test_without_a_worker_in_the_project_a_fresh_one_answers_and_idles_out() -> None:
    async with a_registry() as scene:
        panel = FakeClient("panel")
        scene.sends(panel, ask("list_models"))
        await wait_all_tasks_blocked()
        await scene.worker_says(READY, line("models", models=["m"]))
        assert panel.types == ["models"]
        (view,) = scene.registry.views()
        assert view.followers == 0
        assert view.project_dir == PROJECT


@virtual_time
async def test_the_fresh_worker_is_stopped_when_it_has_answered() -> None:
    async with a_registry() as scene:
        panel = FakeClient("panel")
        scene.sends(panel, ask("list_models"))
        await wait_all_tasks_blocked()
        await scene.worker_says(READY, line("models", models=["m"]))
        await anyio.sleep(11 * MINUTE)
        assert scene.worker.stops == [25.0]
        assert scene.registry.views() == []


@virtual_time
async def test_a_request_that_waits_keeps_the_worker() -> None:
    async with a_registry() as scene:
        scene.sends(FakeClient("panel"), tool_request("t1"))
        await wait_all_tasks_blocked()
        await scene.worker_says(READY)
        await anyio.sleep(60 * MINUTE)
        assert scene.worker.stops == []


async def test_ones_own_thread_is_asked_first_and_is_meant_without_a_project() -> None:
    async with a_followed_thread() as (scene, _):
        own = FakeClient("own")
        await scene.follows(own, "c2")
        scene.sends(own, ask("list_models"))
        scene.sends(own, line("set_mode", mode="plan"))
        assert scene.launcher.workers[1].sent_types[-2:] == ["list_models", "set_mode"]
        elsewhere = FakeClient("elsewhere")
        scene.opens(elsewhere, project="/other")
        await wait_all_tasks_blocked()
        before = len(scene.launcher.workers)
        scene.sends(elsewhere, ask("list_skills"))
        assert len(scene.launcher.workers) == before
        assert scene.launcher.workers[0].sent_types[-1] == "list_skills"


async def test_a_request_without_project_and_thread_is_one_clear_error() -> None:
    async with a_registry() as scene:
        panel = FakeClient("panel")
        scene.sends(panel, line("list_models"))
        assert "open a thread" in panel.take()[0]["message"]
        scene.sends(panel, line("list_models", project_dir="relative"))
        assert "absolute path" in panel.take()[0]["message"]
        scene.sends(panel, line("tool_request", project_dir=PROJECT))
        assert "id" in panel.take()[0]["message"]
        await wait_all_tasks_blocked()
        assert scene.launcher.launches == []


async def test_replies_of_one_kind_go_to_those_who_asked_in_their_order() -> None:
    async with a_followed_thread() as (scene, desktop):
        first, second = FakeClient("first"), FakeClient("second")
        scene.sends(first, ask("list_models"))
        scene.sends(second, ask("select_model", model="m"))
        await scene.worker_says(
            line("models", models=["a"]), line("models", models=["b"]), line("mode", mode="plan")
        )
        assert first.events == [{"type": "models", "models": ["a"]}]
        assert second.types == ["models", "mode"]
        assert desktop.frames == []


async def test_tool_results_are_matched_by_their_id() -> None:
    async with a_followed_thread() as (scene, desktop):
        first, second = FakeClient("first"), FakeClient("second")
        scene.sends(first, tool_request("t1"))
        scene.sends(second, tool_request("t2"))
        await scene.worker_says(tool_result("t2"), tool_result("t1"), tool_result("t9"))
        assert first.frames == [tool_result("t1")]
        assert second.frames == [tool_result("t2")]
        assert desktop.frames == []


async def test_a_reply_that_nobody_asked_for_goes_to_every_follower() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(line("mode", mode="plan"))
        assert desktop.types == ["mode"]


async def test_the_reply_of_a_requester_that_left_is_dropped() -> None:
    async with a_followed_thread() as (scene, desktop):
        gone, panel = FakeClient("gone"), FakeClient("panel")
        scene.sends(gone, ask("list_models"))
        scene.sends(panel, ask("list_models"))
        scene.registry.detach(gone)
        await scene.worker_says(line("models", models=["a"]), line("models", models=["b"]))
        assert gone.frames == desktop.frames == []
        assert panel.events == [{"type": "models", "models": ["b"]}]


@virtual_time
async def test_a_request_without_a_reply_is_answered_after_ninety_seconds() -> None:
    async with a_followed_thread() as (scene, desktop):
        panel = FakeClient("panel")
        scene.sends(panel, ask("list_models"))
        await anyio.sleep(91)
        assert "90 s" in panel.take()[0]["message"]
        await scene.worker_says(line("models", models=["late"]))
        assert panel.frames == desktop.frames == []


@pytest.mark.parametrize("dies", ["before it is ready", "after"])
async def test_a_worker_that_dies_answers_requests_as_their_kind_is_answered(dies: str) -> None:
    async with a_registry() as scene:
        panel = FakeClient("panel")
        scene.sends(panel, tool_request("t1"))
        scene.sends(panel, ask("list_models"))
        await wait_all_tasks_blocked()
        if dies == "after":
            await scene.worker_says(READY)
        await scene.worker_dies()
        result, error = panel.take()
        assert (result["type"], result["id"], result["success"]) == ("tool_result", "t1", False)
        assert error["type"] == "RUN_ERROR"
        assert "runId" not in error
        assert "exited before it answered" in error["message"]


async def test_a_failed_launch_answers_every_request() -> None:
    async with a_registry() as scene:
        scene.launcher.fails_with = "no such directory"
        first, second = FakeClient("first"), FakeClient("second")
        scene.sends(first, ask("list_models"))
        scene.sends(second, ask("list_skills"))
        await wait_all_tasks_blocked()
        for client in (first, second):
            assert "no such directory" in client.take()[0]["message"]


async def test_the_question_about_a_tool_request_reaches_its_requester_only() -> None:
    async with a_followed_thread() as (scene, desktop):
        panel = FakeClient("panel")
        scene.sends(panel, tool_request("t1"))
        await scene.worker_says(approval_request("t1"))
        assert panel.frames == [approval_request("t1")]
        assert desktop.frames == []
        scene.sends(panel, approval("t1"))
        assert scene.worker.sent[-1] == approval("t1")
        await scene.worker_says(tool_result("t1"))
        assert panel.frames[1:] == [tool_result("t1")]


async def test_the_first_decision_counts_and_who_else_saw_the_question_is_told() -> None:
    async with a_followed_thread() as (scene, desktop):
        phone, gone = FakeClient("phone"), FakeClient("gone")
        await scene.follows(phone)
        scene.sends(gone, tool_request("t1"))
        scene.registry.detach(gone)
        await scene.worker_says(approval_request("t1"))
        assert desktop.frames == phone.frames == [approval_request("t1")]
        sent = len(scene.worker.sent)
        scene.sends(phone, approval("t1", approved=False))
        scene.sends(desktop, approval("t1", approved=True))
        assert scene.worker.sent[sent:] == [approval("t1", approved=False)]
        assert phone.frames == [approval_request("t1")]
        resolved = desktop.events[1]
        assert resolved["name"] == "approval_resolved"
        assert resolved["value"] == {"tool_call_id": "t1", "approved": False}
        assert len(desktop.frames) == 2


async def test_a_decision_that_nothing_waits_for_is_dropped() -> None:
    async with a_followed_thread() as (scene, desktop):
        sent = len(scene.worker.sent)
        scene.sends(desktop, approval("unknown"))
        scene.sends(desktop, tool_request("t1"))
        await scene.worker_says(approval_request("t1"), tool_result("t1"))
        desktop.take()
        scene.sends(desktop, approval("t1"))
        assert desktop.frames == []
        assert len(scene.worker.sent) == sent + 1


async def test_a_decision_the_worker_could_not_take_stays_open() -> None:
    async with a_followed_thread() as (scene, desktop):
        scene.sends(desktop, tool_request("t1"))
        await scene.worker_says(approval_request("t1"))
        desktop.take()
        scene.worker.refuses = "it does not read"
        scene.sends(desktop, approval("t1"))
        assert "does not read" in desktop.take()[0]["message"]
        scene.worker.refuses = None
        scene.sends(desktop, approval("t1"))
        assert scene.worker.sent[-1] == approval("t1")


async def test_another_custom_event_is_an_event() -> None:
    async with a_followed_thread() as (scene, desktop):
        text = line("CUSTOM", name="x", value='"approval_request"')
        await scene.worker_says(run_started(), text)
        assert desktop.frames[-1] == text


async def test_an_answer_is_exempt_from_the_limits_and_has_no_place_in_the_events() -> None:
    async with a_followed_thread() as (scene, desktop):
        scene.sends(desktop, ask("list_models"))
        await scene.worker_says(line("models", models=[]), snapshot())
        (_, none), (_, cursor) = desktop.received
        assert none is None
        assert cursor is not None
        assert json.loads(desktop.frames[0])["type"] == "models"


async def test_a_question_does_not_outlive_its_worker() -> None:
    async with a_followed_thread() as (scene, desktop):
        scene.sends(desktop, tool_request("t1"))
        await scene.worker_says(approval_request("t1"))
        await scene.worker_dies()
        await scene.follows(desktop)
        sent = len(scene.worker.sent)
        scene.sends(desktop, approval("t1"))
        assert len(scene.worker.sent) == sent


async def test_who_saw_a_question_and_left_is_told_nothing_more() -> None:
    async with a_followed_thread() as (scene, desktop):
        phone = FakeClient("phone")
        await scene.follows(phone)
        await scene.worker_says(approval_request("t1"))
        scene.registry.detach(phone)
        phone.take()
        scene.sends(desktop, approval("t1"))
        assert phone.frames == []


async def test_who_waits_for_two_things_hears_of_an_exit_once() -> None:
    async with a_followed_thread() as (scene, _):
        phone = FakeClient("phone")
        scene.opens(phone)
        scene.sends(phone, ask("list_models"))
        scene.sends(phone, ask("list_skills"))
        await wait_all_tasks_blocked()
        await scene.worker_dies()
        assert phone.types == ["RUN_ERROR"]
