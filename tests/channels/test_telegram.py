"""Telegram through aiogram: growing answers, limits, files, and all that goes wrong there."""

import base64
import re
from pathlib import Path

import anyio

from tests.channels.fake_telegram import (
    GROUP,
    PERSON,
    FakeTelegram,
    Page,
    Refusal,
    conflict,
    too_many,
)
from tests.channels.telegram_scenes import a_telegram_chat
from tests.channels.telegram_scenes import anyio_backend as anyio_backend

STICKER = {
    "file_id": "s", "file_unique_id": "s", "type": "regular", "width": 1, "height": 1,
    "is_animated": False, "is_video": False,
}  # fmt: skip
FORWARDED = {"type": "hidden_user", "date": 1, "sender_user_name": "\u202egnihtemos"}
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 64


async def test_an_answer_grows_in_one_message(tmp_path: Path) -> None:
    """Edits, at a rate the service allows, and the whole of it at the end."""
    async with a_telegram_chat(tmp_path) as scene:
        scene.agents.slow, scene.agents.go_on = 0.6, anyio.Event()
        scene.telegram.writes("a long question")
        shown = await scene.telegram.until(lambda s: s.text.startswith("answ"))
        scene.agents.go_on.set()
        await scene.telegram.until(lambda s: s is shown and s.text == "answer to a long question")
        assert 1 <= shown.edits <= 3
        assert scene.telegram.texts() == ["answer to a long question"]


async def test_a_text_of_10000_characters_comes_in_order_and_below_the_limit(
    tmp_path: Path,
) -> None:
    async with a_telegram_chat(tmp_path) as scene:
        words = " ".join(f"word{n}" for n in range(1200))
        scene.telegram.writes(words)
        await scene.telegram.until_text("word1199")
        texts = scene.telegram.texts()
        assert all(len(text) <= 3500 for text in texts)
        assert re.findall(r"word\d+", " ".join(texts)) == words.split()


async def test_markup_that_is_refused_is_sent_as_plain_text(tmp_path: Path) -> None:
    async with a_telegram_chat(tmp_path) as scene:
        refusal = Refusal(400, "Bad Request: can't parse entities: no such tag")
        scene.telegram.troubles["sendMessage"].append(refusal)
        scene.telegram.writes("hello **there**")
        await scene.telegram.until_text("answer to hello there")
        modes = [a.get("parse_mode") for m, a in scene.telegram.calls if m == "sendMessage"]
        assert modes == ["HTML", None]
        assert len(scene.telegram.texts()) == 1


async def test_a_server_error_is_no_reason_for_plain_text(tmp_path: Path) -> None:
    async with a_telegram_chat(tmp_path) as scene:
        refusal = Refusal(500, "Internal Server Error")
        scene.telegram.troubles["sendMessage"].append(refusal)
        scene.telegram.writes("hello")
        await scene.telegram.until_text("answer to hello")
        modes = [a.get("parse_mode") for m, a in scene.telegram.calls if m == "sendMessage"]
        assert modes == ["HTML", "HTML"]
        assert len(scene.telegram.texts()) == 1


async def test_too_many_requests_are_waited_out(tmp_path: Path) -> None:
    async with a_telegram_chat(tmp_path) as scene:
        scene.telegram.troubles["sendMessage"].append(too_many(1))
        scene.telegram.writes("hello")
        await scene.telegram.until_text("answer to hello")
        assert len(scene.telegram.texts()) == 1


async def test_connections_that_drop_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    async with a_telegram_chat(tmp_path) as scene:
        telegram = scene.telegram
        telegram.troubles["getUpdates"].extend(["cut", "lost"])
        telegram.troubles["sendMessage"].extend(["lost", "cut", "lost"])
        telegram.troubles["editMessageReplyMarkup"].append("cut")
        telegram.writes("first")
        await telegram.until_text("answer to first")
        telegram.writes("second")
        await telegram.until_text("answer to second")
        said = [text for text in telegram.texts() if "answer to" in text]
        assert len(said) == 2
        assert not telegram.troubles["sendMessage"]


async def test_a_second_consumer_of_the_token_is_reported(tmp_path: Path) -> None:
    telegram = FakeTelegram()
    telegram.troubles["getUpdates"].append(conflict())
    async with a_telegram_chat(tmp_path, telegram) as scene:
        await telegram.until_true(lambda: telegram.count("getUpdates") > 0)
        await scene.reports.until("contested")
        assert "another program receives" in scene.reports.last.detail


async def test_what_waited_for_a_chat_that_blocked_the_bot_comes_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with a_telegram_chat(tmp_path) as scene:
        telegram = scene.telegram
        telegram.blocked.add(PERSON)
        telegram.writes("while blocked")
        await telegram.until_true(lambda: telegram.count("sendMessage") > 0)
        telegram.blocked.clear()
        telegram.writes("/help")
        await telegram.until_text("Write to the agent")
        said = [text for text in telegram.texts() if "answer to while blocked" in text]
        assert len(said) == 1


async def test_a_photo_reaches_the_agent_as_an_image_in_its_largest_size(tmp_path: Path) -> None:
    async with a_telegram_chat(tmp_path) as scene:
        scene.telegram.troubles["getFile"].append("cut")
        scene.telegram.sends_photo(PNG, "look at this")
        await scene.telegram.until_text("answer to look at this")
        (part,) = scene.talk.attachments
        assert (part["type"], part["mimeType"]) == ("image", "image/jpeg")
        assert base64.b64decode(part["data"]) == PNG


async def test_files_that_are_too_large_or_of_another_kind_are_not_taken(tmp_path: Path) -> None:
    async with a_telegram_chat(tmp_path, largest_file=1024, file_types=("text/*",)) as scene:
        telegram = scene.telegram
        telegram.sends_file(b"x" * 2000, "text/plain", "big.txt")
        await telegram.until_text("big.txt was not taken: it is larger than")
        telegram.sends_file(b"MZ", "application/x-msdownload", "x.exe")
        await telegram.until_text("x.exe was not taken: files of type")
        telegram.writes("", voice={"file_id": "v", "file_unique_id": "v", "duration": 3})
        await telegram.until_text("can't take voice messages")
        assert telegram.count("getFile") == 0


async def test_an_image_of_the_project_is_sent_and_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    async with a_telegram_chat(tmp_path / "project") as scene:
        telegram = scene.telegram
        (scene.project / "plot.png").write_bytes(PNG)
        (scene.project / "odd.png").write_bytes(PNG + b"not a picture")
        (tmp_path / "secret.png").write_bytes(b"secret")
        (scene.project / "link.png").symlink_to(tmp_path / "secret.png")
        telegram.writes("![a](plot.png) ![b](../secret.png) ![c](link.png) ![d](odd.png)")
        shown = await telegram.until(lambda s: s.kind == "photo")
        assert shown.file == ("plot.png", PNG)
        odd = await telegram.until(lambda s: s.kind == "document")  # refused as a photo
        assert odd.file == ("odd.png", PNG + b"not a picture")
        assert len([s for s in telegram.chats[PERSON] if s.file]) == 2


async def test_a_group_is_answered_in_the_group(tmp_path: Path) -> None:
    async with a_telegram_chat(tmp_path, allowed=frozenset({PERSON, GROUP})) as scene:
        scene.telegram.writes("from a stranger", GROUP, person=666)
        scene.telegram.writes("in the group", GROUP)
        await scene.telegram.until_text("answer to in the group", GROUP)
        assert scene.telegram.texts(PERSON) == []
        assert not any("stranger" in text for text in scene.telegram.texts(GROUP))


async def test_what_nobody_expects_of_the_service_stops_nothing(tmp_path: Path) -> None:
    """Updates of unknown kinds and shapes, buttons never sent, pages instead of answers."""
    async with a_telegram_chat(tmp_path) as scene:
        telegram = scene.telegram
        page = "<html><body>502 Bad Gateway</body></html>"
        nonsense = Page('{"ok": true, "result": ["x", {}]}')
        telegram.troubles["getUpdates"].extend([Page(page), nonsense])
        telegram.troubles["sendMessage"].append(Page(page))
        telegram.happens(poll={"id": "1"})
        telegram.happens(channel_post={"message_id": "not a number"})
        telegram.happens(edited_message={"message_id": 1})
        telegram.happens(message={"message_id": 3})
        telegram.happens(callback_query={"id": "9", "from": {"id": PERSON}, "data": "x"})
        telegram.presses_data("decide 1 0 approve", 11)
        telegram.presses_data("\u202e" * 20, 11)
        telegram.writes("", sticker=STICKER)
        telegram.writes("x" * 4096 + " \U0001f469\u200d\U0001f680", forward_origin=FORWARDED)
        telegram.writes("/stop@another_bot")
        telegram.writes("/help@roost_test_bot")
        await telegram.until_text("Write to the agent")
        await telegram.until_text("\U0001f469\u200d\U0001f680")
        await telegram.until_text("I can't take stickers")
        await telegram.until_true(lambda: len(telegram.acknowledged) == 2)
        assert all("too old" in words for _, words in telegram.acknowledged)
        assert not any("another_bot" in text for text in telegram.texts())


async def test_a_revoked_token_is_said(tmp_path: Path) -> None:
    telegram = FakeTelegram()
    telegram.troubles["getUpdates"].append(Refusal(401, "Unauthorized"))
    async with a_telegram_chat(tmp_path, telegram) as scene:
        await telegram.until_true(lambda: telegram.count("getUpdates") > 0)
        await scene.reports.until("refused")
        assert "token is not accepted" in scene.reports.last.detail


async def test_the_commands_are_offered_to_the_service(tmp_path: Path) -> None:
    async with a_telegram_chat(tmp_path) as scene:
        await scene.telegram.until_true(lambda: bool(scene.telegram.commands))
        offered = {entry["command"] for entry in scene.telegram.commands}
        assert {"new", "conversations", "threads", "stop", "model", "mode", "status"} <= offered
        assert {"help", "watch", "project"} <= offered
