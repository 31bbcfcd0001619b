"""What a project has to show: its conversations, what was typed in it, and its skills."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from agent.domain.entries import Accepted, Begun, Entry, Named, QueueDeleted, Said, encode_entry
from agent.domain.messages import HIDDEN, Message
from agent.domain.project import title_of
from agent.infrastructure.conversation_list import MOST, ConversationList, RecentFile
from agent.infrastructure.input_history import InputHistory
from agent.infrastructure.jsonl_history import JsonlHistory
from agent.infrastructure.lease import lease
from agent.infrastructure.project_files import ProjectFiles
from agent.infrastructure.skills import Skills
from tests.agent.support.fakes import FakeLog


def said(role: str, text: str, message_id: str, **metadata: object) -> Message:
    value = {"id": message_id, "role": role, "content": text}
    message = msgspec.convert(value, Message)
    return msgspec.structs.replace(message, metadata=metadata or None)


def entries(conversation_id: str, text: str = "hello") -> list[Entry]:
    return [
        Begun(conversation_id=conversation_id, project_dir="/p"),
        Accepted(messages=[said("user", "go on", "m0", **{HIDDEN: True})]),
        Accepted(messages=[said("user", text, "m1")]),
        Accepted(messages=[said("user", "taken back", "m9")]),
        QueueDeleted(message_ids=["m9"]),
        Said(message=said("reasoning", "hm", "m2")),
        Said(message=said("assistant", "hi", "m3")),
        Said(message=said("assistant", "hi there", "m3")),
    ]


def save(folder: Path, conversation_id: str, text: str = "hello", at: float = 0) -> Path:
    path = folder / f"{conversation_id}.jsonl"
    path.write_bytes(b"".join(map(encode_entry, entries(conversation_id, text))))
    os.utime(path, (at, at))
    return path


def recent(folder: Path) -> RecentFile:
    return RecentFile(folder / "recent")


def listed(folder: Path) -> ConversationList:
    return ConversationList(folder, recent(folder))


def test_conversations_are_listed_newest_first_with_title_time_and_count(tmp_path: Path) -> None:
    save(tmp_path, "old", "Fix the  bug\nplease", at=1_000_000)
    save(tmp_path, "new", at=2_000_000)
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "torn.jsonl").write_bytes(b'{"kind":"input","mess')
    found = listed(tmp_path).list()
    assert [(c.id, c.title, c.updated_at, c.message_count) for c in found] == [
        ("new", "hello", "1970-01-24T03:33:20.000Z", 2),
        ("old", "Fix the bug", "1970-01-12T13:46:40.000Z", 2),
    ]


def test_a_name_stands_in_place_of_the_first_message_the_last_one_counts(tmp_path: Path) -> None:
    path = save(tmp_path, "c", at=1_000_000)
    found = listed(tmp_path)
    with path.open("ab") as file:
        file.write(encode_entry(Named(name="by the model", by="model")))
    assert found.list()[0].title == "by the model"
    with path.open("ab") as file:
        file.write(encode_entry(Named(name="Mine")))
    assert listed(tmp_path).list()[0].title == "Mine"


def test_a_folder_that_is_not_there_has_no_conversations(tmp_path: Path) -> None:
    assert listed(tmp_path / "nothing").list() == []


def test_no_more_than_fifty_are_listed(tmp_path: Path) -> None:
    for number in range(MOST + 5):
        save(tmp_path, f"c{number}", at=number)
    found = listed(tmp_path).list()
    assert len(found) == MOST
    assert found[0].id == f"c{MOST + 4}"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("\n  \n one\ttwo \nthree", "one two"),
        ("word " * 40, ("word " * 15).strip() + "…"),
        ("x" * 200, "x" * 79 + "…"),
        ("", ""),
    ],
)
def test_a_title_is_the_first_line_cut_at_a_word(text: str, title: str) -> None:
    assert title_of(text) == title


async def test_a_list_sees_what_other_workers_wrote_since(tmp_path: Path) -> None:
    """An old conversation that was opened and left between two looks, and one held all the time."""
    for number in range(300):
        save(tmp_path, f"c{number:03}", at=number)
    mine = listed(tmp_path)
    mine.list()
    assert mine.list()[0].id == "c299"

    @contextmanager
    def opened(stem: str) -> Generator[JsonlHistory]:
        with lease(tmp_path / f"{stem}.lease"):
            history = JsonlHistory(
                tmp_path / f"{stem}.jsonl",
                FakeLog(),
                before_first=lambda: recent(tmp_path).note(stem),
            )
            history.load()
            yield history
            history.close()

    async def write(history: JsonlHistory, message_id: str) -> None:
        await history.append([Said(message=said("assistant", "x", message_id))], sync=True)

    with opened("c005") as history:
        await write(history, "m10")
    first = mine.list()[0]
    assert (first.id, first.message_count) == ("c005", 3)
    with opened("c006") as history:
        await write(history, "m10")
        assert mine.list()[0].id == "c006"
        await write(history, "m11")
        assert mine.list()[0].message_count == 4
        await write(history, "m12")
    found = mine.list()[0]
    assert (found.id, found.message_count) == ("c006", 5)
    (tmp_path / "c006.jsonl").unlink()
    assert mine.list()[0].id == "c005"


def test_only_what_may_have_changed_is_looked_at(tmp_path: Path) -> None:
    """Who is hurt: people with ten thousand conversations, at each look at the list."""
    for number in range(300):
        save(tmp_path, f"c{number:03}", at=number)
    looked: list[str] = []

    def stat(name: str, folder: int) -> os.stat_result:
        looked.append(name)
        return os.stat(name, dir_fd=folder)

    listing = ConversationList(tmp_path, recent(tmp_path), stat)
    listing.list()
    assert len(looked) == 300
    recent(tmp_path).note("c001")
    looked.clear()
    listing.list()
    assert looked == ["c001.jsonl"]


# -- inputs ------------------------------------------------------------------------------------


def test_inputs_are_kept_in_order_and_not_twice_in_a_row(tmp_path: Path) -> None:
    inputs = InputHistory(tmp_path / "p" / "inputs.jsonl")
    assert inputs.list() == []
    for text in (" a ", "b", "b", "a\nline", "", "x" * 20_000):
        inputs.add(text)
    assert inputs.list() == ["a", "b", "a\nline"]


def test_no_more_than_a_thousand_inputs_are_given_and_the_file_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "inputs.jsonl"
    path.write_bytes(b"".join(b'"%d"\n' % number for number in range(2000)))
    inputs = InputHistory(path)
    assert inputs.list()[0] == "1000"
    inputs.add("new")
    assert inputs.list()[-2:] == ["1999", "new"]
    assert path.read_bytes().count(b"\n") == 1001


def test_a_torn_line_of_the_inputs_costs_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "inputs.jsonl"
    path.write_bytes(b'"a"\n"b')
    inputs = InputHistory(path)
    inputs.add("c")
    assert inputs.list() == ["a", "c"]


# -- skills ------------------------------------------------------------------------------------


def skill(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)


def test_skills_come_from_three_places_and_the_nearer_one_hides(tmp_path: Path) -> None:
    project, home = tmp_path / "p", tmp_path / "h"
    head = "---\nname: {}\ndescription: {}\n---\nDo it."
    skill(project / ".roost/skills/a", head.format("review", "ours"))
    skill(project / ".agents/skills/b", head.format("deploy", "theirs"))
    skill(home / "skills/c", head.format("review", "mine"))
    skill(home / "skills/d", head.format("write", "|\n  two\n  lines"))
    found = Skills(project, home, FakeLog()).list()
    assert [(s.name, s.description, s.scope) for s in found] == [
        ("review", "ours", "project"),
        ("deploy", "theirs", "agents"),
        ("write", "two lines", "user"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "no front matter",
        "---\nname: x\n",
        "---\n- a\n---\n",
        "---\nname: x\n---\n",
        "---\nname: 3\ndescription: y\n---\n",
        "---\nname: [\n---\n",
        "---\nname: x\ndescription: 2001-99-99\n---\n",
        f"---\nname: {'[' * 20_000}\n---\n",
    ],
)
def test_a_broken_skill_is_left_out_and_told_once(tmp_path: Path, text: str) -> None:
    skill(tmp_path / ".roost/skills/a", text)
    log = FakeLog()
    skills = Skills(tmp_path, tmp_path / "h", log)
    assert skills.list() == skills.list() == []
    assert log.names() == ["skill_skipped"]


def test_a_skill_that_is_no_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Who is hurt: who opens a project with a named pipe in it, and never gets an answer."""
    (tmp_path / ".roost/skills/pipe").mkdir(parents=True)
    os.mkfifo(tmp_path / ".roost/skills/pipe/SKILL.md")
    log = FakeLog()
    assert Skills(tmp_path, tmp_path / "h", log).list() == []
    assert log.names() == ["skill_skipped"]


async def test_trouble_with_a_file_is_logged_and_gives_nothing(tmp_path: Path) -> None:
    log = FakeLog()
    (tmp_path / "conversations").write_text("not a folder")
    (tmp_path / "inputs.jsonl").mkdir()
    files = ProjectFiles(tmp_path, tmp_path, tmp_path / "conversations", log)
    with anyio.fail_after(60):
        assert await files.conversations() == []
        assert await files.inputs() == []
        await files.add_input("x")
    assert log.names() == ["project_files_unread"] * 3
