"""Whether a client comes from inside a worker, so that an agent can't approve its own requests.

A worker's token says so by itself. A process of the same user can also read the daemon's token, so
a connection that shows that one is looked up among the processes (`agui.process_tree`), once, at
its hello, in a thread. Looks are shared: one that begins after a client came serves all that
came before it began.
"""

import time

import anyio
import anyio.to_thread
import structlog

from agui.hello import BadHello
from agui.process_tree import Origin, ProcessTree, ScanTooLong
from sessions.domain.keys import ConversationId, ThreadKey
from sessions.domain.ports import Threads

# Some milliseconds are the rule. Who is not found in time counts as a person: that the machine is
# held up for a moment must not be enough for that.
_LONGEST_SCAN = 10.0

log = structlog.get_logger()


class Peers:
    """Answers for the connections to one port."""

    def __init__(self, threads: Threads, port: int) -> None:
        self._threads = threads
        self._port = port
        self._lock = anyio.Lock()
        self._begun = 0
        self._done = 0
        self._found: dict[int, ThreadKey | Origin] = {}

    async def inside(self, client_port: int) -> ThreadKey | None:
        """The thread inside whose worker the other end of a connection is, if it is inside one.

        Raises BadHello for what a worker that is gone has left behind.
        """
        arrived = self._begun
        async with self._lock:
            if self._done <= arrived:
                await self._look()
        origin = self._found.get(client_port)
        if isinstance(origin, str):
            origin = self._threads.worker_with(origin)
            if origin is None:
                raise BadHello("it comes from a worker that is gone")
        return origin if isinstance(origin, ThreadKey) else None

    async def _look(self) -> None:
        self._begun += 1
        number = self._begun
        workers = {
            view.worker_pid: ThreadKey(view.project_dir, ConversationId(view.conversation_id))
            for view in self._threads.views()
            if view.worker_pid is not None
        }
        tree = ProcessTree(frozenset(workers), self._port, time.monotonic() + _LONGEST_SCAN)
        found: dict[int, ThreadKey | Origin] = {}
        try:
            origins = await anyio.to_thread.run_sync(tree.origins)
            found.update(
                (port, workers[origin] if isinstance(origin, int) else origin)
                for port, origin in origins.items()
            )
        except (ScanTooLong, OSError, ValueError, IndexError) as exc:
            log.warning("peers_unknown", reason=type(exc).__name__)
        self._found = found
        self._done = number
