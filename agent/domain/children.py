"""What is known of one child, and what its parent is told of it. Pure: time is an argument.

A child is at work from the message that it is sent until the turn's report says `done`; then it is
idle, and after a while closed. Each finished turn is one note. A child that is lost while it is at
work has failed, which is a note, too; one that goes while it is idle goes silently.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from agent.domain.lineage import ChildThread
from agent.domain.subagents import (
    Ask,
    Asked,
    Began,
    Broke,
    Counted,
    Did,
    Nested,
    News,
    Settled,
    Turned,
    TurnReport,
)

Status = Literal["starting", "running", "waiting", "idle", "closed"]

AT_WORK: frozenset[Status] = frozenset({"starting", "running", "waiting"})
NOTE_BEGINS = "[Subagent "
LONGEST_ACTIVITY = 200
LONGEST_NOTE = 20_000


@dataclass(frozen=True, slots=True)
class Note:
    """What the parent's conversation is told. `wakes`: the model has something to do with it."""

    how: Literal["Completed", "Failed", "Closed", "Awaiting Approval"]
    text: str
    wakes: bool

    def message(self, label: str) -> str:
        text = self.text
        if len(text) > LONGEST_NOTE:
            left_out = len(text) - LONGEST_NOTE
            text = f"{text[:LONGEST_NOTE]}\n[{left_out:,} more characters are in its thread]"
        return f"{NOTE_BEGINS}{self.how}: {label}]\n{text}".rstrip()


@dataclass(slots=True)
class Child:
    """One subagent of this conversation."""

    thread: ChildThread
    started_at: str = ""
    """For people."""
    status: Status = "starting"
    activity: str = ""
    asks: tuple[Ask, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    turns: int = 0
    last_text: str = ""
    jobs: int = 0
    """What it left running in the background: it is not closed under that."""
    resting_since: float | None = None
    """Since when it has nothing to do: idle, or waiting for a person."""
    nested: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def id(self) -> str:
        return self.thread.conversation_id

    @property
    def label(self) -> str:
        return self.thread.label

    @property
    def is_at_work(self) -> bool:
        return self.status in AT_WORK

    @property
    def is_open(self) -> bool:
        return self.status != "closed"

    def sent(self) -> None:
        """It is given something to do; one that waits for a person goes on waiting first."""
        if self.status != "waiting":
            self._works("")

    def take(self, news: News, now: float) -> Note | None:
        """What changes with the news, and what is to be told of it."""
        match news:
            case Began():
                self._works("")
            case Did(activity=activity):
                self.activity = activity[:LONGEST_ACTIVITY]
            case Counted():
                self.input_tokens = news.input_tokens
                self.output_tokens = news.output_tokens
                self.jobs = news.jobs
            case Nested(rows=rows):
                self.nested = rows
            case Asked(asks=asks):
                return self._asked(asks, now)
            case Turned(report=report):
                return self._turned(report, now)
            case Broke(reason=reason):
                return self._turned(TurnReport(success=False, error=reason), now)
            case Settled(text=text):
                if self.is_at_work:
                    return self._turned(TurnReport(text=text), now)
                self._rests(now)
        return None

    def lost(self, reason: str) -> Note | None:
        """It is gone. Silent, unless it was at work."""
        was_at_work = self.status in ("starting", "running")
        asks = self.asks
        self._close()
        # Nobody is there any more whom a person could answer; the decision is on disk all the same.
        self.asks = asks
        return Note("Failed", reason, wakes=True) if was_at_work else None

    def close(self) -> None:
        """It was left, because somebody wanted so."""
        self._close()

    def expire(self) -> Note:
        """It was left, because it had nothing to do for too long."""
        still = self.last_text or "It had said nothing."
        if self.asks:
            still = f"It still waits for a person, at its own thread {self.id}."
        self._close()
        return Note("Closed", still, wakes=False)

    def row(self) -> dict[str, object]:
        """What the shared state shows of it."""
        row: dict[str, object] = {
            "threadId": self.id,
            "projectDir": self.thread.project_dir,
            "label": self.label,
            "status": self.status,
            "activity": self.activity,
            "tokens": {"input": self.input_tokens, "output": self.output_tokens},
            "turns": self.turns,
            "depth": self.thread.lineage.depth,
            "tools": list(self.thread.lineage.tools),
            "model": self.thread.model,
            "mode": self.thread.mode,
            "startedAt": self.started_at,
            "interrupts": [msgspec.to_builtins(ask) for ask in self.asks],
        }
        if self.nested:
            row["subagents"] = dict(self.nested)
        return row

    def _works(self, activity: str) -> None:
        self.status = "running"
        self.activity = activity
        self.asks = ()
        self.resting_since = None

    def _rests(self, now: float) -> None:
        self.status = "idle"
        self.activity = ""
        self.asks = ()
        self.resting_since = now

    def _asked(self, asks: tuple[Ask, ...], now: float) -> Note | None:
        is_news = asks != self.asks
        self.status = "waiting"
        self.asks = asks
        self.resting_since = now
        self.activity = asks[0].message[:LONGEST_ACTIVITY] if asks else ""
        if not is_news:
            return None
        wanted = "\n".join(f"- {ask.message or ask.reason}" for ask in asks)
        where = f"Only a person can answer, at its own thread {self.id}."
        return Note("Awaiting Approval", f"{wanted}\n{where}", wakes=False)

    def _turned(self, report: TurnReport, now: float) -> Note:
        self.turns += 1
        self.last_text = report.text or report.error
        if report.done:
            self._rests(now)
        else:
            self._works("")
        said = [report.error if not report.success else "", report.text, _statistics(report)]
        how: Literal["Completed", "Failed"] = "Completed" if report.success else "Failed"
        return Note(how, "\n".join(part for part in said if part), wakes=True)

    def _close(self) -> None:
        self.status = "closed"
        self.activity = ""
        self.asks = ()
        self.resting_since = None


def _statistics(report: TurnReport) -> str:
    calls = report.tools_succeeded + report.tools_failed
    tokens = f"{report.input_tokens:,} tokens in, {report.output_tokens:,} out"
    return f"({calls} tool calls, {report.tools_failed} of them failed; {tokens})"
