"""The command journal: whatever dies when, a command is carried out at most once."""

import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from connection.at_most_once import at_most_once
from connection.journal import Book, Claim, IdTaken, JournalFailed, Key, State, fingerprint
from connection.sqlite_journal import FILE, SqliteJournal, check, move_aside

KEY: Key = ("client", "1")
ASKED = fingerprint({"type": "prompt", "text": "hello"})


class BookMachine(RuleBasedStateMachine):
    """Clients send, send again and acknowledge; the process dies anywhere.

    Some clients are wrong: they send another command under an id that they have used.
    """

    keys = st.sampled_from([("a", "1"), ("a", "2"), ("b", "1")])
    commands = st.sampled_from([b"one", b"another"])

    def __init__(self) -> None:
        super().__init__()
        self.book = Book()
        self.received: set[Key] = set()
        self.results: dict[Key, bytes] = {}
        self.done: dict[Key, int] = {}
        self.acknowledged: set[Key] = set()
        self.running: set[Key] = set()
        self.asked: dict[Key, bytes] = {}

    @rule(key=keys, command=commands)
    def comes(self, key: Key, command: bytes) -> None:
        if key in self.acknowledged:
            return  # its client has the result and repeats it no more
        claim = self.book.begin(key, command)
        if key not in self.asked:
            assert claim is Claim.NEW
            self.asked[key] = command
            self.running.add(key)
        else:
            same = self.asked[key] == command
            assert claim is (Claim.REPEAT if same else Claim.ANOTHER)

    @rule(key=keys, recorded=st.booleans())
    def is_carried_out(self, key: Key, recorded: bool) -> None:
        if key not in self.running:
            return
        self.received.add(key)
        self.done[key] = self.done.get(key, 0) + 1
        self.running.discard(key)
        if recorded:
            self.results[key] = b"r"
            self.book.complete(key, b"r")
        else:
            self.book.abandon(key, was_received=True)

    @rule(key=keys)
    def is_acknowledged(self, key: Key) -> None:
        if self.book.acknowledge(key):
            self.acknowledged.add(key)

    @rule()
    def dies(self) -> None:
        """A new process knows what was recorded, and nothing else."""
        self.received |= self.running
        self.running.clear()
        self.book = Book()
        for key in self.received - self.acknowledged:
            self.book.load(key, self.asked[key], self.results.get(key))

    @invariant()
    def nothing_is_done_twice(self) -> None:
        assert all(count == 1 for count in self.done.values())

    @invariant()
    def what_has_a_result_is_not_uncertain(self) -> None:
        for key in self.results.keys() - self.acknowledged:
            assert self.book.state(key) is State.COMPLETE
            assert self.book.result(key) == b"r"


BookMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestBook = BookMachine.TestCase


class Dies(Exception):
    """The process ends here."""


STEPS = ("before it is received", "received", "before the effect", "effect", "result", "reply")


@pytest.mark.parametrize("last_step", STEPS)
async def test_a_crash_after_any_step_and_a_repeat_do_it_at_most_once(
    tmp_path: Path, last_step: str
) -> None:
    """What is on the disk at that moment is all that the next process has."""
    effects: list[str] = []
    crashed = tmp_path / "crashed"

    def passes(step: str) -> None:
        if step == last_step:
            shutil.copytree(tmp_path / "first", crashed)
            raise Dies

    first = SqliteJournal(tmp_path / "first")
    try:
        with first.opened():
            async with first.serving():
                passes("before it is received")

                async def act() -> bytes:
                    passes("received")
                    passes("before the effect")
                    effects.append("effect")
                    passes("effect")
                    return b"result"

                assert await at_most_once(first, KEY, "prompt", ASKED, act) == b"result"
                # One more record, so that the result before it is surely on the disk.
                await first.received(("other", "1"), "prompt", ASKED)
                passes("result")
                passes("reply")
    except* Dies:
        pass

    again = SqliteJournal(crashed)
    with again.opened():
        async with again.serving():

            async def act_again() -> bytes:
                effects.append("effect")
                return b"result"

            told = await at_most_once(again, KEY, "prompt", ASKED, act_again)
            with pytest.raises(IdTaken):
                await at_most_once(again, KEY, "prompt", b"another", act_again)
    assert len(effects) <= 1
    if last_step == "before it is received":
        assert (told, effects) == (b"result", ["effect"])
    elif last_step in ("result", "reply"):
        assert told == b"result"
    else:
        assert told is None  # nobody knows, and that is what is said


async def test_two_at_once_are_carried_out_once_and_both_are_told(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path)
    effects, told = list[int](), list[bytes | None]()
    with anyio.fail_after(30), journal.opened():
        async with journal.serving():
            release = anyio.Event()

            async def act() -> bytes:
                effects.append(1)
                await release.wait()
                return b"one"

            async def send() -> None:
                told.append(await at_most_once(journal, KEY, "prompt", ASKED, act))

            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(send)
                await anyio.wait_all_tasks_blocked()
                release.set()
    assert (len(effects), told) == (1, [b"one"] * 3)


async def test_an_acknowledged_command_is_gone_from_the_file(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path)
    with anyio.fail_after(30), journal.opened():
        async with journal.serving():

            async def act() -> bytes:
                return b"one"

            await at_most_once(journal, KEY, "prompt", ASKED, act)
            journal.acknowledged(KEY)
            journal.acknowledged(("nobody", "1"))
            # Forgotten, so its id is free again.
            assert await at_most_once(journal, KEY, "prompt", b"another", act) == b"one"
            journal.acknowledged(KEY)
    with sqlite3.connect(tmp_path / FILE) as file:
        assert file.execute("SELECT count(*) FROM commands").fetchone() == (0,)
    file.close()


async def test_the_oldest_go_when_nobody_acknowledges(tmp_path: Path) -> None:
    async def act() -> bytes:
        return b"12345"

    async def remembered(book: Book, *more: str) -> list[str]:
        journal = SqliteJournal(tmp_path, book)
        with anyio.fail_after(30), journal.opened():
            async with journal.serving():
                for number in more:
                    await at_most_once(journal, ("deaf", number), "prompt", ASKED, act)
        with closing(sqlite3.connect(tmp_path / FILE)) as file:
            return [row[0] for row in file.execute("SELECT command_id FROM commands ORDER BY 1")]

    assert await remembered(Book(most=3), "1", "2", "3", "4") == ["2", "3", "4"]
    assert await remembered(Book(most=3), "5") == ["3", "4", "5"]
    # A start with less room, here of bytes, has to make it, too.
    assert await remembered(Book(most_bytes=12)) == ["4", "5"]
    assert await remembered(Book(most_bytes=12), "6") == ["5", "6"]
    # The latest stays, or its repeat would be carried out again.
    assert await remembered(Book(most_bytes=4), "7") == ["7"]


def damage_header(file: Path) -> None:
    file.write_bytes(b"this is not a database" * 100)


def damage_page(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[4096 + 10 : 4096 + 500] = b"\xff" * 490
    file.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [damage_header, damage_page])
async def test_a_damaged_journal_stops_the_start_and_can_be_put_aside(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Going on without it would do again what it remembers."""
    assert check(tmp_path) is None
    assert move_aside(tmp_path) is None
    journal = SqliteJournal(tmp_path)
    with journal.opened():
        async with journal.serving():
            for number in range(200):
                await journal.received(("client", str(number)), "prompt", ASKED)
    assert check(tmp_path) is None
    damage(tmp_path / FILE)
    with pytest.raises(JournalFailed, match=r"is damaged .* `roost doctor --fix` moves"):
        journal.open()
    assert check(tmp_path) is not None
    aside = move_aside(tmp_path)
    assert aside is not None
    assert aside.exists()
    assert check(tmp_path) is None
    SqliteJournal(tmp_path).open().close()


def test_ids_with_separators_are_two_commands() -> None:
    book = Book()
    assert book.begin(("a,b", "c"), ASKED) is Claim.NEW
    assert book.begin(("a", "b,c"), ASKED) is Claim.NEW


def test_a_command_is_the_same_in_whatever_order_its_fields_come() -> None:
    assert fingerprint({"text": "hello", "type": "prompt"}) == ASKED
    assert fingerprint({"text": "hello!", "type": "prompt"}) != ASKED


async def test_an_uncertain_command_is_forgotten_once_its_client_was_told(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path)
    with journal.opened():
        async with journal.serving():
            journal.begin(KEY, ASKED)
            await journal.received(KEY, "prompt", ASKED)
            journal.abandoned(KEY)
            assert await journal.result(KEY) is None
            journal.acknowledged(KEY)
            assert journal.state(KEY) is State.UNKNOWN


def test_a_journal_without_fingerprints_is_taken_over_with_all_that_it_remembers(
    tmp_path: Path,
) -> None:
    """Of what it recorded nobody can tell whether a repeat asks for the same: it is believed."""
    with closing(sqlite3.connect(tmp_path / FILE)) as old, old:
        old.execute(
            "CREATE TABLE commands (client_id TEXT NOT NULL, command_id TEXT NOT NULL,"
            " command TEXT NOT NULL, received_at REAL NOT NULL, result BLOB,"
            " PRIMARY KEY (client_id, command_id)) WITHOUT ROWID"
        )
        row = (*KEY, "prompt", time.time(), b"result")
        old.execute("INSERT INTO commands VALUES (?, ?, ?, ?, ?)", row)
        old.execute("PRAGMA user_version = 1")
    assert check(tmp_path) is None
    with closing(sqlite3.connect(tmp_path / FILE)) as looked_at:
        assert looked_at.execute("PRAGMA user_version").fetchone() == (1,)
    for _ in range(2):
        journal = SqliteJournal(tmp_path)
        with journal.opened():
            assert journal.begin(KEY, ASKED) is Claim.REPEAT
            assert journal.state(KEY) is State.COMPLETE
