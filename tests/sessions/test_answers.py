"""Decision 4: an answer is taken once, from anywhere, and survives the worker that asked."""

from anyio import wait_all_tasks_blocked

from tests.support.fakes import FakeClient
from tests.support.scenes import (
    READY,
    a_followed_thread,
    a_registry,
    line,
    message,
    resume,
    run_asked,
    run_finished,
    run_started,
    snapshot,
)


def ready_suspended(*interrupts: str) -> bytes:
    return READY[:-1] + b',"suspended":' + run_asked(*interrupts) + b"}"


async def test_the_first_complete_answer_goes_to_the_worker_and_later_ones_are_dropped() -> None:
    async with a_followed_thread() as (scene, desktop):
        phone = FakeClient("phone")
        await scene.follows(phone)
        await scene.worker_says(run_started(), run_asked("t1"))
        desktop.take()
        phone.take()
        sent = len(scene.worker.sent)
        scene.sends(phone, resume("t1"))
        scene.sends(desktop, resume("t1", status="cancelled", messages=("lost with it",)))
        assert scene.worker.sent[sent:] == [resume("t1")]
        assert desktop.frames == phone.frames == []
        await scene.worker_says(run_started("r2"))
        assert desktop.frames == phone.frames == [run_started("r2")]
        scene.sends(desktop, resume("t1"))
        assert scene.worker.sent[sent:] == [resume("t1")]


async def test_an_answer_that_misses_some_is_refused_by_name_and_all_stay_open() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), run_asked("b", "c", "a"))
        desktop.take()
        sent = len(scene.worker.sent)
        scene.sends(desktop, resume("b"))
        (error,) = desktop.take()
        assert "runId" not in error
        assert "missing" in error["message"]
        assert "a, c" in error["message"]
        assert len(scene.worker.sent) == sent
        scene.sends(desktop, resume("a", "b", "c", "unknown"))
        assert len(scene.worker.sent) == sent + 1


async def test_a_message_without_answers_goes_to_the_worker_while_it_waits() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), run_asked("t1"))
        scene.sends(desktop, message())
        scene.sends(desktop, resume())
        assert scene.worker.sent[-2:] == [message(), resume()]


async def test_an_answer_when_nothing_is_open_is_dropped_with_its_messages() -> None:
    async with a_followed_thread() as (scene, desktop):
        sent = len(scene.worker.sent)
        scene.sends(desktop, resume("t1", messages=("hello",)))
        assert len(scene.worker.sent) == sent
        assert desktop.frames == []


async def test_the_interrupts_survive_the_worker_and_the_answer_relaunches_it() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), run_asked("t1"))
        await scene.worker_dies()
        desktop.take()
        scene.sends(desktop, resume("t1"))
        await wait_all_tasks_blocked()
        await scene.worker_says(ready_suspended("t1"))
        assert scene.worker.sent == [resume("t1")]


async def test_an_answer_right_behind_the_open_is_judged_by_the_ready_line() -> None:
    """A daemon that was restarted knows of no interrupt until the worker tells it."""
    async with a_registry() as scene:
        client = FakeClient()
        scene.opens(client)
        scene.sends(client, resume("t1"))
        scene.sends(client, resume("t1", status="cancelled"))
        await wait_all_tasks_blocked()
        await scene.worker_says(ready_suspended("t1"))
        assert scene.worker.sent_types == ["resume_conversation", "run_agent_input"]
        await scene.worker_says(snapshot())
        assert client.frames == [snapshot(), run_asked("t1")]


async def test_the_ready_line_tells_when_nothing_waits_any_more() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), run_asked("t1"))
        await scene.worker_dies()
        desktop.take()
        scene.sends(desktop, resume("t1"))
        await wait_all_tasks_blocked()
        await scene.worker_says(READY)
        assert scene.worker.sent == []


async def test_an_exit_before_the_continuation_reopens_and_tells_the_answerer_alone() -> None:
    async with a_followed_thread() as (scene, desktop):
        phone = FakeClient("phone")
        await scene.follows(phone)
        await scene.worker_says(run_started(), run_asked("t1"))
        scene.sends(phone, resume("t1"))
        desktop.take()
        phone.take()
        await scene.worker_dies()
        (error,) = phone.take()
        assert "runId" not in error
        assert desktop.frames == []
        scene.sends(desktop, resume("t1"))
        await wait_all_tasks_blocked()
        await scene.worker_says(ready_suspended("t1"))
        assert scene.worker.sent == [resume("t1")]


async def test_a_bare_error_before_the_continuation_reopens() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), run_asked("t1"))
        scene.sends(desktop, resume("t1"))
        await scene.worker_says(line("RUN_ERROR", message="no model"))
        sent = len(scene.worker.sent)
        scene.sends(desktop, resume("t1"))
        assert len(scene.worker.sent) == sent + 1


async def test_an_answer_that_the_worker_could_not_take_leaves_the_interrupts_open() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), run_asked("t1"))
        scene.worker.refuses = "it does not read"
        scene.sends(desktop, resume("t1"))
        scene.worker.refuses = None
        scene.sends(desktop, resume("t1"))
        assert scene.worker.sent[-1] == resume("t1")


async def test_a_failed_launch_leaves_the_interrupts_open_and_tells_the_answerer() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), run_asked("t1"))
        await scene.worker_dies()
        desktop.take()
        scene.launcher.fails_with = "no more processes"
        scene.sends(desktop, resume("t1"))
        await wait_all_tasks_blocked()
        assert ["no more processes" in e["message"] for e in desktop.take()] == [True]
        scene.launcher.fails_with = None
        scene.sends(desktop, resume("t1"))
        await wait_all_tasks_blocked()
        await scene.worker_says(ready_suspended("t1"))
        assert scene.worker.sent == [resume("t1")]


async def test_a_foreign_workers_interrupts_end_with_it() -> None:
    settings = {"announces_ready": False, "durable_interrupts": False}
    async with a_registry(**settings) as scene:
        client = FakeClient()
        scene.opens(client)
        await wait_all_tasks_blocked()
        await scene.worker_says(snapshot(), run_started(), run_asked("t1"))
        await scene.worker_dies()
        client.take()
        scene.sends(client, resume("t1"))
        await wait_all_tasks_blocked()
        assert scene.worker.sent == [] or scene.worker.sent[-1] != resume("t1")
        assert all(resume("t1") not in worker.sent for worker in scene.launcher.workers)


async def test_a_run_that_goes_on_by_itself_closes_the_interrupts() -> None:
    async with a_followed_thread() as (scene, desktop):
        await scene.worker_says(run_started(), run_asked("t1"), run_started("r2"))
        sent = len(scene.worker.sent)
        scene.sends(desktop, resume("t1"))
        assert len(scene.worker.sent) == sent
        await scene.worker_says(run_finished("r2"))
        phone = FakeClient("phone")
        await scene.follows(phone)
        assert phone.frames == []
