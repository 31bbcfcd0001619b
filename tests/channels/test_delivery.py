"""Delivery to a chat: in order, at the service's pace, and without slowing anybody."""

import anyio
from structlog.testing import capture_logs

from roost.channels.domain.messages import InFile
from roost.channels.domain.ports import Limits
from tests.channels.fakes import PERSON, FakeMessaging, Weather
from tests.channels.scenes import a_chat, a_scene
from tests.support.scenes import message
from tests.support.time import HOUR, MINUTE, virtual_time

pytestmark = virtual_time


async def test_requests_for_one_chat_keep_their_distance() -> None:
    service = FakeMessaging(Limits(pause=1.05, growth_pause=2.5))
    async with a_chat(service=service) as scene:
        scene.agents.slow = 30.0
        before = service.requests
        scene.service.writes("one")
        await anyio.sleep(40)
        # In 30 s of growth: a message, and an edit each 2.5 s at most.
        assert 3 <= service.requests - before <= 16
        assert service.texts() == ["answer to one"]


async def test_a_service_without_edits_gets_each_text_once_and_whole() -> None:
    service = FakeMessaging(Limits(edits=False, buttons=False))
    async with a_chat(service=service) as scene:
        scene.agents.slow = 30.0
        await scene.says("one", unsupported=None)
        await scene.settles()
        assert service.texts() == ["answer to one"]


async def test_a_message_that_is_refused_for_good_holds_up_nothing() -> None:
    async with a_chat() as scene:
        scene.service.refuses.add("unlucky")
        scene.service.writes("unlucky")
        await scene.settles()
        await scene.says("hello")
        assert scene.service.texts() == ["answer to hello"]


async def test_an_hour_without_network_loses_nothing() -> None:
    async with a_chat() as scene:
        other = await scene.elsewhere()
        await scene.says("hello")
        scene.service.weather.is_down = True
        await anyio.sleep(MINUTE)
        other.sends(message("overnight", "u9"))
        scene.service.writes("typed on the train")
        await anyio.sleep(HOUR)
        assert scene.reports.last.status == "unreachable"
        assert scene.reports.last.waiting == 1
        scene.service.weather.is_down = False
        await anyio.sleep(5 * MINUTE)
        assert scene.reports.last.status == "connected"
        assert scene.service.texts() == [
            "answer to hello", "answer to overnight", "answer to typed on the train",
        ]  # fmt: skip


async def test_a_chat_that_is_closed_costs_no_requests_and_gets_all_when_it_writes_again() -> None:
    async with a_chat() as scene:
        await scene.says("hello")
        scene.service.closed.add(PERSON)
        other = await scene.elsewhere()
        other.sends(message("overnight", "u9"))
        await scene.settles()
        sends = scene.service.requests
        other.sends(message("more", "u10"))
        await scene.settles(20)
        assert scene.service.requests - sends <= 1  # the poll
        scene.service.closed.clear()
        await scene.says("back")
        assert scene.service.texts()[1:] == [
            "answer to overnight",
            "answer to more",
            "answer to back",
        ]


async def test_a_full_disk_holds_sending_and_confirming_and_ends_by_itself() -> None:
    """What is not kept is not confirmed: it comes again after a crash."""
    async with a_scene() as scene:
        async with scene.channel():
            await scene.says("hello")
            scene.disk.is_full = True
            scene.service.writes("with a full disk")
            await scene.settles()
            assert scene.service.texts() == ["answer to hello"]
        scene.disk.is_full = False
        async with scene.channel():
            await scene.settles()
            assert scene.service.texts() == ["answer to hello", "answer to with a full disk"]
        assert scene.talk().taken == ["hello", "with a full disk"]


async def test_a_thread_that_says_too_much_at_once_is_joined_again_and_nothing_is_missing() -> None:
    """The registry's side never waits for a chat."""
    async with a_chat() as scene:
        await scene.says("hello")
        (worker,) = scene.agents.running.values()
        worker.says(*[{"type": "STATE_DELTA"}] * 5000)
        scene.service.writes("after the flood")
        await scene.settles()
        opens = [f for f in scene.agents.frames if f["type"] == "resume_conversation"]
        assert len(opens) == 2
        assert scene.service.texts() == ["answer to hello", "answer to after the flood"]


async def test_a_worker_that_dies_is_told_and_the_message_is_not_lost() -> None:
    async with a_chat() as scene:
        scene.agents.slow = 60.0
        scene.service.writes("one")
        await anyio.sleep(10)
        (worker,) = scene.agents.running.values()
        worker.end()
        await scene.settles()
        assert any(text.startswith("⚠️") for text in scene.service.texts())


async def test_files_of_a_person_are_fetched_when_the_network_is_back() -> None:
    async with a_chat() as scene:
        scene.service.files["f"] = b"data"
        file = InFile(id="f", name="a.txt", mime_type="text/plain", size=4)
        scene.service.writes("with a file", files=(file,))
        await anyio.sleep(0.01)
        scene.service.weather.is_down = True
        await anyio.sleep(HOUR)
        scene.service.weather = Weather()
        await scene.settles(5 * MINUTE)
        assert scene.service.texts() == ["answer to with a file"]
        assert [part["filename"] for part in scene.talk().attachments] == ["a.txt"]


async def test_a_file_that_can_not_be_fetched_is_said_to_the_agent_and_the_words_arrive() -> None:
    async with a_chat() as scene:
        file = InFile(id="gone", name="a.txt", mime_type="text/plain")
        await scene.says("with a file", files=(file,))
        assert scene.talk().taken[0].startswith("with a file\n[The file a.txt did not come through")


async def test_a_button_press_is_acknowledged_at_once_also_when_nothing_can_be_sent() -> None:
    async with a_chat() as scene:
        asked = await scene.says("ask for something")
        scene.service.weather = Weather(later=1.0)
        with capture_logs():
            await anyio.sleep(HOUR)
        scene.service.weather = Weather()
        scene.service.presses("Approve", asked)
        await scene.settles(2 * MINUTE)
        assert scene.service.acknowledged[-1][1] == "Approved"


async def test_an_update_that_the_service_tells_again_counts_once() -> None:
    async with a_chat() as scene:
        scene.service.repeats = 5
        await scene.says("/help")
        await scene.says("/help")
        assert scene.service.repeats == 0
        assert len([text for text in scene.service.texts() if "Write to the agent" in text]) == 2
