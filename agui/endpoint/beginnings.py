"""Inputs on their way to a run: at most one of a thread is handed over, and a stop finds them.

Between an input and its RUN_STARTED no run is open, and yet there is one soon: another input would
run behind it or be taken for it, and a stop would find nothing to stop. Pure.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agui.endpoint.refusal import Refused
from sessions.domain.keys import ThreadKey


@dataclass(slots=True, eq=False)
class Beginning:
    """One input, from its request to its run."""

    run_id: str
    is_handed_over: bool = False
    """Its worker has it: it will have a run."""
    is_stopped: bool = False
    """Somebody asked for its end meanwhile."""


@dataclass(slots=True)
class Beginnings:
    """Those of one port."""

    _by_thread: dict[ThreadKey, list[Beginning]] = field(
        default_factory=dict[ThreadKey, list[Beginning]]
    )

    @contextmanager
    def of(self, thread: ThreadKey, run_id: str) -> Generator[Beginning]:
        """An input for the thread, while the block lasts."""
        beginning = Beginning(run_id)
        self._by_thread.setdefault(thread, []).append(beginning)
        try:
            yield beginning
        finally:
            others = self._by_thread[thread]
            others.remove(beginning)
            if not others:
                del self._by_thread[thread]

    def hand_over(self, thread: ThreadKey, beginning: Beginning) -> None:
        """It is the one that is run now. Raises Refused."""
        if beginning.is_stopped:
            raise Refused(409, "stopped", "It was stopped before it began. Nothing was run.")
        for other in self._by_thread[thread]:
            if other.is_handed_over:
                text = "A run begins on this thread. Nothing was run: stop it, or wait for its end."
                raise Refused(409, "run_active", text, {"runId": other.run_id})
        beginning.is_handed_over = True

    def stop(self, thread: ThreadKey, run_id: str | None) -> bool:
        """Have what begins on the thread end; whether there was something of this id, or any."""
        found = [b for b in self._by_thread.get(thread, ()) if run_id in (None, b.run_id)]
        for beginning in found:
            beginning.is_stopped = True
        return bool(found)
