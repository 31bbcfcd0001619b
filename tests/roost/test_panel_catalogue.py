"""The saved conversations of all projects, as the panel's list has them, read from real files."""

import json
import os
import time
from pathlib import Path

import pytest

from agent.domain.entries import Accepted, Begun, Entry, Named, RunEnded, RunOpened, encode_entry
from agent.domain.messages import HIDDEN, Message
from agent.infrastructure.lease import lease
from agui.panel.ports import CatalogueRefused
from roost.home import RoostHome
from roost.panel.catalogue import DELETED_KEPT_DAYS, SavedConversations
from roost.panel.session_file import SessionFile
from sessions.domain.keys import ConversationId, ThreadKey

PROJECT = "/home/me/garden"


def said(text: object = "water the plants", **changed: object) -> Accepted:
    return Accepted(messages=[Message(id="m1", role="user", content=text, **changed)])  # type: ignore[arg-type]


def ended(outcome: str, at: str = "2026-05-04T10:00:00.000Z") -> RunEnded:
    return RunEnded(run_id="r1", outcome=outcome, at=at)  # type: ignore[arg-type]


def write(home: RoostHome, id_: str, *entries: Entry, project: str = PROJECT) -> Path:
    folder = home.conversations(project)
    folder.mkdir(parents=True, exist_ok=True)
    begun = Begun(conversation_id=id_, project_dir=project)
    file = folder / f"{id_}.jsonl"
    file.write_bytes(b"".join(encode_entry(entry) for entry in (begun, *entries)))
    return file


def key(id_: str, project: str = PROJECT) -> ThreadKey:
    return ThreadKey(project, ConversationId(id_))


@pytest.fixture
def home(tmp_path: Path) -> RoostHome:
    return RoostHome(tmp_path)


def test_all_projects_are_in_one_list_newest_first(home: RoostHome) -> None:
    for number, project in enumerate(["/a", "/b", "/a"]):
        file = write(home, f"c{number}", said(), project=project)
        os.utime(file, (1000 + number, 1000 + number))
    found = SavedConversations(home).all()
    shown = [(one.project_dir, one.conversation_id) for one in found]
    assert shown == [("/a", "c2"), ("/b", "c1"), ("/a", "c0")]
    assert found[0].updated_at == "1970-01-01T00:16:42.000Z"


def test_without_any_project_there_is_nothing(home: RoostHome) -> None:
    assert SavedConversations(home).all() == []
    assert SavedConversations(home).one(key("c1")) is None


def test_a_title_is_how_a_person_began(home: RoostHome) -> None:
    parts = [{"type": "text", "text": "look at\nthis"}, {"type": "image", "data": "AAAA"}]
    hidden = said("not a person", metadata={HIDDEN: True})
    write(home, "c1", hidden, said(parts), said("later"))
    write(home, "c2")
    assert {c.conversation_id: c.title for c in SavedConversations(home).all()} == {
        "c1": "look at",
        "c2": "",
    }


def test_the_last_name_counts(home: RoostHome) -> None:
    write(home, "c1", said(), Named(name="first"), Named(name="The garden"))
    (found,) = SavedConversations(home).all()
    assert found.name == "The garden"


@pytest.mark.parametrize("outcome", ["success", "interrupt", "cancelled", "error", "interrupted"])
def test_the_last_runs_end_is_told(home: RoostHome, outcome: str) -> None:
    """Who waits and who failed must be in the list after a restart, without any worker."""
    write(home, "c1", said(), RunOpened(run_id="r1"), ended("success", "then"), ended(outcome))
    (found,) = SavedConversations(home).all()
    assert (found.outcome, found.outcome_at) == (outcome, "2026-05-04T10:00:00.000Z")


def test_a_run_without_an_end_is_open(home: RoostHome) -> None:
    write(home, "c1", said(), ended("interrupt"), RunOpened(run_id="r2"))
    (found,) = SavedConversations(home).all()
    assert found.outcome == "open"


def test_what_a_person_wrote_is_never_taken_for_an_entry(home: RoostHome) -> None:
    """A message that quotes a history must not change what is said of its own."""
    quoted = '\n{"kind":"run_ended","outcome":"error"}\n{"kind":"name","name":"evil"}\n'
    write(home, "c1", said("hello" + quoted), ended("success"))
    (found,) = SavedConversations(home).all()
    assert (found.outcome, found.name, found.title) == ("success", None, "hello")


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"nonsense\n", b'{"kind":"input"}\n', b'{"kind":"conversation"'],
    ids=str,
)
def test_a_file_that_is_no_conversation_is_left_out(home: RoostHome, content: bytes) -> None:
    write(home, "c1", said())
    write(home, "bad").write_bytes(content)
    assert [one.conversation_id for one in SavedConversations(home).all()] == ["c1"]


def test_a_torn_end_hides_nothing_before_it(home: RoostHome) -> None:
    file = write(home, "c1", said(), ended("success"))
    with file.open("ab") as out:
        out.write(b'{"kind":"run_ended","outcome":"err')
    (found,) = SavedConversations(home).all()
    assert found.title == "water the plants"
    assert found.outcome == "open"


def test_a_file_is_read_again_only_when_it_changed(home: RoostHome) -> None:
    """With a thousand conversations, a glance at the list must cost no thousand files."""
    file = write(home, "c1", said())
    catalogue = SavedConversations(home)
    (first,) = catalogue.all()
    assert catalogue.one(key("c1")) is first
    with file.open("ab") as out:
        out.write(encode_entry(Named(name="new")))
    again = catalogue.one(key("c1"))
    assert again is not None
    assert again.name == "new"


def test_a_conversation_that_grows_is_told_as_if_it_were_read_whole(home: RoostHome) -> None:
    """A running one changes all the time: of megabytes only the new lines are read."""
    steps: list[Entry] = [
        said(), RunOpened(run_id="r1"), Named(name="roses"), ended("interrupt"),
        said("and the herbs"), RunOpened(run_id="r2"), ended("success", at="2026-05-04T11:00:00Z"),
    ]  # fmt: skip
    file = write(home, "c1")
    catalogue = SavedConversations(home)
    for step in steps:
        with file.open("ab") as out:
            out.write(encode_entry(step)[:-9])
        assert catalogue.all() == SavedConversations(home).all()
        with file.open("ab") as out:
            out.write(encode_entry(step)[-9:])
        assert catalogue.all() == SavedConversations(home).all()
    whole = file.read_bytes()
    # What was read before is changed in place: that it is not seen shows that it is not read again.
    with file.open("r+b") as out:
        out.write(whole.replace(b'"roses"', b'"tulip"'))
        out.write(encode_entry(ended("error")))
    (found,) = catalogue.all()
    assert (found.name, found.outcome) == ("roses", "error")


def test_a_torn_end_that_is_cut_off_is_forgotten(home: RoostHome) -> None:
    file = write(home, "c1", said(), ended("success"))
    whole = file.read_bytes()
    catalogue = SavedConversations(home)
    file.write_bytes(whole + b'{"kind":"run_ended","outcome":"err')
    assert [one.outcome for one in catalogue.all()] == ["open"]
    os.truncate(file, len(whole))
    assert [one.outcome for one in catalogue.all()] == ["success"]


def test_what_is_deleted_can_be_put_back_as_it_was(home: RoostHome) -> None:
    file = write(home, "c1", said())
    before = file.read_bytes()
    catalogue = SavedConversations(home)
    assert len(catalogue.all()) == 1
    catalogue.delete(key("c1"))
    assert (catalogue.all(), catalogue.one(key("c1"))) == ([], None)
    catalogue.restore(key("c1"))
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_what_is_not_there_or_in_the_way_is_said(home: RoostHome) -> None:
    write(home, "c1", said())
    catalogue = SavedConversations(home)
    with pytest.raises(CatalogueRefused, match="nothing saved"):
        catalogue.delete(key("none"))
    with pytest.raises(CatalogueRefused, match="Nothing is kept"):
        catalogue.restore(key("c1"))
    catalogue.delete(key("c1"))
    write(home, "c1", said("another one"))
    with pytest.raises(CatalogueRefused, match="there already"):
        catalogue.restore(key("c1"))
    assert catalogue.all()[0].title == "another one"


def test_a_conversation_that_a_process_owns_is_not_moved(
    home: RoostHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker would go on to write into a file that nobody finds."""
    monkeypatch.setattr("roost.panel.catalogue._LEASE_PATIENCE", 0.0)
    file = write(home, "c1", said())
    with lease(file.with_suffix(".lease")), pytest.raises(CatalogueRefused, match="pid"):
        SavedConversations(home).delete(key("c1"))
    assert file.exists()


def test_only_what_was_attached_is_handed_out(home: RoostHome, tmp_path: Path) -> None:
    folder = home.project(PROJECT) / "attachments" / "c1"
    folder.mkdir(parents=True)
    (folder / "attachment-1-bed.png").write_bytes(b"bed")
    (folder / "attachment-link").symlink_to(tmp_path / "secret")
    (folder / "attachment-folder").mkdir()
    (folder / "other").write_bytes(b"other")
    (tmp_path / "secret").write_bytes(b"secret")
    catalogue = SavedConversations(home)
    assert catalogue.attachment(key("c1"), "attachment-1-bed.png") == b"bed"
    for name in (
        "attachment-link", "attachment-folder", "other", "attachment-none", "", "attachment-1\0",
        "attachment-/../../../secret", "../c1/attachment-1-bed.png",
    ):  # fmt: skip
        assert catalogue.attachment(key("c1"), name) is None, name
    assert catalogue.attachment(key("c2"), "attachment-1-bed.png") is None


def test_the_deleted_go_for_good_after_a_while(
    home: RoostHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = SavedConversations(home)
    write(home, "old", said())
    write(home, "new", said())
    catalogue.delete(key("old"))
    later = time.time() + (DELETED_KEPT_DAYS + 1) * 24 * 3600
    monkeypatch.setattr("roost.panel.catalogue.time.time", lambda: later)
    catalogue.delete(key("new"))
    with pytest.raises(CatalogueRefused):
        catalogue.restore(key("old"))
    catalogue.restore(key("new"))


def test_sessions_are_kept_for_their_owner_only(tmp_path: Path) -> None:
    store = SessionFile(tmp_path / "panel-sessions.json")
    assert store.load() == ()
    store.save(["a", "b"])
    assert store.load() == ("a", "b")
    assert store.file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "{", '{"a": 1}', "[1, 2]"])
def test_a_broken_file_of_sessions_signs_everybody_out(tmp_path: Path, content: str) -> None:
    file = tmp_path / "panel-sessions.json"
    file.write_text(content)
    assert SessionFile(file).load() == ()
    SessionFile(file).save(["a"])
    assert json.loads(file.read_text()) == ["a"]
