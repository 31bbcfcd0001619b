"""Who is answered: exactly the chats in the list, and in a group only the people in it."""

import pytest
from structlog.testing import capture_logs

from roost.channels.domain.messages import ChatId
from tests.channels.fakes import PERSON
from tests.channels.scenes import a_chat
from tests.support.time import virtual_time

pytestmark = virtual_time
GROUP = ChatId(-1_000_000_000_777)


@pytest.mark.parametrize(
    "allowed", [frozenset[int](), frozenset({PERSON + 1, -PERSON, 100, 10011})]
)
async def test_a_stranger_is_logged_and_not_answered(allowed: frozenset[int]) -> None:
    """An empty list means nobody."""
    with capture_logs() as logs:
        async with a_chat(allowed=allowed) as scene:
            scene.service.writes("run rm -rf /")
            scene.service.writes("/help")
            await scene.settles()
            assert scene.service.texts() == []
            assert scene.agents.frames == []
    ignored = [entry for entry in logs if entry["event"] == "stranger_ignored"]
    assert [entry["chat"] for entry in ignored] == [PERSON, PERSON]
    assert "rm -rf" not in str(logs)


async def test_a_stranger_can_not_press_a_button_either() -> None:
    async with a_chat(allowed=frozenset({PERSON, GROUP})) as scene:
        asked = await scene.says("ask for something")
        scene.service.chats[GROUP].append(asked)
        scene.service.presses("Approve", asked, chat=GROUP)
        await scene.settles()
        assert scene.talk().resumes == []
        assert scene.service.acknowledged == []


async def test_in_a_group_the_group_and_the_person_must_be_allowed() -> None:
    async with a_chat(allowed=frozenset({PERSON, GROUP})) as scene:
        scene.service.writes("from a stranger", chat=GROUP, person=666)
        scene.service.writes("from nobody in particular", chat=GROUP, person=GROUP)
        scene.service.writes("from Ada", chat=GROUP, person=PERSON)
        await scene.settles()
        assert scene.talk(f"test-{GROUP}").taken == ["from nobody in particular", "from Ada"]


async def test_a_person_who_is_allowed_alone_is_not_answered_in_another_group() -> None:
    async with a_chat(allowed=frozenset({PERSON})) as scene:
        scene.service.writes("hello", chat=GROUP, person=PERSON)
        await scene.settles()
        assert scene.service.texts(GROUP) == []
