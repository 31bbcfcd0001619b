"""Kill a real worker at every write of a scripted conversation, and see what is left.

A program of its own with one thread: it imports what a worker needs once and forks a worker for
each life, so that hundreds of real processes fit into half a minute. The fault points are the
writes of the history itself (`JsonlHistory`'s way to write): before one, in the middle of one, and
after one whose caller has not been told. The client of a life keeps what it was told, sends again
what it can't know to have arrived, and answers what is open.

    python -m tests.agent.support.crash_matrix FOLDER MOMENT FIRST STEP

prints one JSON line for each place of death: at the writes FIRST, FIRST + STEP and so on.
"""

import gc
import json
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from agent.infrastructure.jsonl_history import JsonlHistory
from roost.headless import opened
from roost.headless.main import run
from roost.headless.options import Options
from roost.pad.warm_up import warm_up
from sessions.infrastructure.descendants import become_subreaper

Moment = Literal["before", "torn", "after"]
Line = dict[str, Any]
PROMPTS = (
    ("m1", "run echo one >> effects\nrun echo two >> effects\nask Really?"),
    ("m2", "think\nwrite notes.txt: hello\nread notes.txt"),
)
EFFECTS = ("one", "two")
# A life takes a few tenths of a second; this is for a machine that does other things too.
_PATIENCE = 180.0


class Died(Exception):
    """The worker is gone."""


@dataclass(slots=True)
class Fault:
    """Writes as the history does, and kills its process at one of them."""

    place: int
    moment: Moment
    count: int = 0

    def __call__(self, fd: int, data: memoryview) -> int:
        self.count += 1
        if self.count == self.place:
            if self.moment != "before":
                os.write(fd, data if self.moment == "after" else data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return os.write(fd, data)


@dataclass(slots=True)
class Life:
    """One worker process, and its client's end of it."""

    pid: int
    stdin: int
    stdout: int
    lines: list[Line] = field(default_factory=list[Line])
    was_killed: bool = False
    _rest: bytes = b""
    _commands: int = 0

    def send(self, frame: Line) -> None:
        try:
            os.write(self.stdin, json.dumps(frame).encode() + b"\n")
        except BrokenPipeError:
            raise Died from None

    def next(self) -> Line:
        while b"\n" not in self._rest:
            if not select.select([self.stdout], [], [], _PATIENCE)[0]:
                raise TimeoutError(f"the worker says nothing; its last line: {self.lines[-1:]}")
            data = os.read(self.stdout, 1 << 16)
            if not data:
                raise Died
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        self.lines.append(json.loads(line))
        return self.lines[-1]

    def command(self, name: str, **args: object) -> Line:
        self._commands += 1
        command_id = str(self._commands)
        self.send({"type": "command", "id": command_id, "name": name, "args": args})
        while True:
            line = self.next()
            if line["type"] == "command_result" and line["id"] == command_id:
                data: Line = line["data"]
                return data

    def settle(self) -> Line:
        """Read until nothing runs; the state then."""
        while True:
            state = self.command("get_state")
            if state["runId"] is None and (state["interrupts"] or not state["queue"]):
                return state
            while self.next()["type"] not in ("RUN_FINISHED", "RUN_ERROR"):
                pass

    def snapshot(self) -> list[Line]:
        self.send({"type": "resume_conversation", "id": "c"})
        while (line := self.next())["type"] != "MESSAGES_SNAPSHOT":
            pass
        messages: list[Line] = line["messages"]
        return messages

    def end(self) -> None:
        os.close(self.stdin)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.stdout)
        self.was_killed = os.WIFSIGNALED(status)
        # Its command ends with it, in its own time, which the next life must not meet.
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)


def begin(folder: Path, fault: Fault | None) -> Life:
    """Fork a worker of the project in the folder."""
    to_worker, from_worker = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.dup2(to_worker[0], 0)
        os.dup2(from_worker[1], 1)
        log = os.open(folder / "stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 2)
        os.closerange(3, 256)
        os.environ["ROOST_HOME"] = str(folder / "home")
        os.chdir(folder / "project")
        opened.JsonlHistory = partial(JsonlHistory, write=fault or os.write)  # type: ignore
        project = folder / "project"
        os._exit(run(Options(project_dir=project, session_id="c", mode="standard", serve=True)))
    os.close(to_worker[0])
    os.close(from_worker[1])
    return Life(pid, to_worker[1], from_worker[0])


def talk(life: Life) -> None:
    """Say what there is to say, and answer what is open, until nothing is left to do."""
    life.next()
    for message_id, text in PROMPTS:
        life.command("prompt", text=text, messageId=message_id)
        while (state := life.settle())["interrupts"]:
            resume = [
                {"interruptId": each["id"], "status": "resolved", "payload": answer_to(each)}
                for each in state["interrupts"]
            ]
            life.send({"type": "run_agent_input", "input": {"resume": resume}})
            while life.next()["type"] not in ("RUN_FINISHED", "RUN_ERROR"):
                pass


def answer_to(interrupt: Line) -> Line:
    if interrupt["reason"] == "input_required":
        return {"answers": [{"selectedLabels": ["Yes"]}]}
    return {"approved": True}


def lives(folder: Path, *faults: Fault) -> list[Life]:
    """Live with each fault in turn, and then without one; the last life comes to its end."""
    (folder / "project").mkdir(parents=True)
    found: list[Life] = []
    for fault in (*faults, None):
        life = begin(folder, fault)
        found.append(life)
        try:
            talk(life)
            if fault is None:
                life.lines.append({"type": "the end", "messages": life.snapshot()})
        except Died:
            if fault is None:
                raise
        life.end()
    return found


def problems(folder: Path, found: list[Life]) -> Iterator[str]:
    """What was promised and did not hold."""
    messages: list[Line] = found[-1].lines[-1]["messages"]
    ids = {message["id"] for message in messages}
    for life in found[:-1]:
        for message_id in told(life.lines) - ids:
            yield f"lost: {message_id}"
    file = folder / "project" / "effects"
    ran = file.read_text().split() if file.exists() else []
    results = {m["toolCallId"]: m for m in messages if m["role"] == "tool"}
    calls = [call for m in messages for call in m.get("toolCalls") or ()]
    for call in calls:
        if call["id"] not in results:
            yield f"without a result: {call}"
    for word in EFFECTS:
        commands = [call for call in calls if f"echo {word} " in call["function"]["arguments"]]
        if ran.count(word) > 1:
            yield f"ran {ran.count(word)} times: {word}"
        for call in commands:
            if (result := results.get(call["id"])) is not None:
                yield from lies(word, ran.count(word), call, result, str(folder / "project"))


def lies(word: str, count: int, call: Line, result: Line, project: str) -> Iterator[str]:
    """Does the result say of the call what is so?"""
    metadata: Line = result.get("metadata") or {}
    known: Line | None = metadata.get("roost.uncertain")
    if known is not None:
        if known["arguments"] != call["function"]["arguments"] or known["projectDir"] != project:
            yield f"uncertain without what is known: {known}"
        if not known["startedAt"]:
            yield f"uncertain since when: {known}"
        if known["processLives"]:
            yield f"its process lives: {known}"
    elif json.loads(result["content"])["success"] != (count == 1):
        yield f"{word} ran {count} times, and its result is {result['content']}"


def told(lines: list[Line]) -> set[str]:
    """The ids of the messages that a client was told of as whole."""
    found: set[str] = set()
    for line in lines:
        if line["type"] in ("TEXT_MESSAGE_END", "REASONING_MESSAGE_END", "TOOL_CALL_RESULT"):
            found.add(line["messageId"])
        elif line["type"] == "RUN_STARTED" and line.get("input"):
            found |= {message["id"] for message in line["input"]["messages"]}
        elif line["type"] == "command_result" and "admission" in line["data"]:
            found.add(line["data"]["messageId"])
    return found


def main(folder: Path, moment: Moment, first: int, step: int) -> None:
    warm_up()
    gc.freeze()
    become_subreaper()
    for place in range(first, 1000, step):
        here = folder / str(place)
        # Where a line was torn, the life after it dies too: in the writes that clean up.
        faults = [Fault(place, moment), *([Fault(1, "torn")] if moment == "torn" else [])]
        found = lives(here, *faults)
        if not found[0].was_killed:
            return  # the conversation has no more writes than that
        result = {
            "place": place,
            "problems": list(problems(here, found)),
            "lines": found[-1].lines,
        }
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), cast(Moment, sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
