"""An agent in this process, behind the registry's launch port: it answers, asks, and remembers.

`ask` makes it wait for approval of a call, `question` for an answer; anything else is answered by
"answer to ...". Its conversations outlive it, and a message with a known id is dropped, as by the
real worker.
"""

import json
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from sessions.domain.keys import ThreadKey, ThreadOptions
from sessions.domain.ports import TakeLines

QUESTIONS = [
    {
        "question": "Which colour?", "header": "Colour",
        "options": [{"label": "red"}, {"label": "blue"}],
    },
    {
        "question": "Which sizes?", "header": "Sizes", "multiSelect": True,
        "options": [{"label": "small", "description": "S"}, {"label": "large"}],
    },
]  # fmt: skip


@dataclass(slots=True)
class Talk:
    """One conversation."""

    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    known: set[str] = field(default_factory=set[str])
    taken: list[str] = field(default_factory=list[str])
    """Texts of people, as often as the agent took them."""
    suspended: dict[str, Any] | None = None
    resumes: list[list[dict[str, Any]]] = field(default_factory=list[list[dict[str, Any]]])
    attachments: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    runs: int = 0

    @property
    def open_call(self) -> str:
        assert self.suspended is not None
        return str(self.suspended["outcome"]["interrupts"][0]["id"])


class EchoAgents:
    """Implements `LaunchWorker`."""

    def __init__(self) -> None:
        self.talks: dict[ThreadKey, Talk] = defaultdict(Talk)
        self.frames: list[dict[str, Any]] = []
        self.running: dict[ThreadKey, _EchoWorker] = {}
        self.slow: float = 0.0
        """How long an answer takes, in three pieces."""
        self.go_on: anyio.Event | None = None
        """What an answer waits for after each piece."""

    @asynccontextmanager
    async def __call__(
        self, thread: ThreadKey, options: ThreadOptions, token: str
    ) -> AsyncGenerator["_EchoWorker"]:
        async with anyio.create_task_group() as tasks:
            worker = _EchoWorker(self, thread, self.talks[thread])
            self.running[thread] = worker
            tasks.start_soon(worker.work)
            try:
                yield worker
            finally:
                worker.end()
                self.running.pop(thread, None)
                tasks.cancel_scope.cancel()


class _EchoWorker:
    def __init__(self, agents: EchoAgents, thread: ThreadKey, talk: Talk) -> None:
        self.pid = 1
        self.agents = agents
        self.thread = thread
        self.talk = talk
        self.has_ended = False
        self._inbox: list[dict[str, Any]] = []
        self._out: list[bytes] = []
        self._news = anyio.Event()
        self._lines = anyio.Event()
        ready: dict[str, Any] = {"type": "ready", "protocol": 1, "version": "echo"}
        if talk.suspended is not None:
            ready["suspended"] = talk.suspended
        self.says(ready)

    def send(self, line: bytes) -> None:
        self._inbox.append(json.loads(line))
        self._news.set()

    def stop(self, grace: float) -> None:
        self.end()

    def end(self) -> None:
        self.has_ended = True
        self._news.set()
        self._lines.set()

    async def pump(self, take: TakeLines) -> None:
        while True:
            while not self._out and not self.has_ended:
                self._lines = anyio.Event()
                await self._lines.wait()
            if not self._out:
                return
            lines, self._out = self._out, []
            take(lines)

    def remember(self, note: bytes, idle_since: float | None) -> None:
        """It ends with its daemon: there is nobody to keep a note for."""

    def exit_reason(self) -> str:
        return "exited with code 0"

    def says(self, *events: dict[str, Any]) -> None:
        self._out += [json.dumps(event).encode() for event in events]
        self._lines.set()

    async def work(self) -> None:
        while not self.has_ended:
            self._news = anyio.Event()
            while self._inbox:
                await self._take(self._inbox.pop(0))
            await self._news.wait()

    async def _take(self, frame: dict[str, Any]) -> None:
        self.agents.frames.append(frame)
        match frame["type"]:
            case "new_session" | "resume_conversation":
                self.says({"type": "MESSAGES_SNAPSHOT", "messages": self.talk.messages})
                if self.talk.suspended is not None:
                    self.says(self.talk.suspended)
            case "list_conversations":
                found = [
                    {"id": k.conversation_id, "title": f"About {k.conversation_id}"}
                    for k in self.agents.talks
                    if k.project_dir == self.thread.project_dir
                ]
                self.says({"type": "conversations", "conversations": found})
            case "list_models" | "select_model":
                models = ["demo:scripted", "openai:gpt-5"]
                current = frame.get("model", "demo:scripted")
                self.says({"type": "models", "models": models, "current": current})
                if frame["type"] == "select_model":
                    self.says({"type": "mode", "mode": "standard"})
            case "set_mode":
                self.says({"type": "mode", "mode": frame["mode"]})
            case "run_agent_input":
                await self._input(frame["input"])
            case _:
                pass

    async def _input(self, given: dict[str, Any]) -> None:
        talk = self.talk
        if given.get("resume"):
            talk.resumes.append(given["resume"])
            suspended, talk.suspended = talk.suspended, None
            assert suspended is not None
            talk.runs += 1
            run = f"run-{talk.runs}"
            self.says({"type": "RUN_STARTED", "threadId": "t", "runId": run})
            for entry in given["resume"]:
                approved = entry["status"] == "resolved"
                result = {
                    "success": approved,
                    "error": "" if approved else "Not run: declined by the user.",
                }
                id_ = entry["interruptId"]
                self.says(
                    {
                        "type": "TOOL_CALL_RESULT",
                        "toolCallId": id_,
                        "messageId": f"r-{id_}",
                        "content": json.dumps(result),
                    }
                )
                talk.messages.append(
                    {
                        "id": f"r-{id_}",
                        "role": "tool",
                        "toolCallId": id_,
                        "content": json.dumps(result),
                    }
                )
            await self._say("went on", run)
            self._finish(run, {"type": "success"})
            return
        for message in given.get("messages", []):
            if message["id"] in talk.known:
                continue
            talk.known.add(message["id"])
            content = message["content"]
            text = content if isinstance(content, str) else _words(content, talk)
            talk.taken.append(text)
            talk.messages.append({"id": message["id"], "role": "user", "content": text})
            await self._run(message, text)

    async def _run(self, message: dict[str, Any], text: str) -> None:
        self.talk.runs += 1
        run = f"run-{self.talk.runs}"
        echo = {"threadId": "t", "runId": run, "messages": [{"id": message["id"]}]}
        self.says({"type": "RUN_STARTED", "threadId": "t", "runId": run, "input": echo})
        if text.startswith(("ask", "question")):
            self._suspend(run, text)
            return
        if text.startswith("fail"):
            self.says({"type": "RUN_ERROR", "message": "The model said no.", "runId": run})
            return
        await self._say(f"answer to {text}", run)
        self._finish(run, {"type": "success"})

    def _suspend(self, run: str, text: str) -> None:
        kind = "question" if text.startswith("question") else "ask"
        count = 2 if text.startswith("ask two") else 1
        calls: list[dict[str, Any]] = []
        for n in range(count):
            id_ = f"call-{self.talk.runs}-{n}"
            name = "AskUserQuestion" if kind == "question" else "Bash"
            arguments: dict[str, Any] = {"command": text if n == 0 else f"second {text}"}
            if kind == "question":
                arguments = {"questions": QUESTIONS}
            encoded = json.dumps(arguments)
            self.says(
                {"type": "TOOL_CALL_START", "toolCallId": id_, "toolCallName": name},
                {"type": "TOOL_CALL_ARGS", "toolCallId": id_, "delta": encoded},
                {"type": "TOOL_CALL_END", "toolCallId": id_},
            )
            calls.append(
                {"id": id_, "type": "function", "function": {"name": name, "arguments": encoded}}
            )
        self.talk.messages.append({"id": f"m-{run}", "role": "assistant", "toolCalls": calls})
        reason = "input_required" if kind == "question" else "tool_call"
        asked = [{"id": c["id"], "reason": reason, "toolCallId": c["id"]} for c in calls]
        outcome = {"type": "interrupt", "interrupts": asked}
        self.talk.suspended = {
            "type": "RUN_FINISHED", "threadId": "t", "runId": run, "outcome": outcome,
        }  # fmt: skip
        self.says(self.talk.suspended)

    async def _say(self, text: str, run: str) -> None:
        id_ = f"m-{run}-{len(self.talk.messages)}"
        said: dict[str, Any] = {"id": id_, "role": "assistant", "content": ""}
        self.talk.messages.append(said)
        self.says({"type": "TEXT_MESSAGE_START", "messageId": id_, "role": "assistant"})
        third = -(-len(text) // 3)
        for start in range(0, len(text), third):
            part = text[start : start + third]
            said["content"] += part
            self.says({"type": "TEXT_MESSAGE_CONTENT", "messageId": id_, "delta": part})
            await anyio.sleep(self.agents.slow / 3)
            if self.agents.go_on is not None:
                await self.agents.go_on.wait()
        self.says({"type": "TEXT_MESSAGE_END", "messageId": id_})

    def _finish(self, run: str, outcome: dict[str, Any]) -> None:
        self.says({"type": "RUN_FINISHED", "threadId": "t", "runId": run, "outcome": outcome})


def _words(parts: list[dict[str, Any]], talk: Talk) -> str:
    talk.attachments += [part for part in parts if "data" in part]
    return "\n".join(part["text"] for part in parts if part["type"] == "text")
