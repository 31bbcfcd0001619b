"""The journal in a SQLite file: write-ahead log, synchronous FULL, one writer thread.

What waits when the thread is free is written in one transaction, so that many commands share one
flush. The states are in memory, in a `Book`; the file is what a next process starts from. The
result of a command need not be awaited: were it lost, a repeat is told that nobody knows.
"""

import os
import sqlite3
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue

import anyio
import anyio.from_thread
import anyio.to_thread
import structlog

from connection.journal import Book, Claim, JournalFailed, Key, State

log = structlog.stdlib.get_logger()

FILE = "commands.sqlite"
# Results that no client came back for are kept so long.
_KEEP_SECONDS = 7 * 86_400.0
_SCHEMA_VERSION = 2
_SCHEMA = """
CREATE TABLE IF NOT EXISTS commands (
    client_id TEXT NOT NULL,
    command_id TEXT NOT NULL,
    command TEXT NOT NULL,
    received_at REAL NOT NULL,
    result BLOB,
    asked BLOB,
    PRIMARY KEY (client_id, command_id)
) WITHOUT ROWID
"""
# Version 1 did not record what was asked for.
_FROM_VERSION_1 = "ALTER TABLE commands ADD COLUMN asked BLOB"
_RECEIVED = "INSERT INTO commands VALUES (?, ?, ?, ?, NULL, ?)"
_COMPLETED = "UPDATE commands SET result = ? WHERE client_id = ? AND command_id = ?"
_FORGOTTEN = "DELETE FROM commands WHERE client_id = ? AND command_id = ?"


@dataclass(slots=True)
class _Write:
    """One statement, and who waits until it is on the disk."""

    sql: str
    values: tuple[object, ...]
    done: anyio.Event | None = None
    failure: Exception | None = None


class SqliteJournal:
    """Implements `connection.journal.CommandJournal`, while `serving` is entered."""

    def __init__(self, folder: Path, book: Book | None = None) -> None:
        self.file = folder / FILE
        self._book = Book() if book is None else book
        self._received: set[Key] = set()
        self._waiting: dict[Key, anyio.Event] = {}
        self._writes: SimpleQueue[_Write | None] = SimpleQueue()
        self._connection: sqlite3.Connection | None = None

    def open(self) -> sqlite3.Connection:
        """Open the file and read what an earlier process left. Raises JournalFailed."""
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            connection = sqlite3.connect(
                self.file, isolation_level=None, check_same_thread=False, timeout=5.0
            )
        except (OSError, sqlite3.Error) as exc:
            raise JournalFailed(f"the command journal {self.file} can't be opened: {exc}") from exc
        try:
            self._read(connection)
        except (sqlite3.Error, JournalFailed) as exc:
            connection.close()
            raise _damaged(self.file, exc) from exc
        return connection

    @contextmanager
    def opened(self) -> Generator[None]:
        """Hold the file open while the block runs. Raises JournalFailed."""
        with closing(self.open()) as self._connection:
            yield

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Write to the opened file while the block runs; leaving it writes what waits."""
        assert self._connection is not None, "it is opened first"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write_in_thread, self._connection)
            try:
                yield
            finally:
                self._writes.put(None)

    # CommandJournal

    def state(self, key: Key) -> State:
        return self._book.state(key)

    def begin(self, key: Key, asked: bytes) -> Claim:
        claim = self._book.begin(key, asked)
        if claim is Claim.NEW:
            self._waiting[key] = anyio.Event()
        return claim

    async def received(self, key: Key, command: str, asked: bytes) -> None:
        write = _Write(_RECEIVED, (*key, command, time.time(), asked), anyio.Event())
        self._received.add(key)
        self._writes.put(write)
        assert write.done is not None, "somebody waits"
        await write.done.wait()
        if write.failure is not None:
            self._received.discard(key)
            raise JournalFailed(
                f"the command was not carried out, because {self.file} can't be written:"
                f" {write.failure}"
            )

    def completed(self, key: Key, result: bytes) -> None:
        self._book.complete(key, result)
        self._received.discard(key)
        self._writes.put(_Write(_COMPLETED, (result, *key)))
        self._make_room()
        self._tell(key)

    def abandoned(self, key: Key) -> None:
        if self._book.state(key) is State.RUNNING:
            self._book.abandon(key, was_received=key in self._received)
            self._received.discard(key)
            self._make_room()
            self._tell(key)

    async def result(self, key: Key) -> bytes | None:
        if (running := self._waiting.get(key)) is not None:
            await running.wait()
        return self._book.result(key)

    def acknowledged(self, key: Key) -> None:
        if self._book.acknowledge(key):
            self._writes.put(_Write(_FORGOTTEN, key))

    def _make_room(self) -> None:
        while (oldest := self._book.forget_oldest()) is not None:
            self._writes.put(_Write(_FORGOTTEN, oldest))

    def _tell(self, key: Key) -> None:
        if (waiting := self._waiting.pop(key, None)) is not None:
            waiting.set()

    # The file

    def _read(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        version = _verified(connection)
        # In one step: a start that dies in between finds the file as it was.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_FROM_VERSION_1 if version == 1 else _SCHEMA)
        connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
        connection.execute("COMMIT")
        oldest = time.time() - _KEEP_SECONDS
        connection.execute("DELETE FROM commands WHERE received_at < ?", (oldest,))
        for client_id, command_id, asked, result in connection.execute(
            "SELECT client_id, command_id, asked, result FROM commands ORDER BY received_at"
        ):
            self._book.load((client_id, command_id), asked, result)
        self._make_room()

    async def _write_in_thread(self, connection: sqlite3.Connection) -> None:
        # Not abandoned when cancelled: what was handed over is written, and the end comes soon.
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._write, connection, limiter=_own_thread())

    def _write(self, connection: sqlite3.Connection) -> None:
        """The writer thread: everything that waits in one transaction, until the end."""
        is_over = False
        while not is_over:
            batch = [self._writes.get()]
            while not self._writes.empty():
                batch.append(self._writes.get())
            is_over = None in batch
            self._commit(connection, [write for write in batch if write is not None])

    def _commit(self, connection: sqlite3.Connection, batch: list[_Write]) -> None:
        if not batch:
            return
        failure: Exception | None = None
        try:
            connection.execute("BEGIN IMMEDIATE")
            for write in batch:
                connection.execute(write.sql, write.values)
            connection.execute("COMMIT")
        except sqlite3.Error as exc:
            failure = exc
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        anyio.from_thread.run_sync(self._written, batch, failure)

    def _written(self, batch: list[_Write], failure: Exception | None) -> None:
        if failure is not None:
            log.error("journal_not_written", reason=str(failure))
        for write in batch:
            write.failure = failure
            if write.done is not None:
                write.done.set()


def move_aside(folder: Path) -> Path | None:
    """Put a journal that can't be read out of the way; returns where it is now, if there was one.

    Call it while no daemon runs. Nothing is deleted.
    """
    file = folder / FILE
    if not file.exists():
        return None
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    aside = file.with_name(f"{FILE}.damaged-{stamp}")
    for suffix in ("", "-wal", "-shm"):
        part = file.with_name(FILE + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    return aside


def check(folder: Path) -> str | None:
    """What is wrong with the journal, in a sentence; None when nothing is. Changes nothing."""
    file = folder / FILE
    if not file.exists():
        return None
    try:
        with closing(sqlite3.connect(file)) as found:
            _verified(found)
    except (sqlite3.Error, JournalFailed) as exc:
        return str(_damaged(file, exc))
    return None


def _verified(connection: sqlite3.Connection) -> int:
    """The version of a journal that can be read. Raises JournalFailed, sqlite3.Error."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not 0 <= version <= _SCHEMA_VERSION:
        known = f"this roost knows up to {_SCHEMA_VERSION}"
        raise JournalFailed(f"it is of version {version}, and {known}")
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise JournalFailed(" ".join(str(verdict).split()))
    return int(version)


def _damaged(file: Path, reason: Exception) -> JournalFailed:
    return JournalFailed(
        f"the command journal {file} is damaged ({reason}). `roost doctor --fix` moves it aside;"
        " commands that it remembered can't be told from new ones then"
    )


def _own_thread() -> anyio.CapacityLimiter:
    """The writer lives as long as the daemon: it takes no place from others."""
    return anyio.CapacityLimiter(1)
