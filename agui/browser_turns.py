"""Whose browser command runs: one at a time, in turns, each within its own deadline. Pure.

Sources take turns, so that one that sends many commands at once does not make the others wait for
all of them. Every command gets exactly one answer, at the latest when `expire` is called after its
deadline. The clock is an argument.
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from agui.browser_frames import BadCommand, BrowserCommand, frame_id, parse_command
from sessions.domain.frames import browser_failed

MOST_WAITING = 256
MOST_PER_SOURCE = 16
# Ids that an extension never answered. It may still do so, and must not be taken for an answer to
# another command that happens to have the same id.
_REMEMBERED = 256

REPLACED = "the browser extension was replaced by another one while it ran this; try again"
DISCONNECTED = "the browser extension disconnected while it ran this; try again once it is back"


class Extension(Protocol):
    """The connection that commands go to. Compared by identity."""

    def send(self, frame: bytes) -> None:
        """Take the frame. Never waits and never raises."""


@dataclass(slots=True, eq=False)
class Errand:
    """One command, from its arrival to its answer."""

    command: BrowserCommand
    frame: bytes
    source: Hashable
    deadline: float
    answer: Callable[[bytes], None] | None
    """Called once, with the result. None: answered, or whoever asked has left."""

    def settle(self, result: bytes) -> None:
        answer, self.answer = self.answer, None
        if answer is not None:
            answer(result)


@dataclass(slots=True)
class BrowserTurns:
    """The queue, the command that runs, and the extension that runs it."""

    longest_result: int
    """A larger result is replaced by an error: it would not fit where it has to go."""
    how_to_connect: str = "connect the browser extension"
    extension: Extension | None = None
    _running: Errand | None = None
    _waiting: dict[Hashable, deque[Errand]] = field(default_factory=dict[Hashable, deque[Errand]])
    """By source, in the order in which the sources have their turns."""
    _unanswered: deque[str] = field(default_factory=lambda: deque[str](maxlen=_REMEMBERED))

    def attach(self, extension: Extension) -> Extension | None:
        """Send commands there from now on. Returns the extension that it replaces, if any."""
        replaced, self.extension = self.extension, extension
        self._begin_again(REPLACED)
        return replaced

    def detach(self, extension: Extension) -> bool:
        """The extension is gone. False, and nothing happens, if it had been replaced before."""
        if extension is not self.extension:
            return False
        self.extension = None
        self._begin_again(DISCONNECTED)
        waiting = self._everyone_waiting()
        self._waiting.clear()
        for errand in waiting:
            errand.settle(browser_failed(errand.command.id, self._nobody_there()))
        return True

    def submit(
        self, frame: bytes, source: Hashable, answer: Callable[[bytes], None], now: float
    ) -> Errand | None:
        """Run the command, now or in its turn. None: it has been answered already."""
        self.expire(now)
        try:
            command = parse_command(frame)
        except BadCommand as exc:
            answer(browser_failed(frame_id(frame), str(exc)))
            return None
        refusal = self._refusal(source)
        if refusal is not None:
            answer(browser_failed(command.id, refusal))
            return None
        errand = Errand(command, frame, source, now + command.longest, answer)
        self._waiting.setdefault(source, deque()).append(errand)
        self._next()
        return errand

    def give_up(self, errand: Errand) -> None:
        """Nobody waits for it any more. If it runs it keeps the turn: the browser is busy."""
        errand.answer = None
        if errand is not self._running:
            self._forget(errand)

    def result(self, extension: Extension, frame: bytes) -> bool:
        """A result from a connection. False: it answers nothing, and is dropped."""
        running = self._running
        answered = frame_id(frame)
        if extension is not self.extension or answered is None:
            return False
        if running is None or running.command.id != answered:
            if answered in self._unanswered:
                self._unanswered.remove(answered)
            return False
        if len(frame) > self.longest_result:
            text = f"the browser's answer is {len(frame):,} bytes; {self.longest_result:,} fit"
            frame = browser_failed(answered, text)
        self._running = None
        running.settle(frame)
        self._next()
        return True

    def expire(self, now: float) -> None:
        """Answer what is past its deadline, and end its turn."""
        late = [errand for errand in self._everyone_waiting() if errand.deadline <= now]
        for errand in late:
            self._forget(errand)
            errand.settle(browser_failed(errand.command.id, _waited_in_vain(errand)))
        running = self._running
        if running is not None and running.deadline <= now:
            self._running = None
            self._unanswered.append(running.command.id)
            running.settle(browser_failed(running.command.id, _ran_in_vain(running)))
            self._next()

    @property
    def next_deadline(self) -> float | None:
        """When `expire` has something to do next."""
        deadlines = [errand.deadline for errand in self._everyone_waiting()]
        if self._running is not None:
            deadlines.append(self._running.deadline)
        return min(deadlines, default=None)

    def _refusal(self, source: Hashable) -> str | None:
        if self.extension is None:
            return self._nobody_there()
        of_this_source = len(self._waiting.get(source, ()))
        if of_this_source >= MOST_PER_SOURCE or len(self._everyone_waiting()) >= MOST_WAITING:
            return "too many browser commands wait already; send fewer at once"
        return None

    def _begin_again(self, reason: str) -> None:
        """The browser that ran a command is not the one that runs the next."""
        self._unanswered.clear()
        running, self._running = self._running, None
        if running is not None:
            running.settle(browser_failed(running.command.id, reason))
        self._next()

    def _next(self) -> None:
        if self._running is not None or self.extension is None or not self._waiting:
            return
        source = next(iter(self._waiting))
        errands = self._waiting.pop(source)
        errand = errands.popleft()
        if errands:
            self._waiting[source] = errands  # behind all the others
        if errand.command.id in self._unanswered:
            text = f"an earlier command with the id {errand.command.id!r} has no answer yet"
            errand.settle(browser_failed(errand.command.id, f"{text}; take a fresh id"))
            self._next()
            return
        self._running = errand
        self.extension.send(errand.frame)

    def _forget(self, errand: Errand) -> None:
        errands = self._waiting.get(errand.source)
        if errands is not None and errand in errands:
            errands.remove(errand)
            if not errands:
                del self._waiting[errand.source]

    def _everyone_waiting(self) -> list[Errand]:
        return [errand for errands in self._waiting.values() for errand in errands]

    def _nobody_there(self) -> str:
        return f"no browser extension is connected: {self.how_to_connect}"


def _ran_in_vain(errand: Errand) -> str:
    action, seconds = errand.command.action, errand.command.longest
    return f"{action}: the browser did not answer within {seconds:g} seconds"


def _waited_in_vain(errand: Errand) -> str:
    action, seconds = errand.command.action, errand.command.longest
    return f"{action}: the browser was busy with other commands for {seconds:g} seconds"
