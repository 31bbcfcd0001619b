"""Where a worker stands: what its lines have left open, whoever reads them.

The thread decides by it what a joiner is told and what a run input means. The keeper of a worker
follows it too, so that a daemon that takes the worker over knows what the one before knew:
`retold` leads another Standing to the same place.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from sessions.domain import lines
from sessions.domain.interrupts import Interrupts
from sessions.domain.joining import JoinLog, OpenRun
from sessions.domain.lines import Line


@dataclass(slots=True, kw_only=True)
class Standing:
    """The open run, the documents, the open interrupts and the background jobs of one thread."""

    max_lines: int
    max_bytes: int
    durable_interrupts: bool
    names_failed_runs: bool
    """Its worker's RUN_ERROR has the `runId` of the run that it ends; without one, none ended."""
    log: JoinLog = field(init=False)
    interrupts: Interrupts = field(default_factory=Interrupts)
    running_jobs: int = 0

    def __post_init__(self) -> None:
        self.log = JoinLog(self.max_lines, self.max_bytes)

    def take(self, peeked: Line, line: bytes) -> None:
        """Follow one line. Raises BadLine when a line that decides something can't be read."""
        follow = self._FOLLOWED.get(peeked.type)
        if follow is not None:
            follow(self, peeked, line)

    def retold(self) -> list[bytes]:
        """Lines that lead another Standing here; `lost` and `running_jobs` go beside them."""
        run = self.log.run
        said = [] if run is None else [run.started]
        said += self.log.document_lines()
        if run is not None:
            said += run.openers.values()
        elif self.interrupts.open:
            said.append(self.interrupts.line)
        return said

    def restore(
        self,
        said: Sequence[bytes],
        lost: Iterable[str | None],
        running_jobs: int,
        *,
        is_answering: bool,
    ) -> None:
        """Begin where another one was."""
        for line in said:
            self.take(lines.peek(line), line)
        for name in lost:
            self.log.lose(name)
        self.running_jobs = running_jobs
        self.interrupts.is_answering = is_answering

    def keeps_for(self, idle_timeout: float, approval_timeout: float) -> float:
        """How long a worker that nobody needs is kept: longer when it waits for a person."""
        return max(idle_timeout, approval_timeout) if self.interrupts.open else idle_timeout

    def activity_snapshot(self, peeked: Line, line: bytes) -> bool:
        """Whether the line is the activity's content from here on."""
        keeps = lines.keeps_existing(line)
        return self.log.activity_snapshot(peeked.messageId or "", line, keeps_existing=keeps)

    def _on_ready(self, peeked: Line, line: bytes) -> None:
        suspended = bytes(lines.ready(line).suspended)
        self.interrupts.clear()
        if suspended not in (b"", b"null"):
            self.interrupts.ask(suspended)

    def _on_run_started(self, peeked: Line, line: bytes) -> None:
        self.log.run = OpenRun(peeked.runId or "", line)
        self.interrupts.clear()

    def _on_run_finished(self, peeked: Line, line: bytes) -> None:
        self.log.run = None
        self.interrupts.ask(line)

    def ends_run(self, error: Line) -> bool:
        """Whether the RUN_ERROR ends the open run, rather than refusing something."""
        return self.log.run is not None and bool(error.runId or not self.names_failed_runs)

    def _on_run_error(self, peeked: Line, line: bytes) -> None:
        if self.ends_run(peeked):
            self.log.run = None
            return
        if self.log.run is not None:
            return
        if self.durable_interrupts:
            self.interrupts.reopen()
        else:
            self.interrupts.clear()

    def _on_item_opened(self, peeked: Line, line: bytes) -> None:
        self.log.item_opened(lines.item_key(peeked, lines.OPENS), line)

    def _on_item_closed(self, peeked: Line, line: bytes) -> None:
        self.log.item_closed(lines.item_key(peeked, lines.CLOSES))

    def _on_state_snapshot(self, peeked: Line, line: bytes) -> None:
        self.log.state.snapshot(line)
        self.running_jobs = lines.jobs_in_snapshot(line)

    def _on_state_delta(self, peeked: Line, line: bytes) -> None:
        self.log.state.patch(line)
        self.running_jobs = lines.jobs_in_delta(line, self.running_jobs)

    def _on_activity_snapshot(self, peeked: Line, line: bytes) -> None:
        self.activity_snapshot(peeked, line)

    def _on_activity_delta(self, peeked: Line, line: bytes) -> None:
        document = self.log.document(peeked.messageId or "")
        if document is not None:
            document.patch(line)

    _FOLLOWED: ClassVar[dict[str, Callable[["Standing", Line, bytes], None]]] = {
        "ready": _on_ready,
        "RUN_STARTED": _on_run_started,
        "RUN_FINISHED": _on_run_finished,
        "RUN_ERROR": _on_run_error,
        "STATE_SNAPSHOT": _on_state_snapshot,
        "STATE_DELTA": _on_state_delta,
        "ACTIVITY_SNAPSHOT": _on_activity_snapshot,
        "ACTIVITY_DELTA": _on_activity_delta,
        **dict.fromkeys(lines.OPENS, _on_item_opened),
        **dict.fromkeys(lines.CLOSES, _on_item_closed),
    }
