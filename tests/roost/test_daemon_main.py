"""The daemon's life with fakes for what it enters: the order of its end, and the second signal."""

import signal
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from roost.daemon.main import Daemon
from roost.daemon.run_file import RunFile
from roost.exit_codes import ExitCode


@dataclass(slots=True)
class Parts:
    """Both things a daemon enters; they record what is done to them."""

    run_file: RunFile
    seen: list[str] = field(default_factory=list[str])
    slow_workers: bool = False
    slow_clients: bool = False
    fails: bool = False
    number: int | None = 1234


class FakeRegistry:
    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.hurried = anyio.Event()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        self.parts.seen.append("registry in")
        yield
        if self.parts.slow_workers:
            if not self.parts.slow_clients:
                signal.raise_signal(signal.SIGTERM)
            await self.hurried.wait()
        self.parts.seen.append("registry out")

    def hurry(self) -> None:
        self.parts.seen.append("registry hurried")
        self.hurried.set()

    def leave_workers(self) -> None:
        self.parts.seen.append("registry leaves workers")


class FakeLaunching:
    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        yield

    def leave_workers(self) -> None:
        self.parts.seen.append("launching leaves workers")


class FakePort:
    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.hurried = anyio.Event()

    @contextmanager
    def opened(self) -> Generator[int | None]:
        yield self.parts.number

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        self.parts.seen.append("port in")
        if self.parts.fails:
            raise OSError("no")
        yield
        if self.parts.slow_clients:
            signal.raise_signal(signal.SIGTERM)
            await self.hurried.wait()
        self.parts.seen.append("port out")

    def hurry(self) -> None:
        self.parts.seen.append("port hurried")
        self.hurried.set()


class FakeLocal:
    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    @contextmanager
    def opened(self) -> Generator[None]:
        self.parts.seen.append("local opened")
        yield
        self.parts.seen.append("local closed")

    @asynccontextmanager
    async def serving(self, generation: str) -> AsyncGenerator[Path]:
        self.parts.seen.append("local in")
        yield Path("/run/daemon.sock")
        self.parts.seen.append("local out")

    def hurry(self) -> None:
        self.parts.seen.append("local hurried")


class FakeChannels:
    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        self.parts.seen.append("channels in")
        yield
        self.parts.seen.append("channels out")


def daemon_of(parts: Parts) -> Daemon:
    return Daemon(
        launching=FakeLaunching(parts),
        registry=FakeRegistry(parts),
        port=FakePort(parts),
        local=FakeLocal(parts),
        channels=FakeChannels(parts),
        run_file=parts.run_file,
    )


def file_in(folder: Path) -> RunFile:
    return RunFile(folder / "daemon.json")


async def run_until_signalled(parts: Parts, signum: signal.Signals = signal.SIGTERM) -> ExitCode:
    codes: list[ExitCode] = []

    async def run() -> None:
        codes.append(await daemon_of(parts).run())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await anyio.wait_all_tasks_blocked()
            assert parts.run_file.file.exists()
            signal.raise_signal(signum)
    return codes[0]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_clients_leave_before_workers_stop(tmp_path: Path, signum: signal.Signals) -> None:
    """A client that is still there would be told that every run failed."""
    parts = Parts(file_in(tmp_path))
    assert await run_until_signalled(parts, signum) is ExitCode.DONE
    assert parts.seen == [
        "local opened",
        "registry in",
        "local in",
        "port in",
        "channels in",
        "channels out",
        "port out",
        "local out",
        "registry out",
        "local closed",
    ]
    assert not parts.run_file.file.exists()


async def test_a_second_signal_hurries_the_workers(tmp_path: Path) -> None:
    parts = Parts(file_in(tmp_path), slow_workers=True)
    assert await run_until_signalled(parts) is ExitCode.DONE
    assert parts.seen[-3:-1] == ["registry hurried", "registry out"]


async def test_a_second_signal_hurries_the_clients_and_then_the_workers(tmp_path: Path) -> None:
    parts = Parts(file_in(tmp_path), slow_clients=True, slow_workers=True)
    assert await run_until_signalled(parts) is ExitCode.DONE
    assert parts.seen.index("port hurried") < parts.seen.index("registry hurried")
    assert "registry out" in parts.seen


async def test_workers_are_told_where_the_daemon_listens(tmp_path: Path) -> None:
    """Their subagents dial in there."""
    daemon = daemon_of(Parts(file_in(tmp_path), fails=True))
    with pytest.raises(ExceptionGroup), anyio.fail_after(60):
        await daemon.run()
    assert daemon.worker_environ["ROOST_BINDING__URL"] == "ws://127.0.0.1:1234/ws"


async def test_without_a_port_workers_are_told_of_none(tmp_path: Path) -> None:
    """Not even of the one that this daemon was started with: it is another daemon's."""
    daemon = daemon_of(Parts(file_in(tmp_path), fails=True, number=None))
    daemon.worker_environ["ROOST_BINDING__URL"] = "ws://127.0.0.1:9/ws"
    with pytest.raises(ExceptionGroup), anyio.fail_after(60):
        await daemon.run()
    assert "ROOST_BINDING__URL" not in daemon.worker_environ


async def test_a_daemon_that_could_not_serve_leaves_no_run_file(tmp_path: Path) -> None:
    parts = Parts(file_in(tmp_path), fails=True)
    with pytest.raises(ExceptionGroup), anyio.fail_after(60):
        await daemon_of(parts).run()
    assert not parts.run_file.file.exists()
