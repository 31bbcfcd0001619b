"""Who is told of a connection's events: each alone, so that one that fails harms nobody else."""

from collections.abc import Callable

import anyio
import structlog

from connection.events import Closed, ConnectionEvent, Listener

log = structlog.stdlib.get_logger()


class Listeners:
    """The subscribers of one connection. After `Closed`, or `end`, nobody is told anything."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._has_ended = False

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Returns what ends it; safe to repeat."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    def tell(self, event: ConnectionEvent) -> None:
        """Tell everyone, in the order they came."""
        if self._has_ended:
            return
        self._has_ended = isinstance(event, Closed)
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                # A listener's fault is its own: the others are told, and the connection goes on.
                log.exception("listener_failed", event_type=type(event).__name__)

    def end(self) -> None:
        """Whoever closed the connection wants to hear no more."""
        self._has_ended = True
        self._listeners.clear()


class Changed:
    """Lets a task wait for the next event of any kind. Not a queue: it looks, then waits again."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def __call__(self, event: ConnectionEvent) -> None:
        happened, self._event = self._event, anyio.Event()
        happened.set()

    def next(self) -> anyio.Event:
        """Take it before looking, so that nothing that happens in between is missed."""
        return self._event
