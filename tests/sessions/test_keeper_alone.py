"""What a keeper decides while no daemon lives: until when its worker goes on. Times are values."""

import json

from sessions.domain.backlog import Backlog
from sessions.domain.keeper_frames import Noted
from sessions.domain.keeping import INTERRUPT, Keeping, Signal
from sessions.domain.kept import Note, decode_note, encode_note
from sessions.domain.thread import Phase
from tests.sessions.test_keeping_machine import FakeSpool, a_launch, a_thread
from tests.sessions.test_thread_machine import PureWorker
from tests.support.scenes import line, run_asked, run_finished, run_started
from tests.support.time import HOUR, MINUTE

NOTE = encode_note(Note(generation="g", token="t"))


def a_core() -> Keeping:
    return Keeping(a_launch(), Backlog(FakeSpool()), now=0.0, note=NOTE)


def says(core: Keeping, now: float, *said: bytes) -> None:
    core.worker_wrote(b"".join(one + b"\n" for one in said), now)


def is_stopped(core: Keeping, now: float) -> bool:
    """Whether it has asked its worker to end by then."""
    core.due(now)
    return bool(core.inbox)


def test_an_idle_worker_is_stopped_ten_minutes_after_its_daemon_went() -> None:
    """Else a crash of the daemon would leave every worker there until somebody starts another."""
    core = a_core()
    core.detached(MINUTE)
    assert core.next_deadline == 11 * MINUTE
    assert not is_stopped(core, 10.9 * MINUTE)
    assert is_stopped(core, 11 * MINUTE)
    assert list(core.inbox) == [INTERRUPT + b"\n"]
    assert core.due(11 * MINUTE + 5.0) is Signal.TERM, "and is made to, after its grace"
    gone = core.worker_ended("exited with code 0", has_leftovers=False)
    assert gone.reason == "was stopped, because nobody needed it and no daemon ran"


def test_the_clock_that_the_daemon_began_goes_on() -> None:
    core = a_core()
    core.noted(Noted(NOTE, idle_since=MINUTE))
    core.detached(9 * MINUTE)
    assert not is_stopped(core, 10.9 * MINUTE)
    assert is_stopped(core, 11 * MINUTE)


def test_whoever_followed_until_the_daemon_went_has_ten_minutes_to_come_back() -> None:
    core = a_core()
    core.noted(Noted(NOTE, idle_since=MINUTE))
    core.noted(Noted(NOTE, idle_since=None))
    core.detached(9 * MINUTE)
    assert not is_stopped(core, 18.9 * MINUTE)
    assert is_stopped(core, 19 * MINUTE)


def test_with_a_daemon_the_daemon_decides() -> None:
    core = a_core()
    core.noted(Noted(NOTE, idle_since=0.0))
    assert core.next_deadline is None
    assert not is_stopped(core, 48 * HOUR)


def test_a_run_goes_on_without_a_daemon_and_the_ten_minutes_start_when_it_ends() -> None:
    core = a_core()
    says(core, 0.0, run_started())
    core.detached(MINUTE)
    assert not is_stopped(core, 3 * HOUR)
    says(core, 3 * HOUR, run_finished())
    assert not is_stopped(core, 3 * HOUR + 9.9 * MINUTE)
    assert is_stopped(core, 3 * HOUR + 10 * MINUTE)


def test_a_background_job_goes_on_without_a_daemon() -> None:
    core = a_core()
    says(core, 0.0, line("STATE_SNAPSHOT", snapshot={"backgroundTasks": {"running": 1}}))
    core.detached(0.0)
    assert not is_stopped(core, 3 * HOUR)


def test_a_run_that_waits_for_a_person_keeps_its_worker_a_day() -> None:
    core = a_core()
    says(core, 0.0, run_started(), run_asked("t1"))
    core.detached(0.0)
    assert not is_stopped(core, 23.9 * HOUR)
    assert is_stopped(core, 24 * HOUR)


def test_a_daemon_that_comes_while_the_worker_is_stopped_lets_it_end_and_launches_another() -> None:
    """What it passed on would be dropped, and nobody would say so to whoever wrote it."""
    core = a_core()
    core.detached(0.0)
    assert is_stopped(core, 10 * MINUTE)
    kept = core.attached(1)
    thread = a_thread()
    worker = PureWorker()
    thread.adopted(worker, kept, decode_note(kept.note), 10 * MINUTE)
    assert thread.phase is Phase.STOPPING
    assert worker.stopped
    message = {"type": "command", "id": "1", "name": "x"}
    core.line_for_worker(json.dumps(message).encode(), 10 * MINUTE)
    assert list(core.inbox) == [INTERRUPT + b"\n"]


def test_what_is_left_of_a_long_line_is_not_copied_each_time_a_part_of_it_is_written() -> None:
    """A snapshot of 256 MB through a socket of 200 kB would else be copied a thousand times."""
    data = b"x" * 1000
    backlog = Backlog(FakeSpool())
    backlog.put(b"head", data)
    backlog.written(10)
    backlog.written(90)
    (left,) = backlog.pieces()
    assert isinstance(left, memoryview)
    assert left.obj is data
    assert (bytes(left), len(backlog)) == (data[96:], 904)


def test_a_line_that_came_before_a_request_is_not_the_answer_to_it() -> None:
    """Lines are taken in late, many at a time; what they mean is decided by when they came."""
    core = a_core()
    says(core, 0.0, line("MESSAGES_SNAPSHOT", messages=[]))
    opening = {"type": "resume_conversation", "project_dir": "/p", "id": "c"}
    core.line_for_worker(json.dumps(opening).encode(), 1.0)
    kept = core.attached(1)
    assert kept.openings == 1, "whoever opened the thread waits still"
    assert [number for number, _ in kept.ring] == [1], "that one went to everyone"
