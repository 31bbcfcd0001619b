"""A chat, from the phone to a real worker and back: what a person away from the desk relies on.

aiogram against a Bot API server on this machine; the registry and the scripted worker are real.
"""

import json
from pathlib import Path

from structlog.testing import capture_logs

from sessions.domain.keys import ConversationId, ThreadKey, ThreadOptions
from sessions.infrastructure.environment import worker_environment
from tests.channels.fake_telegram import TOKEN, Refusal
from tests.channels.real import a_real_channel
from tests.channels.real import anyio_backend as anyio_backend


async def test_a_command_is_approved_by_a_button_and_runs(tmp_path: Path) -> None:
    async with a_real_channel(tmp_path) as channel:
        telegram = channel.telegram
        telegram.writes("run echo $((40 + 2)) > out.txt")
        asked = await telegram.until_text("waits for your approval")
        assert "echo $((40 + 2)) > out.txt" in asked.text
        assert not asked.silent
        assert not (channel.project / "out.txt").exists()
        telegram.presses("Approve", asked)
        await telegram.until(lambda s: s.id == asked.id and "Approved by Ada, here" in s.text)
        assert asked.buttons == []
        await telegram.until(lambda s: s.text.startswith("✓ Bash"))
        assert (channel.project / "out.txt").read_text() == "42\n"
        assert [words for _, words in telegram.acknowledged] == ["Approved"]


async def test_a_reply_no_declines_and_nothing_runs(tmp_path: Path) -> None:
    async with a_real_channel(tmp_path) as channel:
        telegram = channel.telegram
        telegram.writes("run touch out.txt")
        asked = await telegram.until_text("waits for your approval")
        telegram.replies("no", asked)
        await telegram.until(lambda s: s.id == asked.id and "Declined by Ada, here" in s.text)
        await telegram.until_text("Not run: declined")
        assert not (channel.project / "out.txt").exists()


async def test_a_question_is_answered_by_a_reply(tmp_path: Path) -> None:
    async with a_real_channel(tmp_path) as channel:
        telegram = channel.telegram
        telegram.writes("ask Which port?")
        asked = await telegram.until_text("Which port?")
        telegram.replies("number 8080", asked)
        await telegram.until(lambda s: s.id == asked.id and "Answer: number 8080" in s.text)
        await telegram.until(lambda s: s.id > asked.id and "number 8080" in s.text)


async def test_the_token_is_in_no_log_and_no_worker(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with a_real_channel(tmp_path) as channel:
            telegram = channel.telegram
            telegram.troubles["sendMessage"].extend(["cut", Refusal(500, f"no {TOKEN}")])
            telegram.troubles["getUpdates"].extend(["cut", Refusal(400, f"odd {TOKEN}")])
            telegram.writes("run env > environment.txt")
            asked = await telegram.until_text("waits for your approval")
            telegram.presses("Approve", asked)
            await telegram.until(lambda s: s.text.startswith("✓ Bash"))
            environment = (channel.project / "environment.txt").read_text()
            kept = [f.read_text() for f in channel.home.channels.rglob("*.json")]
            kept += [f.read_text() for f in channel.home.channel_reports.rglob("*.json")]
            shown = " ".join(telegram.texts())
    secret = TOKEN.partition(":")[2]
    assert "PATH=" in environment
    assert secret not in environment
    assert secret not in json.dumps(logs, default=str)
    assert kept and secret not in str(kept)
    assert secret not in shown


def test_the_token_is_kept_from_the_worker_itself() -> None:
    """Its commands get even less than it does, so that they would not show it."""
    environ = {"ROOST_TELEGRAM__TOKEN": TOKEN, "ROOST_TELEGRAM__ALLOWED_CHATS": "1"}
    thread = ThreadKey("/p", ConversationId("c"))
    made = worker_environment(environ, thread, ThreadOptions(), "t")
    assert TOKEN not in made.values()
    assert made["ROOST_TELEGRAM__ALLOWED_CHATS"] == "1"
