"""Coherent joining at every point of random runs, as a state machine on the pure thread.

For each follower, at every moment: its stream passes the protocol's order rules from its first
RUN_STARTED on; a reducer fed from its snapshot shows what the worker has; every byte is a byte that
the worker wrote (or an error of ours).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from sessions.domain.keys import ConversationId, Cursor, Generation, ThreadKey, ThreadOptions
from sessions.domain.ports import TakeLines
from sessions.domain.settings import RegistrySettings
from sessions.domain.thread import Orders, Phase, Thread
from sessions.domain.waiting import Held
from tests.support.agui_model import Verifier, judged, nothing_held, snapshot_of
from tests.support.fakes import FakeClient
from tests.support.scenes import line, message, resume


@dataclass
class PureWorker:
    """The worker's end: what it was sent, and a model of what it has told so far."""

    pid: int = 1
    sent: list[bytes] = field(default_factory=list[bytes])
    stopped: bool = False

    def send(self, line: bytes) -> None:
        self.sent.append(line)

    def stop(self, grace: float) -> None:
        self.stopped = True

    def remember(self, note: bytes, idle_since: float | None) -> None:
        pass

    def exit_reason(self) -> str:
        return "was killed by SIGKILL"

    async def pump(self, take: TakeLines) -> None:
        raise NotImplementedError("the machine hands the lines over itself")


class ThreadMachine(RuleBasedStateMachine):
    """One thread, one model of its worker, any number of followers."""

    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.count = 0
        self.written: set[bytes] = set()
        self.truth = nothing_held()
        self.run: str | None = None
        self.open: dict[str, str] = {}
        self.asked: str | None = None
        self.worker: PureWorker | None = None
        self.following: list[FakeClient] = []
        self.openers: list[FakeClient] = []
        self.failed: set[FakeClient] = set()
        self.thread = Thread(
            ThreadKey("/p", ConversationId("c")),
            ThreadOptions(),
            RegistrySettings(join_lines=1000),
            Orders(launch=self._order_launch),
            0.0,
        )

    def _order_launch(self, thread: Thread, delay: float) -> None:
        self.launch_ordered = True

    @initialize()
    def begins(self) -> None:
        self.launch_ordered = False

    # The worker's side

    def _says(self, *events: dict[str, Any]) -> None:
        lines: list[bytes] = []
        for event in events:
            lines.append(json.dumps(event, separators=(",", ":")).encode())
            self.truth.take(lines[-1])
        self.written.update(lines)
        self.thread.take_lines(lines, self.now)

    def _new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    @precondition(lambda self: self.launch_ordered and self.worker is None)
    @rule()
    def worker_starts(self) -> None:
        self.launch_ordered = False
        self.worker = PureWorker()
        generation = Generation(self._new("g"))
        self.generation = generation
        self.thread.launched(self.worker, generation, self.now)
        if self.thread.phase is not Phase.RUNNING:
            return
        ready: dict[str, Any] = {"type": "ready", "protocol": 1, "version": "x"}
        if self.asked:
            ready["suspended"] = self._asking(self.asked)
            self.written.add(json.dumps(ready["suspended"], separators=(",", ":")).encode())
        self.thread.take_lines([json.dumps(ready, separators=(",", ":")).encode()], self.now)

    @precondition(lambda self: self.worker is not None and self._next_open() is not None)
    @rule()
    def worker_answers_an_open(self) -> None:
        index = self._next_open()
        assert self.worker is not None
        assert index is not None
        del self.worker.sent[index]
        event = snapshot_of(self.truth)
        raw = json.dumps(event, separators=(",", ":")).encode()
        self.written.add(raw)
        answered = self.openers.pop(0)
        if answered not in self.openers:
            self.failed.discard(answered)
        self.thread.take_lines([raw], self.now)

    def _next_open(self) -> int | None:
        for index, sent in enumerate(self.worker.sent if self.worker else ()):
            if b"resume_conversation" in sent:
                return index
        return None

    @precondition(lambda self: self.worker is not None and self.run is None)
    @rule(says_state=st.booleans())
    def run_begins(self, says_state: bool) -> None:
        self.run = self._new("r")
        self.asked = None
        self.open = {}
        self._says({"type": "RUN_STARTED", "threadId": "c", "runId": self.run})
        if says_state or self.truth.state is None:
            state = {"n": self.count}
            self._says({"type": "STATE_SNAPSHOT", "snapshot": state})

    @precondition(lambda self: self.worker is not None and self.run is not None)
    @rule(kind=st.sampled_from(["text", "reasoning", "call", "step", "span"]))
    def something_opens(self, kind: str) -> None:
        name = self._new(kind)
        self.open[name] = kind
        event = {
            "text": {"type": "TEXT_MESSAGE_START", "messageId": name, "role": "assistant"},
            "reasoning": {
                "type": "REASONING_MESSAGE_START",
                "messageId": name,
                "role": "reasoning",
            },
            "call": {"type": "TOOL_CALL_START", "toolCallId": name, "toolCallName": "Bash"},
            "step": {"type": "STEP_STARTED", "stepName": name},
            "span": {"type": "REASONING_START", "messageId": name},
        }[kind]
        self._says(event)

    @precondition(lambda self: self.worker is not None and bool(self.open))
    @rule(data=st.data())
    def something_goes_on(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.open)))
        kinds = {
            "text": ("TEXT_MESSAGE_CONTENT", "messageId"),
            "reasoning": ("REASONING_MESSAGE_CONTENT", "messageId"),
            "call": ("TOOL_CALL_ARGS", "toolCallId"),
        }
        if self.open[name] in kinds:
            type_, field_ = kinds[self.open[name]]
            self._says({"type": type_, field_: name, "delta": f"d{self.count}"})

    @precondition(lambda self: self.worker is not None and bool(self.open))
    @rule(data=st.data())
    def something_closes(self, data: st.DataObject) -> None:
        self._close(data.draw(st.sampled_from(sorted(self.open))))

    def _close(self, name: str) -> None:
        type_, field_ = {
            "text": ("TEXT_MESSAGE_END", "messageId"),
            "reasoning": ("REASONING_MESSAGE_END", "messageId"),
            "call": ("TOOL_CALL_END", "toolCallId"),
            "step": ("STEP_FINISHED", "stepName"),
            "span": ("REASONING_END", "messageId"),
        }[self.open.pop(name)]
        self._says({"type": type_, field_: name})

    @precondition(lambda self: self.worker is not None and self.run is not None)
    @rule(kind=st.sampled_from(["state", "activity", "patch", "result", "custom"]))
    def something_happens(self, kind: str) -> None:
        known = [m["id"] for m in self.truth.messages if m["role"] == "activity"]
        if kind == "patch" and known:
            step = {"op": "add", "path": f"/k{self.count % 3}", "value": self.count}
            self._says(
                {
                    "type": "ACTIVITY_DELTA",
                    "messageId": known[0],
                    "activityType": "x",
                    "patch": [step],
                }
            )
        elif kind == "activity":
            self._says(
                {
                    "type": "ACTIVITY_SNAPSHOT",
                    "messageId": self._new("a"),
                    "activityType": "x",
                    "content": {"n": self.count},
                }
            )
        elif kind == "state":
            step = {"op": "add", "path": f"/k{self.count % 3}", "value": self._new("v")}
            self._says({"type": "STATE_DELTA", "delta": [step]})
        elif kind == "result":
            self._says(
                {
                    "type": "TOOL_CALL_RESULT",
                    "messageId": self._new("m"),
                    "toolCallId": "t",
                    "content": "{}",
                }
            )
        else:
            self._says({"type": "CUSTOM", "name": "x", "value": self._new("v")})

    @precondition(lambda self: self.worker is not None and self.run is not None)
    @rule(how=st.sampled_from(["success", "asks", "error"]))
    def run_ends(self, how: str) -> None:
        assert self.run is not None
        if how == "error":
            self.open = {}
            self._says({"type": "RUN_ERROR", "message": "x", "runId": self.run})
        else:
            for name in list(self.open):
                self._close(name)
            if how == "asks":
                self.asked = self._new("t")
                self._says(self._asking(self.asked))
            else:
                self._says({"type": "RUN_FINISHED", "threadId": "c", "runId": self.run})
        self.run = None

    def _asking(self, interrupt: str) -> dict[str, Any]:
        run = self.run or f"of-{interrupt}"
        outcome = {"type": "interrupt", "interrupts": [{"id": interrupt, "reason": "tool_call"}]}
        return {"type": "RUN_FINISHED", "threadId": "c", "runId": run, "outcome": outcome}

    @precondition(lambda self: self.worker is not None)
    @rule()
    def worker_dies(self) -> None:
        self.worker = None
        self.run = None
        self.open = {}
        # Their opens were answered with an error: they know that they have to open again.
        self.failed.update(self.openers)
        self.openers.clear()
        self.thread.exited(self.generation, "was killed by SIGKILL", self.now)

    # The clients' side

    @rule(target=clients)
    def a_client_comes(self) -> FakeClient:
        client = FakeClient(self._new("client"))
        self._opens(client)
        return client

    @rule(client=clients)
    def a_client_opens_again(self, client: FakeClient) -> None:
        self._opens(client)

    def _opens(self, client: FakeClient) -> None:
        if client not in self.following:
            self.following.append(client)
        client.received.clear()
        self.openers.append(client)
        frame = line("resume_conversation", project_dir="/p", id="c")
        self.thread.open(client, frame, self.now)

    @rule(client=consumes(clients))
    def a_client_leaves(self, client: FakeClient) -> None:
        self.following.remove(client)
        self.thread.detach(client, self.now)
        client.received.clear()

    @precondition(lambda self: bool(self.asked))
    @rule(client=clients)
    def a_client_answers(self, client: FakeClient) -> None:
        assert self.asked is not None
        frame = resume(self.asked)
        answered = frozenset({self.asked})
        held = Held(client=client, frame=frame, relaunches=True, answered=answered)
        before = self._answers()
        self.thread.forward(held, self.now)
        assert self._answers() <= 1 or self._answers() == before, "an answer went to it twice"

    def _answers(self) -> int:
        if self.worker is None or self.asked is None:
            return 0
        return sum(sent == resume(self.asked) for sent in self.worker.sent)

    @rule(client=clients)
    def a_client_sends(self, client: FakeClient) -> None:
        self.thread.forward(Held(client=client, frame=message(), relaunches=True), self.now)

    # What must hold

    @invariant()
    def every_stream_is_coherent(self) -> None:
        for client in self.following:
            received = self._since_last_snapshot(client)
            if not received or client in self.openers or client in self.failed:
                continue
            events = [json.loads(raw) for raw, _ in received]
            verifier, reducer = Verifier(), nothing_held()
            for event in judged(events):
                verifier.feed(event)
            for raw, _ in received:
                reducer.take(raw)
            assert reducer.messages == self.truth.messages
            assert verifier.run == self.run
            if reducer.state is not None:
                assert reducer.state == self.truth.state
            asks = events[-1]["type"] == "RUN_FINISHED" and "outcome" in events[-1]
            if self.asked and self.worker is not None:
                assert asks or any(e["type"] == "RUN_FINISHED" for e in events)

    def _since_last_snapshot(self, client: FakeClient) -> Sequence[tuple[bytes, Cursor | None]]:
        for index in range(len(client.received) - 1, -1, -1):
            raw = client.received[index][0]
            if raw.startswith(b'{"type":"MESSAGES_SNAPSHOT"'):
                return client.received[index:]
        return ()

    @invariant()
    def every_byte_is_the_workers_own(self) -> None:
        for client in self.following:
            for raw, _ in client.received:
                assert raw in self.written or raw.startswith(b'{"type":"RUN_ERROR"')


ThreadMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_every_follower_is_coherent_at_every_point = ThreadMachine.TestCase
