"""What was chosen (the model, the mode, how much it thinks) is in the conversation and stays."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from agent.domain.entries import Choice
from agent.equipment import Equipment
from tests.agent.support.fakes import FakeHistory, Line
from tests.agent.support.scene import Scene, one_session, says


def launched(**given: str) -> Callable[[Equipment], Equipment]:
    options: dict[Choice, str] = {}
    for what in ("model", "mode", "thinking"):
        if what in given:
            options[what] = given[what]
    return lambda equipment: replace(equipment, given=options)


def one_task(**given: str) -> Callable[[Equipment], Equipment]:
    return lambda equipment: replace(launched(**given)(equipment), is_one_task=True)


async def command(scene: Scene, name: str, **args: object) -> Line:
    start = len(scene.lines.lines)
    await scene.send(type="command", id="x", name=name, args=args)
    return await scene.lines.wait_for(lambda line: line["type"] == "command_result", start)


async def state(scene: Scene) -> tuple[object, object, object]:
    data = (await command(scene, "get_state"))["data"]
    assert isinstance(data, dict)
    return data["model"], data["mode"], data["thinking"]  # pyright: ignore[reportUnknownVariableType]


async def test_choices_are_there_after_a_kill() -> None:
    history = FakeHistory()
    async with one_session(history=history) as scene:
        assert (await command(scene, "set_model", model="fake:two"))["success"] is True
        assert (await command(scene, "set_mode", mode="plan"))["success"] is True
        assert (await command(scene, "set_thinking", level="high"))["success"] is True
        history.lines = history.lines[: history.synced]
    async with one_session(history=history) as scene:
        assert await state(scene) == ("fake:two", "plan", "high")
        await command(scene, "set_thinking", level=None)
    async with one_session(history=history) as scene:
        assert await state(scene) == ("fake:two", "plan", None)


async def test_a_relaunch_with_the_same_options_does_not_undo_a_choice() -> None:
    """Who is hurt: who set `plan`, left, and came back to an agent that changes files."""
    history = FakeHistory()
    async with one_session(says("a"), history=history, equip=launched(mode="auto")) as scene:
        assert (await state(scene))[1] == "auto"
        await scene.turn("1", "m1")
        await command(scene, "set_mode", mode="plan")
    async with one_session(history=history, equip=launched(mode="auto")) as scene:
        assert (await state(scene))[1] == "plan"


async def test_a_launch_that_says_something_new_is_a_choice() -> None:
    history = FakeHistory()
    async with one_session(says("a"), history=history, equip=launched(mode="auto")) as scene:
        await command(scene, "set_mode", mode="plan")
    async with one_session(says("a"), history=history, equip=launched(mode="standard")) as scene:
        assert (await state(scene))[1] == "standard"
        await scene.turn("1", "m1")
    async with one_session(history=history) as scene:
        assert (await state(scene))[1] == "standard"


async def test_a_worker_that_was_only_looked_at_leaves_no_trace() -> None:
    history = FakeHistory()
    async with one_session(history=history, equip=launched(mode="auto")) as scene:
        await scene.snapshot()
    assert history.lines == []


async def test_what_one_task_was_told_is_for_that_task_only() -> None:
    history = FakeHistory()
    async with one_session(says("a"), history=history) as scene:
        await command(scene, "set_mode", mode="plan")
    async with one_session(says("a"), history=history, equip=one_task(mode="auto")) as scene:
        assert (await state(scene))[1] == "auto"
        await scene.turn("1", "m1")
    async with one_session(history=history) as scene:
        assert (await state(scene))[1] == "plan"


async def test_what_is_chosen_during_a_task_counts_more_than_what_it_was_told_before() -> None:
    """Who is hurt: who gave `--mode plan` again with `--approve`, and read that the plan is
    carried out while every change was refused. The same mode may have been chosen once before."""
    history = FakeHistory()
    async with one_session(history=history) as scene:
        await command(scene, "set_mode", mode="standard")
    async with one_session(says("a"), history=history, equip=one_task(mode="plan")) as scene:
        assert (await state(scene))[1] == "plan"
        await command(scene, "set_mode", mode="standard")
        assert (await state(scene))[1] == "standard"


async def test_whether_room_is_made_by_itself_is_there_after_a_kill() -> None:
    history = FakeHistory()
    async with one_session(history=history) as scene:
        assert (await command(scene, "set_auto_compaction", enabled=False))["success"] is True
        history.lines = history.lines[: history.synced]
    async with one_session(history=history) as scene:
        told = (await command(scene, "get_state"))["data"]
        assert isinstance(told, dict)
        assert told["autoCompaction"] is False


async def test_a_model_that_is_not_there_any_more_is_not_chosen_any_more() -> None:
    history = FakeHistory()
    async with one_session(history=history) as scene:
        await command(scene, "set_model", model="fake:two")
        history.lines = [line.replace(b"fake:two", b"gone:two") for line in history.lines]
    async with one_session(history=history) as scene:
        assert (await state(scene))[0] == "fake:one"
        assert "choice_ignored" in scene.log.names()


async def test_a_choice_that_can_not_be_recorded_is_not_made() -> None:
    async with one_session() as scene:
        scene.history.is_full = True
        told = await command(scene, "set_mode", mode="auto")
        assert (told["success"], told["code"]) == (False, "history")
        assert (await state(scene))[1] == "standard"
        await scene.send(type="set_mode", mode="auto")
        shown = await scene.lines.wait_for(lambda line: line["type"] == "mode")
        assert shown["mode"] == "standard"


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("set_model", {"model": "nonsense"}),
        ("set_model", {}),
        ("set_mode", {"mode": "yolo"}),
        ("set_mode", {"mode": 3}),
        ("set_thinking", {"level": "very"}),
        ("set_thinking", {"level": 3}),
    ],
)
async def test_what_can_not_be_chosen_is_said_and_changes_nothing(
    name: str, args: dict[str, object]
) -> None:
    async with one_session() as scene:
        told = await command(scene, name, **args)
        assert (told["success"], told["code"]) == (False, "bad_arguments")
        assert scene.history.lines == []


async def test_the_list_has_the_default_first_whatever_is_chosen() -> None:
    async with one_session() as scene:
        await command(scene, "set_model", model="fake:two")
        listed = (await command(scene, "list_models"))["data"]
        assert listed == {"models": ["fake:one", "fake:two"], "current": "fake:two"}
        await scene.send(type="list_models")
        told = await scene.lines.wait_for(lambda line: line["type"] == "models")
        assert told["models"] == ["fake:one", "fake:two"]
