"""Presets: files in the format that other tools use, none of which widens what an agent may do."""

from pathlib import Path

import pytest

from agent.infrastructure.presets import PresetFiles
from tests.agent.support.fakes import FakeLog

GOOD = """---
name: reviewer
description: Reads changes,
  and says what is wrong.
tools: Read, Grep, Bash(git *), Task
disallowedTools:
  - Write
  - Bash(rm *)
model: sonnet
color: blue
---
You review.
"""


def put(place: Path, name: str, text: str) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    path = place / name
    path.write_text(text, encoding="utf-8")
    return path


def files(tmp_path: Path, log: FakeLog, *, trusted: bool = True) -> PresetFiles:
    return PresetFiles(tmp_path / "project", tmp_path / "home", lambda: trusted, log)


async def test_a_preset_is_read_and_never_wider_than_it_was_written(tmp_path: Path) -> None:
    put(tmp_path / "home" / "agents", "reviewer.md", GOOD)
    (preset,) = await files(tmp_path, FakeLog()).listed()
    assert (preset.name, preset.scope) == ("reviewer", "user")
    assert preset.description == "Reads changes, and says what is wrong."
    assert preset.instructions == "You review."
    assert preset.tools == ("Read", "Grep", "Agent"), "a part of Bash is not Bash"
    assert preset.disallowed == ("Write", "Bash"), "and what forbids a part, forbids it"
    assert preset.model is None, "the short names of other tools name no model here"


async def test_a_projects_own_count_once_it_is_trusted_and_hide_the_users(tmp_path: Path) -> None:
    put(tmp_path / "home" / "agents", "a.md", GOOD)
    text = GOOD.replace("model: sonnet", "model: openai:x")
    put(tmp_path / "project" / ".roost" / "agents", "b.md", text)
    log = FakeLog()
    (preset,) = await files(tmp_path, log, trusted=False).listed()
    assert preset.scope == "user"
    assert log.names() == ["preset_skipped"]
    (preset,) = await files(tmp_path, FakeLog()).listed()
    assert (preset.scope, preset.model) == ("project", "openai:x")


@pytest.mark.parametrize(
    "text",
    [
        "no front matter",
        "---\n: [\n---\n",
        "---\ndescription: x\n---\n",
        "---\nname: x\n---\n",
        "---\nname: x\ndescription: y\ntools: {a: b}\n---\n",
        "---\nname: x\ndescription: y\ntools: [1]\n---\n",
        "---\nname: x\ndescription: y\n---\n" + "z" * 300_000,
    ],
)
async def test_a_broken_file_is_left_out_with_one_warning_that_names_it(
    tmp_path: Path, text: str
) -> None:
    broken = put(tmp_path / "home" / "agents", "broken.md", text)
    put(tmp_path / "home" / "agents", "good.md", GOOD)
    log = FakeLog()
    presets = files(tmp_path, log)
    for _ in range(2):
        assert [preset.name for preset in await presets.listed()] == ["reviewer"]
    ((level, event, fields),) = log.events
    assert (level, event, fields["path"]) == ("warning", "preset_skipped", str(broken))


async def test_a_preset_without_tools_says_nothing_about_them(tmp_path: Path) -> None:
    put(tmp_path / "home" / "agents", "a.md", "---\nname: a\ndescription: b\n---\n")
    (preset,) = await files(tmp_path, FakeLog()).listed()
    assert preset.tools is None
    assert preset.disallowed == ()
