"""One request's visit to a thread: it follows, asks, and is told of refusals as exceptions.

Everything between an answer and the next frame to the registry is decided without a wait, so that
what was true when a request was judged is true when its input is handed over.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
import msgspec

from agui.endpoint.follower import Ended, Frame, HttpFollower
from agui.endpoint.joining import Join
from agui.endpoint.refusal import Refused, refused_by
from agui.stream.events import encode
from sessions.domain.keys import Cursor, ThreadKey
from sessions.domain.lines import peek
from sessions.domain.ports import Threads, ThreadView
from sessions.domain.ring import Coverage

# Longer than the registry itself waits for a worker, which it then answers for.
PATIENCE = 100.0


class Said(msgspec.Struct, rename="camel"):
    """Of any frame: what a request decides by."""

    type: str
    run_id: str | None = None
    id: str | None = None
    code: str | None = None
    message: str = "The worker refused it, and did not say why."

    @property
    def refuses(self) -> bool:
        """It answers this request, and ended no run."""
        return self.type == "RUN_ERROR" and self.run_id is None


_said = msgspec.json.Decoder(Said)


def said(frame: bytes) -> Said:
    """A member that is not what it should be says nothing: any program may be the worker."""
    try:
        return _said.decode(frame)
    except msgspec.ValidationError:
        return Said(peek(frame).type)


@dataclass(slots=True)
class Visit:
    """A follower of one thread, for the time of one request."""

    threads: Threads
    follower: HttpFollower
    key: ThreadKey

    def open(self, options: dict[str, str]) -> None:
        """Ask for the thread, launched with these options if it has no worker."""
        named = {"project_dir": self.key.project_dir, "id": self.key.conversation_id}
        self.hand_over({"type": "resume_conversation", **named, **options})

    def come_back(self, cursor: Cursor | None, options: dict[str, str]) -> int | None:
        """Follow from the cursor on; how many events were missed, or None: the thread is opened.

        Only a worker that runs has what was missed. Who comes from inside a worker has to open, as
        only that asks for rights.
        """
        view = self.view()
        is_there = cursor and view is not None and view.generation == cursor.generation
        if not is_there or self.follower.inside is not None:
            self.open(options)
            return None
        attachment = self.threads.attach(self.follower, self.key, cursor)
        return self.follower.waiting if attachment.coverage is Coverage.COMPLETE else None

    def hand_over(self, frame: object) -> None:
        self.threads.handle(self.follower, encode(frame))

    def ask(self, name: str, args: dict[str, str] | None = None) -> None:
        """Ask the worker something; the answer is read with `answer`."""
        self.hand_over({"type": "command", "id": name, "name": name, "args": args or {}})

    async def join(self) -> Join:
        """The answer to `open`. Raises Refused."""
        snapshot, _ = await self._frame("MESSAGES_SNAPSHOT")
        # They were delivered in one step, so they are all here.
        behind = self.follower.take_answers(lambda frame: said(frame).type.isupper())
        return Join(snapshot, behind)

    async def answer(self, name: str) -> bytes:
        """The answer to `ask`. Raises Refused."""
        frame, _ = await self._frame("command_result", name)
        return frame

    async def run_started(self, run_id: str, *, is_named: bool) -> tuple[Frame, str]:
        """The event that begins the run of this request's input, and the run's id. Raises Refused.

        `is_named`: the worker gives the run the id that was asked for; else the next run is it.
        """
        while True:
            frame, cursor = await self._frame("RUN_STARTED")
            started = said(frame).run_id
            if started and (started == run_id or not is_named):
                return (frame, cursor), started

    def view(self) -> ThreadView | None:
        """The thread as it is now."""
        return self.threads.view(self.key)

    async def _frame(self, kind: str, name: str | None = None) -> Frame:
        with anyio.move_on_after(PATIENCE):
            while True:
                try:
                    frame, cursor = await self.follower.next()
                except Ended as exc:
                    raise Refused(503, "shutting_down", f"Nothing was run: {exc}.") from exc
                found = said(frame)
                if found.refuses:
                    raise refused_by(found.code, found.message)
                if found.type == kind and (name is None or found.id == name):
                    return frame, cursor
        raise Refused(503, "no_answer", f"The worker did not answer in {PATIENCE:g} s.")


@contextmanager
def visiting(threads: Threads, follower: HttpFollower, key: ThreadKey) -> Generator[Visit]:
    """The registry forgets the follower on every way out. Its run goes on."""
    try:
        yield Visit(threads, follower, key)
    finally:
        threads.detach(follower)
