"""A client from inside a worker talks to threads below its own, and decides nothing."""

from typing import Any

import pytest
from anyio import wait_all_tasks_blocked

from sessions.domain.keys import ConversationId, ThreadKey
from tests.support.fakes import FakeClient
from tests.support.scenes import (
    PROJECT,
    READY,
    a_followed_thread,
    line,
    message,
    resume,
    run_asked,
    run_started,
    snapshot,
)

PARENT = ThreadKey(PROJECT, ConversationId("c1"))
CHILD = "subagent-c1-aaaaaaaaaaaa"
GRANDCHILD = f"subagent-{CHILD}-bbbbbbbbbbbb"


def agent() -> FakeClient:
    return FakeClient("agent", inside=PARENT)


async def test_it_may_open_a_thread_below_its_own_and_talk_to_it() -> None:
    async with a_followed_thread() as (scene, _):
        inside = agent()
        scene.opens(inside, CHILD, subagent={"parent": "c1", "depth": 1, "tools": ["Read"]})
        await wait_all_tasks_blocked()
        await scene.worker_says(READY, snapshot())
        scene.sends(inside, message())
        scene.sends(inside, line("interrupt"))
        assert inside.frames == [snapshot()]
        assert scene.worker.sent[1:] == [message(), line("interrupt")]


async def test_it_may_follow_what_its_descendants_opened() -> None:
    async with a_followed_thread() as (scene, _):
        inside, person = agent(), FakeClient("person")
        scene.opens(person, CHILD, subagent={"parent": "c1"})
        scene.opens(FakeClient(), GRANDCHILD, subagent={"parent": CHILD})
        scene.opens(inside, GRANDCHILD)
        assert inside.frames == []
        scene.opens(inside, CHILD)
        assert inside.frames == []


@pytest.mark.parametrize(
    ("conversation", "options"),
    [
        ("c1", {}),
        ("somebody-elses", {}),
        ("somebody-elses", {"subagent": {"parent": "c1"}}),
        ("subagent-other-cccccccccccc", {"subagent": {"parent": "other"}}),
        ("subagent-c1-cccccccccccc", {}),
        ("subagent-c1-cccccccccccc", {"subagent": {"parent": "other"}}),
    ],
)
async def test_it_may_open_nothing_else(conversation: str, options: dict[str, Any]) -> None:
    async with a_followed_thread() as (scene, _):
        inside = agent()
        before = len(scene.launcher.launches)
        scene.opens(inside, conversation, **options)
        await wait_all_tasks_blocked()
        (error,) = inside.take()
        assert error["code"] == "not_allowed"
        assert len(scene.launcher.launches) == before


@pytest.mark.parametrize(
    ("claimed", "because"),
    [
        ({"depth": 1, "tools": ["Read"]}, "depth 2"),
        ({"tools": ["Read"]}, "depth 2"),
        ({"depth": 2, "tools": ["Read", "Bash", "Edit"]}, "Bash, Edit"),
    ],
)
async def test_a_childs_worker_opens_nothing_with_more_than_it_has(
    claimed: dict[str, Any], because: str
) -> None:
    """Its token is all it has, and what it says of itself counts for nothing."""
    async with a_followed_thread() as (scene, _):
        child = {"parent": "c1", "depth": 1, "tools": ["Read"]}
        scene.opens(FakeClient("person"), CHILD, subagent=child)
        inside = FakeClient("child", inside=ThreadKey(PROJECT, ConversationId(CHILD)))
        scene.opens(inside, GRANDCHILD, subagent={"parent": CHILD, **claimed})
        (error,) = inside.take()
        assert error["code"] == "not_allowed"
        assert because in error["message"]
        scene.opens(inside, GRANDCHILD, subagent={"parent": CHILD, "depth": 2, "tools": ["Read"]})
        assert inside.frames == []


async def test_a_name_gives_no_right_to_a_thread_that_was_recorded_otherwise() -> None:
    async with a_followed_thread() as (scene, _):
        scene.opens(FakeClient("person"), CHILD)
        inside = agent()
        scene.opens(inside, CHILD, subagent={"parent": "c1"})
        assert inside.take()[0]["code"] == "not_allowed"


@pytest.mark.parametrize(
    "frame",
    [
        resume("t1"),
        line("approval_response", tool_call_id="t1", approved=True),
        line("user_question_response", id="q"),
        line("command", id="1", name="set_mode", args={}),
        line("set_mode", mode="auto", project_dir=PROJECT),
        line("select_model", model="m", project_dir=PROJECT),
        line("tool_request", id="1", tool_name="Bash", tool_args="{}", project_dir=PROJECT),
        line("list_conversations", project_dir=PROJECT),
    ],
)
async def test_it_decides_nothing(frame: bytes) -> None:
    async with a_followed_thread() as (scene, _):
        inside = agent()
        scene.opens(inside, CHILD, subagent={"parent": "c1", "depth": 1})
        await wait_all_tasks_blocked()
        await scene.worker_says(READY, snapshot(), run_started(), run_asked("t1"))
        inside.take()
        sent = [len(worker.sent) for worker in scene.launcher.workers]
        scene.sends(inside, frame)
        await wait_all_tasks_blocked()
        (error,) = inside.take()
        assert error["code"] == "not_allowed"
        assert "decides nothing" in error["message"]
        assert [len(worker.sent) for worker in scene.launcher.workers] == sent


async def test_it_may_stop_its_descendants_only() -> None:
    async with a_followed_thread() as (scene, _):
        inside, parent = agent(), scene.worker
        scene.opens(inside, CHILD, subagent={"parent": "c1", "depth": 1})
        await wait_all_tasks_blocked()
        scene.sends(inside, line("stop_thread", project_dir=PROJECT, id="c1"))
        assert parent.stops == []
        assert inside.take()[-1]["code"] == "not_allowed"
        child = scene.worker
        scene.sends(inside, line("stop_thread", project_dir=PROJECT, id=CHILD))
        assert child.stops == [25.0]


async def test_a_person_may_stop_a_thread_with_all_that_is_below_it() -> None:
    """Who deletes a conversation would else leave its subagents working for nobody."""
    async with a_followed_thread() as (scene, desktop):
        parent = scene.worker
        for name, above in ((CHILD, "c1"), (GRANDCHILD, CHILD), ("other", "another")):
            scene.opens(FakeClient(), name, subagent={"parent": above})
            await wait_all_tasks_blocked()
        workers = scene.launcher.workers
        scene.sends(desktop, line("stop_thread", project_dir=PROJECT, id="c1"))
        assert [len(worker.stops) for worker in workers] == [1, 0, 0, 0]
        scene.sends(desktop, line("stop_thread", project_dir=PROJECT, id="c1", subagents=True))
        assert [bool(worker.stops) for worker in workers] == [True, True, True, False]
        assert workers[0] is parent


async def test_a_subagent_that_ended_still_leads_to_its_own_subagents() -> None:
    async with a_followed_thread() as (scene, desktop):
        for name, above in ((CHILD, "c1"), (GRANDCHILD, CHILD)):
            person = FakeClient()
            scene.opens(person, name, subagent={"parent": above})
            await wait_all_tasks_blocked()
            scene.registry.detach(person)
        _, child, grandchild = scene.launcher.workers
        child.exit("was killed by SIGKILL")
        await wait_all_tasks_blocked()
        scene.sends(desktop, line("stop_thread", project_dir=PROJECT, id="c1", subagents=True))
        assert grandchild.stops
        await wait_all_tasks_blocked()
        known = {view.conversation_id for view in scene.registry.views()}
        assert known == {"c1"}, "with the last of them it is forgotten, too"


async def test_a_view_says_whose_subagent_a_thread_is() -> None:
    async with a_followed_thread() as (scene, _):
        scene.opens(FakeClient("person"), CHILD, subagent={"parent": "c1"})
        parents = {view.conversation_id: view.parent for view in scene.registry.views()}
        assert parents == {"c1": None, CHILD: "c1"}


async def test_a_token_belongs_to_its_worker_as_long_as_that_lives() -> None:
    async with a_followed_thread() as (scene, _):
        token = scene.launcher.tokens[-1]
        assert len(token) >= 32
        assert scene.registry.worker_with(token) == PARENT
        assert scene.registry.worker_with(token[:-1]) is None
        assert scene.registry.worker_with("") is None
        assert scene.registry.worker_with("\udcff") is None
        await scene.worker_dies()
        assert scene.registry.worker_with(token) is None
