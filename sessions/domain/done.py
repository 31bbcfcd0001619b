"""Whether all agents of a registry are done: no run goes on, and none waits for a person.

Kept apart from the threads, because one that was forgotten still counts. A run that ended in an
error counts as finished; a registry that never ran anything is done.
"""

from dataclasses import dataclass, field

from sessions.domain.keys import ThreadKey


@dataclass(slots=True)
class AgentsDone:
    """What is not done; everything that is needs no memory."""

    _open: set[ThreadKey] = field(default_factory=set[ThreadKey])
    """Threads whose last run goes on, or waits."""
    _arrived: set[ThreadKey] = field(default_factory=set[ThreadKey])
    """Sessions that teleported here and are still here."""
    _unrun: set[ThreadKey] = field(default_factory=set[ThreadKey])
    """Those of them that have not run here yet."""
    _ever_arrived: bool = False

    def saw(self, key: ThreadKey, *, is_running: bool, is_waiting: bool) -> None:
        """A thread's run began, went on, ended or waits."""
        if is_running:
            self._unrun.discard(key)
        if is_running or is_waiting:
            self._open.add(key)
        else:
            self._open.discard(key)

    def teleported_here(self, key: ThreadKey) -> None:
        """A session arrived; it is done only after a run of its own."""
        self._ever_arrived = True
        self._arrived.add(key)
        self._unrun.add(key)

    def teleported_away(self, key: ThreadKey) -> None:
        """A session left; what it does elsewhere is not ours."""
        for known in (self._open, self._arrived, self._unrun):
            known.discard(key)

    @property
    def agents_done(self) -> bool:
        return not self._open and not self._unrun

    @property
    def all_teleported_away(self) -> bool:
        """Every session that came here has left; false when none ever came."""
        return self._ever_arrived and not self._arrived
