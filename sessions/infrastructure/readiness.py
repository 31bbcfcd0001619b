"""Waiting in the kernel for several descriptors at once: `epoll`, and who is told of which.

Not the standard library's selectors: those make three objects of every event, which for a keeper,
that has one event a line, would cost as much as all the rest.
"""

import select
from collections.abc import Callable

READ, WRITE = 1, 4
"""As `poll` numbers them. An end or an error is told with either."""

Handler = Callable[[int], None]
"""Is told what its descriptor is ready for."""


class Readiness:
    """What one loop waits for."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._wanted: dict[int, tuple[int, Handler]] = {}

    def want(self, fd: int, events: int, handler: Handler) -> None:
        """From here on wait for these events; 0 is for none, not even an end."""
        known = self._wanted.get(fd)
        if known is None:
            if not events or fd < 0:
                return
            self._epoll.register(fd, events)
        elif known[0] == events:
            return
        elif events:
            self._epoll.modify(fd, events)
        else:
            self.forget(fd)
            return
        self._wanted[fd] = (events, handler)

    def forget(self, fd: int) -> None:
        """Before a descriptor is closed: its number may be somebody else's next."""
        if self._wanted.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def wait(self, patience: float) -> None:
        """Wait, at most so many seconds, and tell who is to be told."""
        for fd, events in self._epoll.poll(patience):
            # One that was told before this one may have forgotten it.
            wanted = self._wanted.get(fd)
            if wanted is not None:
                wanted[1](events)
