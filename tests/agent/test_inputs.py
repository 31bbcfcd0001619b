"""What clients send: every shape that is meant well is understood, the rest is one clear error."""

import base64
from pathlib import Path

import anyio
import msgspec
import pytest

from agent.domain.messages import attachments_of
from agent.infrastructure.attachments import AttachmentFolder
from agent.inputs import MAX_ATTACHMENT, BadInput, RunInput, read_run_input
from tests.agent.support.fakes import counting_ids
from tests.agent.support.scene import one_session, says


async def read(value: object, known: tuple[str, ...] = ()) -> RunInput:
    async def save(name: str, data: bytes) -> str:
        del data
        return f"/attachments/{name}"

    return await read_run_input(value, counting_ids(), save, known.__contains__)


def image(data: str, **more: object) -> dict[str, object]:
    part = {"type": "image", "mimeType": "image/png", "data": data, "filename": "a.png"}
    return {**part, **more}


def message(*parts: dict[str, object]) -> dict[str, object]:
    return {"messages": [{"id": "m1", "role": "user", "content": list(parts)}]}


async def test_text_parts_are_one_text() -> None:
    found = await read(message({"type": "text", "text": "a"}, {"type": "text", "text": "b"}))
    assert found.messages[0].text == "a\nb"


async def test_of_two_messages_with_one_id_the_first_counts() -> None:
    """Every follower must show the same message under an id."""
    twice = [{"id": "d", "role": "user", "content": text} for text in ("one", "two")]
    found = await read({"messages": twice})
    assert [m.text for m in found.messages] == ["one"]


@pytest.mark.parametrize(
    "part",
    [
        image(base64.b64encode(b"png").decode()),
        {
            "type": "image",
            "filename": "a.png",
            "source": {"type": "data", "value": "cG5n", "mimeType": "image/png"},
        },
    ],
)
async def test_an_image_is_saved_and_noted(part: dict[str, object]) -> None:
    found = await read(message({"type": "text", "text": "see"}, part))
    [attachment] = attachments_of(found.messages[0])
    assert (attachment.name, attachment.is_image) == ("a.png", True)
    assert attachment.path == "/attachments/a.png"
    assert found.messages[0].text == "see"


async def test_another_file_is_saved_and_the_message_says_where() -> None:
    found = await read(message(image("YQ==", mimeType="text/csv", filename="t.csv")))
    assert found.messages[0].text == "[Attached file t.csv, saved at /attachments/t.csv]"


@pytest.mark.parametrize(
    ("data", "why"),
    [("not base64!", "not base64"), ("A" * (MAX_ATTACHMENT * 4 // 3 + 8), "larger than 10 MiB")],
)
async def test_an_attachment_that_can_not_be_taken_is_named_in_the_message(
    data: str, why: str
) -> None:
    found = await read(message({"type": "text", "text": "see"}, image(data)))
    assert attachments_of(found.messages[0]) == []
    assert found.messages[0].text.startswith("see\n[Attachment a.png was left out")
    assert why in found.messages[0].text


async def test_a_message_with_nothing_in_it_is_dropped() -> None:
    found = await read({"messages": [{"id": "m1", "role": "user", "content": ""}]})
    assert found.messages == ()
    assert found.is_empty is False


async def test_only_new_messages_of_the_user_count() -> None:
    messages = [
        {"id": "old", "role": "user", "content": "x"},
        {"id": "a", "role": "assistant", "content": "I said"},
        {"id": "new", "role": "user", "content": "y"},
    ]
    found = await read({"messages": messages}, known=("old",))
    assert [each.id for each in found.messages] == ["new"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"messages": 1},
        {"messages": [{"id": 1, "role": "user"}]},
        {"resume": [{"interruptId": "i", "status": "maybe"}]},
        {"resume": [{"status": "resolved"}]},
        {"runId": 5},
    ],
)
async def test_a_malformed_input_is_one_clear_error(value: object) -> None:
    with pytest.raises(BadInput, match="malformed"):
        await read(value)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/x", "", "..", "a/b\0c", "é" * 300])
async def test_no_name_of_an_attachment_leads_elsewhere(tmp_path: object, name: str) -> None:
    folder = anyio.Path(str(tmp_path)) / "attachments"
    path = await AttachmentFolder(Path(folder)).save(name, b"x")
    assert anyio.Path(path).parent == folder
    assert await anyio.Path(path).read_bytes() == b"x"


async def test_each_command_has_exactly_one_result() -> None:
    async with one_session(says("hi")) as scene:
        for frame in (
            {"id": "1", "name": "ping"},
            {"id": "2", "name": "no_such"},
            {"id": "3", "name": "ping", "args": [1]},
            {"id": "4", "name": 7},
            {"id": "5"},
            {"id": "6", "name": "prompt", "args": {"text": " "}},
        ):
            await scene.send(type="command", **frame)
        results = scene.lines.lines
        assert [line["id"] for line in results] == ["1", "2", "3", "4", "5", "6"]
        assert [line.get("code") for line in results] == [
            None,
            "unknown_command",
            "bad_arguments",
            "unknown_command",
            "unknown_command",
            "bad_arguments",
        ]


async def test_a_prompt_by_command_is_admitted_and_run() -> None:
    async with one_session(says("hi")) as scene:
        await scene.send(type="command", id="k", name="prompt", args={"text": "hello"})
        admitted = msgspec.convert(scene.lines.lines[0]["data"], dict[str, object])
        assert (admitted["admission"], admitted["lane"]) == ("started", "steering")
        await scene.wait_end()
        await scene.send(type="command", id="s", name="get_state")
        state = scene.lines.lines[-1]["data"]
        assert isinstance(state, dict)
        assert (state["model"], state["mode"], state["runId"]) == ("fake:one", "standard", None)
