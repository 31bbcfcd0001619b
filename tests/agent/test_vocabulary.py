"""The tables of what our worker adds to the protocol: true of the code, and of the page."""

import re
from pathlib import Path

from agent.domain import messages
from agent.domain.vocabulary import (
    ACTIVITY_TYPES,
    COMMANDS,
    CUSTOM_NAMES,
    INPUT_PROPERTIES,
    METADATA_KEYS,
    STATE_KEYS,
)
from roost.headless.vocabulary_page import vocabulary_page
from tests.agent.support.scene import one_session

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "worker-commands.md"


def test_the_page_is_what_the_code_says() -> None:
    """Renew it: python -m roost.headless.vocabulary_page > docs/reference/worker-commands.md"""
    assert PAGE.read_text(encoding="utf-8") == vocabulary_page()


async def test_every_command_is_in_the_table_and_every_row_is_a_command() -> None:
    async with one_session() as scene:
        assert scene.session.commands.names == {command.name for command in COMMANDS}


async def test_every_state_key_is_in_the_table_in_its_order() -> None:
    async with one_session() as scene:
        keys = list(scene.session.conversation.shared_state())
        assert keys == [key.name for key in STATE_KEYS]


def test_every_name_of_ours_in_the_code_is_in_a_table() -> None:
    """Who is hurt: who writes a client, and meets a name that no page explains."""
    tables = (ACTIVITY_TYPES, CUSTOM_NAMES, INPUT_PROPERTIES, METADATA_KEYS)
    known = {name.name for table in tables for name in table}
    used: set[str] = set()
    for path in (ROOT / "agent").rglob("*.py"):
        if path.name != "vocabulary.py":
            used |= set(re.findall(r'"(roost\.[a-z_]+)"', path.read_text(encoding="utf-8")))
    used.discard(messages.HIDDEN)  # what has it, no client is shown
    used.discard("roost.window")  # a field for who asked for it: worker-lines.md
    assert used <= known
    assert {name for name in known if name.startswith("roost.")} <= used
