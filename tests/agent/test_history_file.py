"""The history file: private, append-only, repaired, and whole when the disk is full."""

import errno
import fcntl
import os
import resource
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agent.domain.entries import Begun, Entry, Said
from agent.domain.messages import Message
from agent.domain.ports import History, HistoryFailed
from agent.infrastructure.jsonl_history import JsonlHistory, file_stem
from agent.infrastructure.lease import ConversationInUse, lease
from tests.agent.support.fakes import FakeLog


def said(number: int) -> Entry:
    return Said(id=f"e{number}", at="t", message=Message(id=f"m{number}", role="user", content="x"))


def opened(path: Path, log: FakeLog | None = None) -> tuple[JsonlHistory, list[Entry]]:
    history = JsonlHistory(path, log or FakeLog())
    return history, history.load().entries


async def test_what_is_appended_is_there_for_the_next_to_open_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "c.jsonl"
    history, entries = opened(path)
    port: History = history
    assert entries == []
    await port.append([said(1), said(2)], sync=True)
    await port.append([said(3)], sync=False)
    history.close()
    again, entries = opened(path)
    again.close()
    assert [entry.id for entry in entries] == ["e1", "e2", "e3"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_torn_last_line_is_moved_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    history, _ = opened(path)
    await history.append([said(1), said(2)], sync=True)
    history.close()
    data = path.read_bytes()
    path.write_bytes(data[:-20] + b"x" * 500)
    log = FakeLog()
    history, entries = opened(path, log)
    assert [entry.id for entry in entries] == ["e1"]
    assert "history_tail_moved" in log.names()
    await history.append([said(3)], sync=True)
    history.close()
    history, entries = opened(path, log := FakeLog())
    history.close()
    assert [entry.id for entry in entries] == ["e1", "e3"]
    assert log.names() == []
    assert b'"id":"m2"' in path.with_suffix(".torn").read_bytes()


async def test_a_whole_last_line_that_only_lacks_its_newline_counts(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    history, _ = opened(path)
    await history.append([said(1), said(2)], sync=True)
    history.close()
    path.write_bytes(path.read_bytes()[:-1])
    history, entries = opened(path)
    await history.append([said(3)], sync=True)
    history.close()
    history, later = opened(path)
    history.close()
    assert [e.id for e in entries] == ["e1", "e2"]
    assert [e.id for e in later] == ["e1", "e2", "e3"]


@pytest.mark.parametrize(
    "bad", [b"{", b"\xff\xfe", b"[]", b'{"kind":"from-the-future","id":"x"}', b"null"]
)
async def test_a_bad_line_in_the_middle_is_skipped_and_kept(tmp_path: Path, bad: bytes) -> None:
    """Who is hurt: an older roost would throw away what a newer one wrote."""
    path = tmp_path / "c.jsonl"
    history, _ = opened(path)
    await history.append([Begun(id="e0", at="t", conversation_id="c", project_dir="/")], sync=True)
    history.close()
    path.write_bytes(path.read_bytes() + bad + b"\n")
    log = FakeLog()
    history, _ = opened(path, log)
    await history.append([said(1)], sync=True)
    history.close()
    history, entries = opened(path)
    history.close()
    assert [entry.id for entry in entries] == ["e0", "e1"]
    assert bad + b"\n" in path.read_bytes()
    assert log.names() == ["history_line_skipped"]


async def test_a_full_disk_leaves_no_half_entry(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    space = 0

    def write(fd: int, data: memoryview) -> int:
        nonlocal space
        if space <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = os.write(fd, data[:space])
        space -= written
        return written

    history = JsonlHistory(path, FakeLog(), write)
    history.load()
    space = 10_000
    await history.append([said(1)], sync=True)
    before = path.read_bytes()
    space = 40
    with pytest.raises(HistoryFailed, match="No space left"):
        await history.append([said(2)], sync=True)
    assert path.read_bytes() == before
    space = 10_000
    await history.append([said(3)], sync=True)
    history.close()
    history, entries = opened(path)
    history.close()
    assert [entry.id for entry in entries] == ["e1", "e3"]


def test_a_file_size_limit_of_the_kernel_is_met_the_same_way(tmp_path: Path) -> None:
    script = f"""
import anyio, signal, sys
from pathlib import Path
from tests.agent.test_history_file import opened, said
from agent.domain.ports import HistoryFailed
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
async def main():
    history, _ = opened(Path({str(tmp_path / "c.jsonl")!r}))
    for number in range(1000):
        try:
            await history.append([said(number)], sync=True)
        except HistoryFailed as exc:
            print(number, exc)
            return
anyio.run(main)
"""
    limit = 1000
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        # It would leave the first part of each module that it compiles, for all who come later.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    number, _, reason = found.stdout.partition(" ")
    assert "could not be written" in reason
    history, entries = opened(tmp_path / "c.jsonl")
    history.close()
    assert len(entries) == int(number) > 0


async def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryFailed, match="can't be opened"):
        JsonlHistory(tmp_path / "file" / "c.jsonl", FakeLog()).load()
    (tmp_path / "c.jsonl").mkdir()
    with pytest.raises(HistoryFailed, match="can't be opened"):
        JsonlHistory(tmp_path / "c.jsonl", FakeLog()).load()


def test_a_conversation_that_was_only_looked_at_leaves_no_file(tmp_path: Path) -> None:
    history, _ = opened(tmp_path / "c.jsonl")
    history.close()
    assert list(tmp_path.iterdir()) == []


def test_the_longest_id_has_a_file_name_that_file_systems_take(tmp_path: Path) -> None:
    one, other = "x" * 254 + "1", "x" * 254 + "2"
    assert file_stem(one) != file_stem(other)
    assert file_stem("a.b-c") == "a.b-c"
    with lease(tmp_path / f"{file_stem(one)}.lease"):
        pass


def test_a_second_owner_is_refused_with_the_firsts_pid(tmp_path: Path) -> None:
    refused = pytest.raises(ConversationInUse, match=rf"conversation c .*pid {os.getpid()}\)")
    with lease(tmp_path / "c.lease"), refused, lease(tmp_path / "c.lease"):
        raise NotImplementedError
    with lease(tmp_path / "c.lease"):
        pass
    assert not (tmp_path / "c.lease").exists()


def test_a_lease_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "c.lease").write_text("999999999 12345\n")
    with lease(tmp_path / "c.lease"):
        assert (tmp_path / "c.lease").read_text().startswith(f"{os.getpid()} ")


def test_who_waits_for_an_owner_that_ends_gets_the_conversation(tmp_path: Path) -> None:
    """The worker of a daemon that was killed lets its call end; the next one waits that long."""
    path = tmp_path / "c.lease"
    first = lease(path)
    first.__enter__()
    ends = threading.Timer(0.3, first.__exit__, (None, None, None))
    ends.start()
    with lease(path, patience=60):
        assert path.exists()
    ends.join(60)


def test_a_lease_that_its_last_owner_removed_meanwhile_is_not_taken_for_the_new_one(
    tmp_path: Path,
) -> None:
    """Two would own the conversation: one the removed file, one the file of that name."""
    path = tmp_path / "c.lease"
    opened = threading.Event()
    locked: list[int] = []

    def flock_late(fd: int, operation: int) -> None:
        if not opened.is_set():
            opened.set()
            path.unlink()
        locked.append(fd)
        fcntl.flock(fd, operation)

    with lease(path, lock=flock_late), pytest.raises(ConversationInUse), lease(path):
        raise NotImplementedError
    assert len(locked) == 2


async def test_what_is_to_be_synced_is_synced_and_the_folder_of_a_new_file_too(
    tmp_path: Path,
) -> None:
    synced: list[str] = []

    def sync(fd: int) -> None:
        synced.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")

    history = JsonlHistory(tmp_path / "c.jsonl", FakeLog(), sync=sync)
    history.load()
    await history.append([said(1)], sync=False)
    assert synced == ["folder"]
    await history.append([said(2)], sync=True)
    assert synced == ["folder", "file"]
    history.close()
