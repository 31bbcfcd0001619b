"""Streams of a worker that mostly knows the protocol: long ones, in which what is hostile is rare.

A walk over what is open: each step goes on with something, begins or ends something, or writes a
line that may be anything.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.agui.stream.hostile import lines as any_lines

Event = dict[str, Any]

_STEPS = (
    ["open"] * 6
    + ["go on"] * 8
    + ["end"] * 6
    + ["chunk"] * 4
    + ["result", "state", "patch", "activity", "snapshot", "custom", "subagent"] * 2
    + ["anything", "finish", "cancel", "ask", "fail"]
)
_KINDS = ("text", "call", "span", "reasoning", "step")


@dataclass
class Walk:
    """What a worker has said so far."""

    draw: Any
    lines: list[bytes] = field(default_factory=list[bytes])
    open: list[tuple[str, str, str | None]] = field(
        default_factory=list[tuple[str, str, str | None]]
    )
    calls: list[str] = field(default_factory=list[str])
    subagents: list[str] = field(default_factory=list[str])
    count: int = 0
    runs: int = 0
    has_activity: bool = False

    def fresh(self) -> str:
        self.count += 1
        return f"i{self.count}"

    def say(self, kind: str, tag: str | None = None, **fields: Any) -> None:
        event = {"type": kind, **fields}
        if tag is not None:
            event["subagentRunId"] = tag
        self.lines.append(json.dumps(event).encode())

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def begin(self) -> None:
        self.runs += 1
        self.open, self.calls, self.subagents = [], [], []
        self.say("RUN_STARTED", threadId="t1", runId=f"r{self.runs}")

    def step(self) -> None:
        match self.pick(*_STEPS):
            case "open":
                self._open(self.pick(*_KINDS), self.pick(None, None, *self.subagents))
            case "go on" if self.open:
                self._content(*self.pick(*self.open))
            case "end" if self.open:
                item = self.pick(*self.open)
                self.open.remove(item)
                self._end(*item)
            case "chunk":
                name = self.fresh() if self.pick(True, False) else None
                named = {} if name is None else {"messageId": name}
                kind = self.pick("TEXT_MESSAGE_CHUNK", "REASONING_MESSAGE_CHUNK")
                self.say(kind, delta="c", **named)
            case "result" if self.calls:
                self.say(
                    "TOOL_CALL_RESULT",
                    messageId=self.fresh(),
                    toolCallId=self.calls.pop(0),
                    content=self.pick("done", [{"type": "text", "text": "done"}]),
                )
            case "state":
                self.say("STATE_SNAPSHOT", snapshot=self.pick({"a": [1]}, {}, None))
            case "patch":
                path = self.pick("/a", "/a/0", "/b")
                self.say("STATE_DELTA", delta=[{"op": "add", "path": path, "value": [2]}])
            case "activity":
                self._activity()
            case "snapshot":
                self.has_activity = False
                content = [{"type": "image", "source": {"type": "file", "value": "f"}}]
                user = {"id": self.fresh(), "role": "user", "content": content}
                self.say("MESSAGES_SNAPSHOT", messages=[user])
            case "custom":
                self.say(self.pick("CUSTOM", "RAW"), name="x.y", value=1, event={"z": 1})
            case "subagent":
                name = self.fresh()
                self.subagents.append(name)
                self.say("SUBAGENT_STARTED", tag=name, name="helper")
                self.open.append(("subagent", name, name))
            case "anything":
                self.lines.append(self.draw(any_lines))
            case "finish" if not self.open:
                self._finish({"type": "success", "pendingToolCallIds": list(self.calls)})
            case "finish":
                self._finish({"type": "success"})
            case "cancel":
                self._finish({"type": "cancelled"})
            case "ask":
                while self.open:
                    self._end(*self.open.pop())
                self._finish({"type": "interrupt", "interrupts": [{"id": "q", "reason": "r"}]})
            case "fail":
                self.say("RUN_ERROR", message="broken", runId=f"r{self.runs}")
                self.begin()
            case _:
                pass

    def _activity(self) -> None:
        names = {"messageId": "act", "activityType": "x"}
        if self.has_activity:
            patch = [{"op": "add", "path": "/n", "value": self.count}]
            self.say("ACTIVITY_DELTA", **names, patch=patch)
        else:
            self.say("ACTIVITY_SNAPSHOT", **names, content={})
        self.has_activity = True

    def _finish(self, outcome: Event) -> None:
        self.say("RUN_FINISHED", threadId="t1", runId=f"r{self.runs}", outcome=outcome)
        self.begin()

    def _open(self, kind: str, tag: str | None) -> None:
        name = self.fresh()
        self.open.append((kind, name, tag))
        match kind:
            case "text":
                self.say("TEXT_MESSAGE_START", tag, messageId=name, role="assistant")
            case "call":
                self.calls.append(name)
                self.say("TOOL_CALL_START", tag, toolCallId=name, toolCallName="f")
            case "span":
                self.say("REASONING_START", tag, messageId=name)
            case "reasoning":
                self.say("REASONING_MESSAGE_START", tag, messageId=name, role="reasoning")
            case _:
                self.say("STEP_STARTED", tag, stepName=name)

    def _content(self, kind: str, name: str, tag: str | None) -> None:
        match kind:
            case "text":
                self.say("TEXT_MESSAGE_CONTENT", tag, messageId=name, delta="d")
            case "call":
                self.say("TOOL_CALL_ARGS", tag, toolCallId=name, delta="{")
            case "reasoning":
                self.say("REASONING_MESSAGE_CONTENT", tag, messageId=name, delta="d")
            case _:
                pass

    def _end(self, kind: str, name: str, tag: str | None) -> None:
        match kind:
            case "text":
                self.say("TEXT_MESSAGE_END", tag, messageId=name)
            case "call":
                self.say("TOOL_CALL_END", tag, toolCallId=name)
            case "span":
                self.say("REASONING_END", tag, messageId=name)
            case "reasoning":
                self.say("REASONING_MESSAGE_END", tag, messageId=name)
            case "step":
                self.say("STEP_FINISHED", tag, stepName=name)
            case _:
                self.say("SUBAGENT_FINISHED", tag)


@st.composite
def plausible_streams(draw: st.DrawFn) -> list[bytes]:
    walk = Walk(draw)
    walk.begin()
    for _ in range(draw(st.integers(3, 40))):
        walk.step()
    return walk.lines
