"""The tour itself: what is shown, in order, and what is checked at each step.

Nothing is staged: the daemon, its workers, the files, the crash and the answers are real. A step
that is not as promised ends the tour, and its exit code says so.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import click

from roost.demo.client import Event, NotAsPromised, TourClient, connected
from roost.demo.cuts import lose_and_return
from roost.demo.daemon import TourDaemon, a_daemon
from roost.demo.subagents import show_subagents
from roost.exit_codes import ExitCode
from roost.home import RoostHome

_THREAD = "tour"
_NOTES = "The launch is on Friday.\nBring the blue folder.\n"


def run_tour() -> ExitCode:
    """Run all steps in a temporary folder. Keeps the folder when one of them fails."""
    root = Path(tempfile.mkdtemp(prefix="roost-demo-")).resolve()
    began = time.monotonic()
    failures: list[str] = []
    try:
        anyio.run(_Tour(root).run)
    except* (NotAsPromised, TimeoutError) as group:
        failures = [str(failure) or "a wait was too long" for failure in _leaves(group)]
    if failures:
        for failure in failures:
            click.secho(f"\nNot as promised: {failure}", fg="red", err=True)
        click.echo(f"The tour's files are kept: {root} (the log is in home/logs)", err=True)
        return ExitCode.FAILED
    shutil.rmtree(root)
    click.echo(f"\nEvery step was as promised, in {time.monotonic() - began:.0f} s.")
    click.echo("Next: `roost daemon` starts yours; the README says how to set a model.")
    click.echo("In a browser: `roost panel`, once yours runs, shows all your agents.")
    return ExitCode.DONE


def _leaves(group: BaseExceptionGroup[Exception]) -> list[Exception]:
    """The exceptions of a group of groups: each task group on the way has wrapped them once."""
    leaves: list[Exception] = []
    for exc in group.exceptions:
        leaves += _leaves(exc) if isinstance(exc, BaseExceptionGroup) else [exc]
    return leaves


@dataclass(slots=True)
class _Tour:
    root: Path
    project: Path = field(init=False)
    home: RoostHome = field(init=False)
    _step: int = 0

    def __post_init__(self) -> None:
        self.project = self.root / "project"
        self.home = RoostHome(self.root / "home")

    async def run(self) -> None:
        self.project.mkdir()
        self.home.path.mkdir(mode=0o700)
        (self.project / "notes.txt").write_text(_NOTES)
        self.says("Starting a daemon, in a home of its own")
        began = time.monotonic()
        async with a_daemon(self.home) as daemon:
            self.checked(f"it serves on 127.0.0.1:{daemon.port}, {_ms(began)} after its start")
            async with (
                connected("the desktop", daemon.port, daemon.token) as desktop,
                connected("the phone", daemon.port, daemon.token) as phone,
            ):
                await self._open(daemon, desktop, phone)
                await self._read(desktop, phone)
                await self._approve(desktop, phone)
                await self._command(desktop, phone)
                await self._lose_a_client(daemon, desktop, phone)
                await self._cut(daemon)
                await self._crash(daemon, phone)
                await show_subagents(daemon, str(self.project), self)
                if sys.platform == "linux":
                    worker, mark = await self._kill_the_daemon(daemon, phone)
            if sys.platform != "linux":
                await self._end(daemon)
                return
            seen = _streamed(phone.events[mark:])
        async with a_daemon(self.home) as daemon:
            await self._go_on(daemon, worker, seen)
            await self._end(daemon)

    async def _open(self, daemon: TourDaemon, desktop: TourClient, phone: TourClient) -> None:
        self.says("Two clients open the same thread: a project folder and a conversation")
        began = time.monotonic()
        snapshot = await desktop.open(str(self.project), _THREAD)
        took = _ms(began)
        self.expect(snapshot["messages"] == [], "the conversation is new")
        await phone.open(str(self.project), _THREAD)
        (thread,) = await daemon.threads()
        self.expect(thread["followers"] == 2, "both follow it")
        self.checked(f"one worker (pid {thread['worker_pid']}) serves both, ready after {took}")

    async def _read(self, desktop: TourClient, phone: TourClient) -> None:
        self.says("The desktop asks the agent to read a file; both watch the answer stream in")
        mark, other = await desktop.say("read notes.txt", "m-read"), len(phone.events)
        result = await desktop.until("TOOL_CALL_RESULT", since=mark)
        self.expect("blue folder" in result["content"], "the agent read the real file")
        await _finished(desktop, mark)
        await _finished(phone, other)
        words = sum(e["type"] == "TEXT_MESSAGE_CONTENT" for e in desktop.events[mark:])
        self.expect(words > 3, "the text came in pieces")
        self.expect(_run(desktop, mark) == _run(phone, other), "both got the same bytes")
        self.checked(f"{len(_run(phone, other))} events, byte for byte the same on both clients")

    async def _approve(self, desktop: TourClient, phone: TourClient) -> None:
        self.says("The agent wants to write a file: that needs a person's approval")
        poem = self.project / "poem.txt"
        mark, other = (
            await desktop.say("write poem.txt: roses are red", "m-write"),
            len(phone.events),
        )
        asked = await _asked(phone, other)
        await _asked(desktop, mark)
        self.expect(not poem.exists(), "nothing was written yet")
        self.checked(f"both are asked: {asked['message']}")
        mark, other = len(desktop.events), len(phone.events)
        await phone.answer(asked["id"], "resolved")
        await _finished(desktop, mark)
        await _finished(phone, other)
        self.expect(poem.read_text() == "roses are red\n", "the file holds the text")
        self.checked("the phone approved, the file is written, and the desktop saw it")
        mark = len(desktop.events)
        await desktop.answer(asked["id"], "cancelled")
        # The same socket is answered in order: when this answer is here, the other was dropped.
        await desktop.send(type="command", id="after", name="get_state", args={})
        await desktop.until("command_result", since=mark)
        self.expect(len(desktop.events) == mark + 1, "nothing else happened")
        self.checked("the desktop's later 'no' was dropped: an answer counts once")

    async def _command(self, desktop: TourClient, phone: TourClient) -> None:
        self.says("The agent runs a shell command, once approved")
        mark, other = await desktop.say("run wc -l < notes.txt", "m-run"), len(phone.events)
        asked = await _asked(phone, other)
        await phone.answer(asked["id"], "resolved")
        result = await desktop.until("TOOL_CALL_RESULT", since=mark)
        output = json.loads(result["content"])["output"].strip()
        self.expect(output == "2", f"wc counted 2 lines, not {output!r}")
        await desktop.until("RUN_FINISHED", since=mark, where=_is_success)
        await phone.until("RUN_FINISHED", since=other, where=_is_success)
        self.checked("`wc -l` counted the 2 lines of the real file")

    async def _lose_a_client(
        self, daemon: TourDaemon, desktop: TourClient, phone: TourClient
    ) -> None:
        self.says("The desktop's connection is cut in the middle of a run")
        # Longer than anybody waits: it is stopped when all has been seen.
        mark, other = await desktop.say("slow 600", "m-slow"), len(phone.events)
        for _ in range(5):
            event = await desktop.until("TEXT_MESSAGE_CONTENT", since=mark)
            mark = desktop.events.index(event, mark) + 1
        desktop.cut()
        await daemon.until_status(_THREAD, "running")
        self.checked("the run goes on without it")
        async with connected("the desktop", daemon.port, daemon.token) as back:
            snapshot = await back.open(str(self.project), _THREAD)
            partial = _text_of(snapshot["messages"][-1])
            self.expect(bool(partial), "the snapshot holds the words so far")
            since = len(back.events)
            self.checked(f"back again, it is shown the {len(partial.split())} words so far ...")
            for _ in range(5):
                event = await back.until("TEXT_MESSAGE_CONTENT", since=since)
                since = back.events.index(event, since) + 1
            await phone.send(type="interrupt")
            await back.until("RUN_FINISHED", since=since)
            await phone.until("RUN_FINISHED", since=other)
            shown = partial + _streamed(back.events)
            whole = _streamed(phone.events[other:])
            self.expect(shown == whole, f"the text is whole: {shown!r} is not {whole!r}")
            self.checked(f"... and the rest: {len(whole.split())} words, none lost, none doubled")

    async def _cut(self, daemon: TourDaemon) -> None:
        self.says("A program's connection is cut again and again in the middle of a run")
        seen = await lose_and_return(daemon.socket, self.project, _THREAD)
        self.expect(seen.cuts > 2 and seen.returns == seen.cuts, f"it came back: {seen}")
        self.expect(seen.words > 0 and not (seen.lost or seen.doubled), f"all is there: {seen}")
        self.checked(
            f"{seen.cuts} cuts, back each time: {seen.words} words shown,"
            f" {seen.lost} lost, {seen.doubled} doubled"
        )

    async def _crash(self, daemon: TourDaemon, phone: TourClient) -> None:
        self.says("A command waits for approval when its worker is killed (SIGKILL)")
        proof = self.project / "proof.txt"
        mark = await phone.say("run echo once >> proof.txt", "m-crash")
        asked = await _asked(phone, mark)
        thread = await daemon.until_status(_THREAD, "waiting")
        killed = thread["worker_pid"]
        os.kill(killed, signal.SIGKILL)
        await daemon.until_status(_THREAD, "waiting", where=lambda t: t["worker_pid"] is None)
        self.expect(not proof.exists(), "nothing was run")
        self.checked(f"worker {killed} is dead; the question is still open")
        mark = len(phone.events)
        await phone.answer(asked["id"], "resolved")
        await _finished(phone, mark)
        (thread,) = await daemon.threads()
        self.expect(thread["worker_pid"] != killed, "a new worker is there")
        self.expect(proof.read_text() == "once\n", "the command ran exactly once")
        self.checked(f"answered now: worker {thread['worker_pid']} ran the command, exactly once")

    async def _kill_the_daemon(self, daemon: TourDaemon, phone: TourClient) -> tuple[int, int]:
        """Returns the worker that goes on, and from where the phone's events of this run are."""
        self.says("The daemon itself is killed (SIGKILL) in the middle of a run")
        began = await phone.say("slow 40", "m-kill")
        mark = began
        for _ in range(5):
            event = await phone.until("TEXT_MESSAGE_CONTENT", since=mark)
            mark = phone.events.index(event, mark) + 1
        (thread,) = await daemon.threads()
        daemon.process.kill()
        await daemon.process.wait()
        self.expect(_is_alive(thread["worker_pid"]), "the worker goes on without it")
        self.checked(f"no daemon is there; worker {thread['worker_pid']} goes on")
        return thread["worker_pid"], began

    async def _go_on(self, daemon: TourDaemon, worker: int, seen: str) -> None:
        (thread,) = await daemon.threads()
        self.expect(thread["worker_pid"] == worker, "the new daemon took the worker over")
        self.checked(f"a new daemon has taken worker {worker} over, its run {thread['status']}")
        async with connected("the phone", daemon.port, daemon.token) as phone:
            snapshot = await phone.open(str(self.project), _THREAD)
            partial = _text_of(snapshot["messages"][-1])
            await daemon.until_status(_THREAD, "idle")
            # The same socket is answered in order: with this answer all events are here.
            await phone.send(type="command", id="after", name="get_state", args={})
            await phone.until("command_result", since=0)
            shown = partial + _streamed(phone.events)
            self.expect(shown.startswith(seen), "what was seen before is still so")
            words = [f"word{number}" for number in range(1, 41)]
            counted = [word for word in shown.split() if word in words]
            self.expect(counted == words, f"each word came once: {counted}")
            self.checked(
                f"the phone is back: {len(counted)} words, {len(seen.split())} of them from"
                " before, none lost, none doubled"
            )

    async def _end(self, daemon: TourDaemon) -> None:
        self.says("The daemon is told to stop")
        pids = [t["worker_pid"] for t in await daemon.threads() if t["worker_pid"]]
        code = await daemon.end()
        self.expect(code == 0, f"it exits with 0, not {code}")
        self.expect(not self.home.daemon_json.exists(), "its run file is gone")
        self.expect(not any(_is_alive(pid) for pid in pids), "its workers are gone")
        saved = list(self.home.conversations(str(self.project)).glob("*.jsonl"))
        self.expect(len(saved) == 4, "the conversations are on disk")
        self.checked("no process is left; the conversations are on disk")

    def says(self, what: str) -> None:
        self._step += 1
        click.secho(f"\n{self._step}. {what}", bold=True)

    def checked(self, what: str) -> None:
        click.echo(click.style("   ok ", fg="green") + what)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            raise NotAsPromised(f"step {self._step} should have shown that {what}")


async def _finished(client: TourClient, mark: int) -> Event:
    """The end of a run that did what it was asked."""
    return await client.until("RUN_FINISHED", since=mark, where=_is_success)


async def _asked(client: TourClient, mark: int) -> dict[str, Any]:
    """The one interrupt that a run ended with."""
    ended = await client.until("RUN_FINISHED", since=mark, where=lambda e: not _is_success(e))
    (interrupt,) = ended["outcome"]["interrupts"]
    return dict(interrupt)


def _is_success(event: Event) -> bool:
    return bool(event.get("outcome", {"type": "success"})["type"] == "success")


def _run(client: TourClient, mark: int) -> list[str]:
    """The frames of the run behind a mark."""
    kinds = [event["type"] for event in client.events]
    start = kinds.index("RUN_STARTED", mark)
    return client.frames[start : kinds.index("RUN_FINISHED", start) + 1]


def _streamed(events: list[Event]) -> str:
    return "".join(e["delta"] for e in events if e["type"] == "TEXT_MESSAGE_CONTENT")


def _text_of(message: dict[str, Any]) -> str:
    return str(message.get("content") or "") if message["role"] == "assistant" else ""


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _ms(began: float) -> str:
    return f"{(time.monotonic() - began) * 1000:.0f} ms"
