"""Whether a process comes from inside a worker, on a machine that is made up."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from connection.descent import Descent
from sessions.domain.keys import ThreadKey
from sessions.domain.ports import ThreadView
from sessions.domain.settings import RegistrySettings
from sessions.registry import Registry
from tests.support.fakes import FakeLauncher

WORKER = 50
TOKEN = "secret"


class OneWorker(Registry):
    """A `Threads` with one worker, which may not be known yet."""

    is_known = True

    def __init__(self) -> None:
        super().__init__(FakeLauncher(), RegistrySettings())

    def views(self) -> Sequence[ThreadView]:
        view = ThreadView(
            project_dir="/p", conversation_id="c", status="idle", run_id=None, interrupts=(),
            followers=0, worker_pid=WORKER if self.is_known else None, generation=None, since=0.0,
        )  # fmt: skip
        return [view]

    def worker_with(self, token: str) -> ThreadKey | None:
        is_mine = token == TOKEN and self.is_known
        return ThreadKey.parse("/p", "c") if is_mine else None


class Machine:
    """Its processes, and which of their files were looked at."""

    def __init__(self, folder: Path) -> None:
        self.threads = OneWorker()
        self.descent = Descent(self.threads, str(folder))
        self._folder = folder

    def runs(self, pid: int, parent: int, *environ: str, start: int = 1) -> None:
        own = self._folder / str(pid)
        own.mkdir(exist_ok=True)
        fields = ["S", str(parent), *["0"] * 17, str(start), "0"]
        (own / "stat").write_text(f"{pid} (a) b (c) {' '.join(fields)}")
        (own / "environ").write_bytes(b"\0".join(entry.encode() for entry in (*environ, "")))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.runs(10, 1, "SHELL=sh")
    made.runs(20, 10, "SHELL=sh")
    made.runs(WORKER, 10, f"ROOST_WORKER_TOKEN={TOKEN}", "A=b")
    return made


def test_who_descends_from_a_worker_is_inside_whatever_is_in_its_environment(
    machine: Machine,
) -> None:
    machine.runs(60, WORKER)
    machine.runs(61, 60)
    assert machine.descent.is_inside(WORKER)
    assert machine.descent.is_inside(61)
    assert not machine.descent.is_inside(20)
    assert not machine.descent.is_inside(99)


def test_who_carries_a_workers_token_is_inside_whoever_adopted_it(machine: Machine) -> None:
    machine.runs(70, 1, "B=c", f"ROOST_WORKER_TOKEN={TOKEN}")
    machine.runs(71, 1, "B=c", "ROOST_WORKER_TOKEN=of another daemon")
    machine.runs(72, 1, "X=ROOST_WORKER_TOKEN=secret")
    assert [machine.descent.is_inside(pid) for pid in (70, 71, 72)] == [True, False, False]


def test_the_ancestors_of_a_person_are_looked_at_once_and_each_program_anew(
    machine: Machine,
) -> None:
    """A connection must not cost the reading of a dozen files."""
    machine.runs(30, 20)
    assert not machine.descent.is_inside(30)
    # Were the shell's environment read again it would be seen now.
    machine.runs(20, 10, f"ROOST_WORKER_TOKEN={TOKEN}")
    assert not machine.descent.is_inside(30)
    machine.runs(31, 20, f"ROOST_WORKER_TOKEN={TOKEN}")
    assert machine.descent.is_inside(31)
    # Another process under the pid of one that was known.
    machine.runs(20, 10, f"ROOST_WORKER_TOKEN={TOKEN}", start=2)
    assert machine.descent.is_inside(30)


def test_nothing_below_a_worker_is_taken_for_a_persons_before_it_is_known(
    machine: Machine,
) -> None:
    machine.threads.is_known = False
    machine.runs(60, WORKER, f"ROOST_WORKER_TOKEN={TOKEN}")
    machine.runs(61, 60)
    machine.runs(62, 61)
    assert not machine.descent.is_inside(62)
    machine.threads.is_known = True
    machine.runs(63, 61)
    assert machine.descent.is_inside(62)
    assert machine.descent.is_inside(63)
