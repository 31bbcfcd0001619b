"""Work that a call left running: it outlives its run, and ends with the worker.

What runs is part of the shared state. What a job came to is told by `on_end`, which makes a message
of it; this knows neither processes nor queues.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup

from agent.domain.ports import Job, Log, ToolResult

MOST = 16
# Jobs that ended are shown for a while, the last ones.
_MOST_ENDED = 10
_BUG = "Something went wrong inside roost; the log has the details."


@dataclass(slots=True)
class _Row:
    job: Job
    started_at: str
    status: str = "running"
    scope: anyio.CancelScope | None = None


class Jobs:
    """The jobs of one worker, by id."""

    def __init__(
        self,
        on_change: Callable[[], None],
        on_end: Callable[[str, Job, ToolResult], Awaitable[None]],
        log: Log,
    ) -> None:
        self._rows: dict[str, _Row] = {}
        self._on_change = on_change
        self._on_end = on_end
        self._log = log
        self._tasks: TaskGroup | None = None

    def serve_in(self, tasks: TaskGroup) -> None:
        """Jobs live in this task group from now on."""
        self._tasks = tasks

    @property
    def running(self) -> int:
        return sum(row.status == "running" for row in self._rows.values())

    @property
    def has_room(self) -> bool:
        return self._tasks is not None and self.running < MOST

    def start(self, job_id: str, job: Job, started_at: str) -> None:
        """Start a job. Ask `has_room` before."""
        assert self._tasks is not None
        self._rows[job_id] = _Row(job, started_at)
        self._on_change()
        self._tasks.start_soon(self._run, job_id)

    def stop(self, job_id: str) -> bool:
        """End a job that runs, with all that it started. Was there one?"""
        row = self._rows.get(job_id)
        if row is None or row.status != "running":
            return False
        if row.scope is not None:
            row.scope.cancel()
        return True

    def state(self, more: Sequence[Mapping[str, object]] = ()) -> dict[str, object]:
        """The `backgroundTasks` of the shared state; `more` runs elsewhere, for this worker."""
        rows = [
            {
                "id": job_id,
                "kind": row.job.kind,
                "label": row.job.label,
                "description": row.job.description,
                "detail": row.job.detail,
                "status": row.status,
                "started_at": row.started_at,
            }
            for job_id, row in self._rows.items()
        ]
        return {"running": self.running + len(more), "jobs": [*rows, *more]}

    async def _run(self, job_id: str) -> None:
        row = self._rows[job_id]
        result = ToolResult(success=False, error="Stopped; what it did until then is done.")
        with anyio.CancelScope() as row.scope:
            try:
                result = await row.job.work()
            except Exception as exc:  # a bug ends its job, not the worker
                self._log("error", "job_crashed", job_id=job_id, exc_info=exc)
                result = ToolResult(success=False, error=_BUG)
        row.status = "completed" if result.success else "failed"
        self._forget_old()
        self._on_change()
        await self._on_end(job_id, row.job, result)

    def _forget_old(self) -> None:
        ended = [job_id for job_id, row in self._rows.items() if row.status != "running"]
        for job_id in ended[:-_MOST_ENDED]:
            del self._rows[job_id]
