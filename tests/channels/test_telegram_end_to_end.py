"""A chat, from the phone to a real worker and back: what a person away from the desk relies on."""

from pathlib import Path

from tests.channels.real import a_real_channel
from tests.channels.real import anyio_backend as anyio_backend


async def test_a_message_is_answered_by_the_agent(tmp_path: Path) -> None:
    async with a_real_channel(tmp_path) as channel:
        channel.telegram.writes("hello there")
        await channel.telegram.until_text("You said: hello there")


async def test_a_command_is_approved_by_a_button_and_runs(tmp_path: Path) -> None:
    async with a_real_channel(tmp_path) as channel:
        telegram = channel.telegram
        telegram.writes("run echo $((40 + 2)) > out.txt")
        asked = await telegram.until_text("waits for your approval")
        assert "echo $((40 + 2)) > out.txt" in asked.text
        assert not (channel.project / "out.txt").exists()
        telegram.presses("Approve", asked)
        await telegram.until(lambda s: s.id == asked.id and "Approved by Ada, here" in s.text)
        assert asked.buttons == []
        await telegram.until(lambda s: s.text.startswith("✓ Bash"))
        assert (channel.project / "out.txt").read_text() == "42\n"
